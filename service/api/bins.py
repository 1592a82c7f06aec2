"""Bins of a session's rounds: equally many of the session, of each trajectory, or equal times."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from fastapi import Query

from clients.sdk.answers import By
from lhb_engine.history import Floats, Ints
from service.api.answer_models import timestamp
from service.rounds.timeline import Timeline

BY: By = Query(
    "position",
    description="equally many rounds of the session, equally many of each trajectory (users side "
    "by side), or equal times",
)
DAY = 86_400
WIDTHS = (1, 60, 300, 900, 3600, 6 * 3600, DAY, 7 * DAY, 28 * DAY, 364 * DAY)  # in seconds


class Bins(NamedTuple):
    """Consecutive bins; a number is a round of the session, or of its trajectory.

    `begins` is when each bin begins, in Unix seconds, and `seconds` the width of bins of time.
    """

    edges: Ints  # (n + 1,): first number of each bin, and the one after the last
    begins: Sequence[float | None]
    seconds: int | None = None

    def places(self) -> list[dict[str, Any]]:
        """Return where each bin is, as its answer says."""
        ends = zip(pairwise(self.edges.tolist()), self.begins, strict=True)
        return [{"first_round": a, "last_round": b - 1, "at": timestamp(at)} for (a, b), at in ends]


def bins_of(
    timeline: Timeline, by: By, n: int, ends: tuple[int, int], rows: Sequence[tuple[Any, ...]]
) -> Bins:
    """Cut the numbers between two ends into at most n bins.

    `rows` begin with number and time, in order; without any, no time is known. A number without a
    row has the time of the one before. A bin of equal times is as wide as the first of `WIDTHS`, or
    of slots, that allows it; bins without a round are left out.
    """
    first, last = ends
    if not rows or by == "round":
        return of_numbers(first, last, n)
    times = np.zeros(last - first + 1)
    for number, at, *_ in rows:
        times[number - first] = at
    times[0] = times[0] or min(at for _, at, *_ in rows)
    times = np.maximum.accumulate(times)
    if by != "time":
        return of_numbers(first, last, n, times)
    span, start = times[-1] - times[0], int(timeline.begins(1) or 0)
    widths = timeline.widths(WIDTHS)
    width = int(next((w for w in widths if span / w < n - 1), max(1.0, span)))
    begins, starts = np.unique(np.floor((times - start) / width), return_index=True)
    edges = np.append(first + starts, last + 1).astype(np.int64)
    return Bins(edges, (start + width * begins).tolist(), width)


def of_numbers(first: int, last: int, n: int, times: Floats | None = None) -> Bins:
    """Cut numbers first..last into at most n bins; `times` are those of each number, if known."""
    edges = np.unique(np.linspace(first, last + 1, n + 1).astype(np.int64))
    if times is None:
        return Bins(edges, [None] * (len(edges) - 1))
    return Bins(edges, times[edges[:-1] - first].tolist())
