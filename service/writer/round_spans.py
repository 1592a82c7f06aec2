"""Spans of rounds that do not overlap, each with what belongs to it."""

from bisect import bisect_right
from typing import Generic, TypeVar

T = TypeVar("T")


class Spans(Generic[T]):
    """Found by any round they hold. Since none overlaps another, the last to start is the only
    candidate: a search costs log n, and so does one more in the order of rounds."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._spans: dict[int, tuple[int, T]] = {}

    def add(self, first: int, last: int, item: T) -> None:
        """Keep the item of rounds first..last; one that starts where another did replaces it."""
        if first not in self._spans:
            starts = self._starts
            starts.insert(bisect_right(starts, first), first)
        self._spans[first] = last, item

    def over(self, first: int, last: int) -> T | None:
        """The item of a span that shares a round with first..last (the one that starts last)."""
        place = bisect_right(self._starts, last)
        if not place:
            return None
        end, item = self._spans[self._starts[place - 1]]
        return item if end >= first else None
