"""Histories: the selected contexts and the measurements of every trajectory.

A `History` is immutable and may hold views of its owner's arrays. `History.over(window)` has what
one fit needs: the window's measurements, and the contexts of its rounds and the lags before them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
# rounds of the session that a fit has as rows beside its sums; its checks look at no others, so
# they find the same with sums and without
LATEST = 2**15
LEAST_ROWS = 4  # of a fit
MANY = 32  # measurements from which numpy joins ranges faster than a loop


@dataclass(frozen=True)
class FitWindow:
    """The rounds that a fit uses, and when it is due. Rounds are counted over the session."""

    epoch: int  # number of the epoch that ends with this fit, from 1
    # first, last: of the rounds whose measurements are rows
    first: int
    last: int
    n_lags: int  # number of lags fitted
    due: int  # the epoch's last round; the fit happens after it

    def marks(self, numbering: Ints) -> Flags:
        """Return which rounds of the session are in the window, (n,) -> (n,)."""
        return (numbering >= self.first) & (numbering <= self.last)


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of rounds in order, those that overlap or touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


@dataclass(frozen=True)
class Measurements:
    """Values over spans of rounds, sorted by `first`.

    An ordinary reward has first == last; a missing reward has no entry. What fits that keep sums
    read has values that were corrected, too: of several over the same rounds the last one counts.
    """

    # first, last (n,): first and last round of each span, in the trajectory's rounds
    first: Ints
    last: Ints
    value: Floats  # (n,): sum of the rewards of the span's rounds
    # (n,): number of each in the session, in order of arrival; None where that is not known
    position: Ints | None = None
    # (n, n_covariates): what was measured with each, over its whole span; NaN, or None for all: the
    # sum of what its rounds have
    covariates: Floats | None = None

    @classmethod
    def single(cls, rounds: Ints, value: Floats) -> "Measurements":
        """Make measurements of one round each."""
        return cls(rounds, rounds, value)

    def __len__(self) -> int:
        return len(self.value)

    def between(self, first: int, last: int) -> "Measurements":
        """Return those whose whole span is within rounds first..last."""
        inside = (self.first >= first) & (self.last <= last)
        return self if inside.all() else self.chosen(inside)

    def needed_rounds(self, n_lags: int) -> list[tuple[int, int]]:
        """Return the ranges of rounds that rows of these measurements are made from, in order.

        A row needs its own rounds, the lags before them, and the same for the measurements of the
        same length directly before and after it, with which it may be a pair.
        """
        if len(self) < MANY:
            spans = zip(self.first.tolist(), self.last.tolist(), strict=True)
            return joined((max(1, 2 * a - b - n_lags), 2 * b - a + 1) for a, b in spans)
        start = np.maximum(2 * self.first - self.last - n_lags, 1)
        stop = 2 * self.last - self.first + 1
        order = np.argsort(start, kind="stable")
        start, stop = start[order], np.maximum.accumulate(stop[order])
        ends = np.flatnonzero(start[1:] > stop[:-1] + 1)
        first, last = start[np.append(0, ends + 1)], stop[np.append(ends, len(stop) - 1)]
        return list(zip(first.tolist(), last.tolist(), strict=True))

    def chosen(self, which: np.ndarray | slice) -> "Measurements":
        """Return some of them, by a mask or a slice."""
        position = None if self.position is None else self.position[which]
        beside = None if self.covariates is None else self.covariates[which]
        return Measurements(
            self.first[which], self.last[which], self.value[which], position, beside
        )


@dataclass(frozen=True)
class Trajectory:
    """Consecutive rounds of one trajectory."""

    # (n_rounds, dim): selected contexts; row i belongs to round `first_round + i`. A round without
    # action is 0
    contexts: Floats
    measurements: Measurements  # by the trajectory's own round numbers
    first_round: int = 1  # number of the first row, from 1
    # (n_rounds,): number of each round in the session; by default its number in the trajectory
    positions: Ints | None = None
    # (n_rounds, n_covariates): what else moves the reward in each round; none by default
    covariates: Floats | None = None

    @property
    def numbering(self) -> Ints:
        """(n_rounds,) number of each round in the session."""
        if self.positions is not None:
            return self.positions
        return np.arange(self.first_round, self.first_round + len(self.contexts))

    @property
    def last_round(self) -> int:
        """Number of the last row."""
        return self.first_round + len(self.contexts) - 1

    def rounds(self, first: int, last: int, measurements: Measurements) -> "Trajectory":
        """Return those of the rounds first..last that it has, with these measurements."""
        start, stop = max(first - self.first_round, 0), last - self.first_round + 1
        return Trajectory(
            self.contexts[start:stop],
            measurements,
            self.first_round + start,
            self.numbering[start:stop],
            None if self.covariates is None else self.covariates[start:stop],
        )

    def over(self, window: FitWindow) -> "Trajectory | None":
        """Return the part that a fit over `window` needs; None where no round is in it."""
        inside = window.marks(self.numbering)
        if not inside.any():
            return None
        rows = np.flatnonzero(inside) + self.first_round
        first, last = int(rows[0]), int(rows[-1])
        return self.rounds(first - window.n_lags + 1, last, self.measurements.between(first, last))


@dataclass(frozen=True)
class History:
    """All trajectories of a session, or the part of them that one fit uses.

    Lags never reach across two trajectories; the schedule counts their rounds together.

    Attributes
    ----------
    dim : int
        Number of features in a context.
    trajectories : mapping from str to Trajectory
        By trajectory key. Parts of one trajectory differ after a zero byte.
    window : FitWindow or None
        The window that `over` has cut.
    groups : tuple of int
        Numbers of columns of the groups of covariates: those of a group matter together or not at
        all.
    levels : int
        For how many rounds a trajectory keeps a level of its own; 0: it has none.
    measured_before : int or None
        How many of the session's measurements the installed estimate's fit could use, in order of
        arrival; None where arrivals are not known.
    measured : int or None
        How many this fit could use.
    unsettled : int or None
        Number of the first measurement of the session, in order of arrival, that is no row of this
        history and may be one of a later fit; None where arrivals are not known. Where rounds are
        slots, that is also a row whose contexts may change.
    settled_round : int or None
        Last round whose context is sure to stay, where later ones may change; None: all do.
    latest_after : int or None
        Where each trajectory has all rounds of the session: the latest rows are those of
        measurements after this one, in order of arrival. None: they are those of the latest rounds.
    sets : mapping from int to (K, dim) arrays
        The context sets of some of the latest rounds, by the round's number in the session
        (`lhb_engine.context_sets`).
    """

    dim: int
    trajectories: Mapping[str, Trajectory]
    window: FitWindow | None = None
    groups: tuple[int, ...] = ()
    measured_before: int | None = None
    measured: int | None = None
    unsettled: int | None = None
    settled_round: int | None = None
    levels: int = 0
    latest_after: int | None = None
    sets: Mapping[int, Floats] = field(default_factory=dict)

    def checked_window(self) -> FitWindow:
        """Return the window; ValueError without it, its rounds, or finite rewards."""
        if self.window is None:
            raise ValueError("the history has no window: take History.over(window)")
        if not self.trajectories:
            raise ValueError("the history holds no round of its window")
        values = [part.measurements.value for part in self.trajectories.values()]
        if not np.isfinite(np.concatenate(values)).all():
            raise ValueError("rewards must be finite")
        return self.window

    def is_small(self, n_rounds: int) -> bool:
        """Return whether all rows may be among the latest ones, those of so many rounds."""
        assert self.window is not None
        after = self.latest_after
        return self.window.last <= n_rounds if after is None else after == 0

    def latest(self, n: int, n_lags: int | None = None) -> "History":
        """Return the measurements of the window's last n rounds, with what their rows need.

        Where these are too few for a fit, as when rewards come later than that, it is the last n
        measurements in order of arrival. The lags are those of the window unless others are given.
        """
        assert self.window is not None
        after = self.latest_after
        if after is None:
            if self.measured is None or self.measures_latest(n):
                return self.since(self.window.last - n + 1, n_lags)
            after = self.measured - n
        return self._only(lambda part, rows: _arrivals(rows) > after, n_lags)

    def measures_latest(self, n: int) -> bool:
        """Whether enough measurements for a fit are of the window's last n rounds."""
        assert self.window is not None
        first, found = self.window.last - n + 1, 0
        for part in self.trajectories.values():
            rows = part.measurements.between(part.first_round, part.last_round)
            measured = np.unique(part.numbering[rows.first - part.first_round])
            found += int((measured >= first).sum())
            if found >= LEAST_ROWS:
                return True
        return False

    def since(self, round: int, n_lags: int | None = None) -> "History":
        """Return the measurements from a round of the session on, with what their rows need.

        What is returned does not depend on what else the history holds.
        """
        return self._only(
            lambda part, rows: part.numbering[rows.first - part.first_round] >= round, n_lags
        )

    def _only(
        self, chosen: Callable[[Trajectory, Measurements], Flags], n_lags: int | None = None
    ) -> "History":
        """Return some of the measurements, with what their rows need."""
        assert self.window is not None
        reach = self.window.n_lags if n_lags is None else n_lags
        parts: dict[str, Trajectory] = {}
        for key, part in self.trajectories.items():
            new = part.measurements.between(part.first_round, part.last_round)
            new = new.chosen(chosen(part, new))
            for first, last in new.needed_rounds(reach) if len(new) else []:
                parts[f"{key}\0{first}"] = part.rounds(first, last, new.between(first, last))
        return replace(self, trajectories=parts)

    def over(self, window: FitWindow) -> "History":
        """Return what a fit over `window` needs."""
        found = ((key, part.over(window)) for key, part in self.trajectories.items())
        parts = {key: part for key, part in found if part is not None}
        return replace(self, trajectories=parts, window=window)


def _arrivals(rows: Measurements) -> Ints:
    assert rows.position is not None
    return rows.position
