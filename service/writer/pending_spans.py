"""A map from spans of rounds, which do not overlap, to items.

A unit of work keeps its pending measurements in it. Which rounds a reward means is checked in
`service.rounds.reward_rounds`.
"""

from bisect import bisect_right
from typing import Generic, TypeVar

T = TypeVar("T")


class Spans(Generic[T]):
    """Items by span of rounds, found by any round of the span.

    Spans do not overlap, so the one that starts last is the only candidate: a search takes
    O(log n), and so does adding a span after all others.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._spans: dict[int, tuple[int, T]] = {}

    def add(self, first: int, last: int, item: T) -> None:
        """Add the item of rounds first..last, replacing one that starts at the same round."""
        if first not in self._spans:
            starts = self._starts
            starts.insert(bisect_right(starts, first), first)
        self._spans[first] = last, item

    def over(self, first: int, last: int) -> T | None:
        """Return the item whose span overlaps rounds first..last and starts last, or None."""
        place = bisect_right(self._starts, last)
        if not place:
            return None
        end, item = self._spans[self._starts[place - 1]]
        return item if end >= first else None
