"""The randomness of a round: a documented hash, so that replay needs no generator state.

A draw is blake2b-64 of (seed, trajectory, round, counter), personalised by a purpose tag. numpy
may change its generators' streams between releases; the hash stays the same.
"""

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

SEED_LIMIT = 2**53  # the largest range that JSON numbers carry exactly
_WORD = 2**64
_NUMBERS = Struct("<4Q")


class Draw(NamedTuple):
    """The randomness of one round of one trajectory, computed on demand.

    `seed`, in [0, 2**53), `trajectory` and `round` are hashed. `position`, which counts rounds in
    the session, and `turn`, which counts them in the trajectory, are not; by default these are
    `round`. Where rounds are slots of time, both are the slot.
    """

    seed: int
    trajectory: str
    round: int
    position: int | None = None
    turn: int | None = None

    def below(self, n: int, purpose: str = "arm") -> int:
        """Draw a uniform integer in [0, n), without modulo bias (rejection sampling)."""
        if n < 1:
            raise ValueError("n must be at least 1")
        limit = _WORD - _WORD % n
        counter = 0
        while (word := self._word(purpose, counter)) >= limit:
            counter += 1
        return word % n

    def uniform(self, purpose: str) -> float:
        """Draw a uniform float in [0, 1), a multiple of 2**-53."""
        return (self._word(purpose, 0) >> 11) * 2.0**-53

    def _word(self, purpose: str, counter: int) -> int:
        name = self.trajectory.encode()
        message = _NUMBERS.pack(self.seed, self.round, counter, len(name))
        tag = b"lhb1:" + purpose.encode()  # blake2b takes at most 16 bytes here
        return int.from_bytes(blake2b(message + name, digest_size=8, person=tag).digest(), "little")
