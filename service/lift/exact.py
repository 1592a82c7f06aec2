"""Numbers whose sums, differences and products are exact: floats as whole numbers of one unit.

The unit is 2**-1074, the least float above 0, so every float is a whole number of units. A product
of two is a whole number of the unit's square. What is added can be taken away again: nothing of it
is left, however large it was.
"""

from fractions import Fraction
from math import inf

DIGITS = 1074
ONE = 1 << DIGITS  # the number 1


def exact(value: float) -> int:
    """Return a finite float in units."""
    whole, parts = value.as_integer_ratio()
    return whole << (DIGITS + 1 - parts.bit_length())  # parts are a power of 2


def nearest(number: int) -> float:
    """Return the nearest float of a number of units; infinity beyond the largest."""
    try:
        return number / ONE
    except OverflowError:
        return inf if number > 0 else -inf


def fraction(number: int, power: int = 1) -> Fraction:
    """Return a number of units, or with power 2 of their squares, as a fraction."""
    return Fraction(number, ONE**power)


def dumps(number: int, power: int = 1) -> str:
    """Return the stored text ``whole p exponent`` of whole * 2**exponent, the whole being odd."""
    if number == 0:
        return "0p0"
    zeros = (number & -number).bit_length() - 1
    return f"{number >> zeros:x}p{zeros - power * DIGITS}"


def loads(text: str, power: int = 1) -> int:
    """Invert `dumps`."""
    whole, exponent = text.split("p")
    return int(whole, 16) << (int(exponent) + power * DIGITS)
