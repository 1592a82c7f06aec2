"""Numbers whose sums, differences and products are exact.

A float is a whole number times a power of two, and so are sums and products of floats. What is
added can be taken away again: nothing of it is left, however large it was.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import frexp, inf
from typing import Self

DIGITS = 53  # of a float


@dataclass(slots=True)  # not frozen: thousands are made a step
class Exact:
    """The number ``whole * 2**power``."""

    whole: int = 0
    power: int = 0

    @classmethod
    def of(cls, value: float) -> Self:
        """Return a finite float."""
        fraction, power = frexp(value)
        return cls(int(fraction * 2**DIGITS), power - DIGITS)

    @classmethod
    def loads(cls, text: str) -> Self:
        """Invert `dumps`."""
        whole, power = text.split("p")
        return cls(int(whole, 16), int(power))

    def dumps(self) -> str:
        """Return the stored text, the same for equal numbers."""
        if self.whole == 0:
            return "0p0"
        zeros = (self.whole & -self.whole).bit_length() - 1
        return f"{self.whole >> zeros:x}p{self.power + zeros}"

    def __add__(self, other: "Exact") -> "Exact":
        """Return the sum."""
        if not other.whole:
            return self
        more = self.power - other.power
        if more >= 0:
            return Exact((self.whole << more) + other.whole, other.power)
        return Exact(self.whole + (other.whole << -more), self.power)

    def __neg__(self) -> "Exact":
        """Return the number with the other sign."""
        return Exact(-self.whole, self.power)

    def __sub__(self, other: "Exact") -> "Exact":
        """Return the difference."""
        return self + -other if other.whole else self

    def __mul__(self, other: "Exact") -> "Exact":
        """Return the product."""
        return Exact(self.whole * other.whole, self.power + other.power)

    @property
    def fraction(self) -> Fraction:
        """The number as a fraction."""
        if self.power >= 0:
            return Fraction(self.whole << self.power)
        return Fraction(self.whole, 1 << -self.power)

    def __float__(self) -> float:
        """Return the nearest float; infinity beyond the largest."""
        try:
            return float(self.fraction)
        except OverflowError:
            return inf if self.whole > 0 else -inf
