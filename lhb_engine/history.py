"""Histories: the selected contexts and the measurements of every trajectory.

A `History` is immutable and may hold views of its owner's arrays. `History.over(window)` has what
one fit needs: the window's measurements, and the contexts of its rounds and the lags before them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Spans = Mapping[str, tuple[int, int]]  # first and last round of some in each trajectory
LATEST = 2**15
LEAST_ROWS = 4  # of a fit
MOST_ROUNDS = 2**36  # more than a trajectory has: n of these and a round order rounds of several


class PastSizes(NamedTuple):
    """How much of a session's past a fit has as rows, and how the rest is added up."""

    latest: int = LATEST  # rounds that a fit has as rows beside its sums; checks look at no others
    most_read: int = 8  # times these: rounds that are read for them, the lags before included
    grain: int = 4096  # measurements in a partial sum
    n_grains: int = 8  # whose measurements are a slice, where a fit adds up all rows anew
    n_latest: int = 4  # times the latest rounds: with more, and no sums, a fit adds up slices
    least_stretch: int = 64  # rounds for which a trajectory keeps its level, at least
    horizons: int = 4  # and so many horizons: what pays over all lags varies within a stretch
    n_unread: int = LATEST // 8  # measurements of a fleet since its last fit that make one due
    n_slots: int = 256  # whose sums are in one row, at most
    n_positions: int = 2**15  # of decisions that are read at once to sum slots
    page: int = 256  # decisions of one trajectory that are read at once for this
    most_rows: int = 4096  # of sums of slots that one transaction keeps
    most_trajectories: int = 2048  # with a row in one stretch, unless one slot has more
    most_again: int = 2**15  # settled decisions that the next fit may read again

    def stretch(self, horizon: int) -> int:
        """Return for how many rounds a trajectory keeps its level."""
        return max(self.least_stretch, self.horizons * horizon)


SIZES = PastSizes()


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


def joined(owner: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
    """Return ranges of rounds in order of owners, those that overlap or touch as one."""
    order = np.argsort(owner * MOST_ROUNDS + first, kind="stable")
    owner, start, stop = owner[order], first[order], (owner * MOST_ROUNDS + last)[order]
    reach = np.maximum.accumulate(stop)
    begins = np.append(True, owner[1:] * MOST_ROUNDS + start[1:] > reach[:-1] + 1)[: len(order)]
    ends = np.append(begins[1:], True)[: len(order)]
    return owner[begins], start[begins], reach[ends] - owner[ends] * MOST_ROUNDS


def one_array(arrays: list[Any]) -> Any:
    """Return arrays as one, None where one is None; a single one is no copy."""
    if any(one is None for one in arrays):
        return None
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def some_of(values: Any, which: Any) -> Any:
    """Return values at some places; None of None."""
    return None if values is None else values[which]


def latest_keys(spans: Spans, n_lags: int, most: int) -> frozenset[str] | None:
    """Return the trajectories that a fit takes its latest rows from; None: all of them.

    `spans` are their first and last rounds. These, and twice the lags before each, are `most`
    rounds at most, or those of one trajectory where each alone is more. Which ones says a hash of
    the key: the chance is in proportion to the share of rows in what is read.
    """
    names = sorted(spans)
    first, last = np.array([spans[name] for name in names], np.int64).reshape(-1, 2).T
    n_read = last - np.maximum(first - 2 * n_lags, 1) + 1
    if n_read.sum() <= most:
        return None
    words = (blake2b(name.encode(), digest_size=8, person=b"lhb1:latest") for name in names)
    drawn = np.array([int.from_bytes(word.digest(), "little") * 2.0**-64 for word in words])
    late = np.where(n_read > most, np.inf, drawn * n_read / (last - first + 1))
    order = np.argsort(late, kind="stable")
    n = max(1, int(np.searchsorted(np.cumsum(n_read[order]), most, "right")))
    return frozenset(names[i] for i in order[:n].tolist())


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

    @classmethod
    def joined(cls, measured: Sequence["Measurements"]) -> "Measurements":
        """Return all, one after the other; positions are not known where those of one are not."""
        some = [one for one in measured if len(one)] or [*measured[:1]] or [NONE]
        beside: list[Any] = [one.covariates for one in some]
        width = next((values.shape[1] for values in beside if values is not None), None)
        if width is not None:
            none = [np.full((len(one), width), np.nan) for one in some]
            beside = [b if a is None else a for a, b in zip(beside, none, strict=True)]
        names = "first", "last", "value", "position"
        columns = [[getattr(one, name) for one in some] for name in names]
        return cls(*map(one_array, [*columns, beside]))

    def __len__(self) -> int:
        return len(self.value)

    def between(self, first: int, last: int) -> "Measurements":
        """Return those whose whole span is within rounds first..last."""
        inside = (self.first >= first) & (self.last <= last)
        return self if inside.all() else self.chosen(inside)

    def needed_rounds(self, n_lags: int) -> tuple[Ints, Ints]:
        """Return the first and the last of the rounds that the row of each is made from.

        A row needs its own rounds, the lags before them, and the same for the measurements of the
        same length directly before and after it, with which it may be a pair.
        """
        first, last = 2 * self.first - self.last - n_lags, 2 * self.last - self.first + 1
        return np.maximum(first, 1), last

    def chosen(self, which: np.ndarray | slice) -> "Measurements":
        """Return some of them, by a mask or a slice."""
        columns = self.first, self.last, self.value, self.position, self.covariates
        return Measurements(*(some_of(values, which) for values in columns))


NO_INTS = np.zeros(0, np.int64)
NONE = Measurements(NO_INTS, NO_INTS, np.zeros(0), NO_INTS)


class BeforeVoids(NamedTuple):
    """What rounds were before their decisions were voided.

    `position` (n_rounds,) is the number of the void in the order of the session's measurements; 0
    where there is none. `contexts` and `covariates` are those of `Parts`; before a fit is told of
    covariates these are (n_rounds, 0).
    """

    position: Ints
    contexts: Floats
    covariates: Floats


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


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of trajectories, one after the other in few arrays; each is made when asked for.

    A session may have many thousands of them; those of one trajectory are in order of rounds.
    """

    names: Sequence[str]  # (n,): the key of each part's trajectory
    # (n,): first round and numbers of rounds and of measurements of each part
    first_rounds: Ints
    lengths: Ints
    counts: Ints
    # of all rounds: (n_rounds, dim), their numbers in the session and (n_rounds, n_covariates)
    contexts: Floats
    numbering: Ints
    covariates: Floats | None
    measurements: Measurements  # of all parts, by the rounds of each one's trajectory
    # None where no fit can have used a round that was voided since
    before_voids: BeforeVoids | None = None

    @classmethod
    def of(cls, trajectories: "Trajectories") -> "Parts":
        """Return parts in these arrays; ValueError where covariates are odd."""
        return trajectories if isinstance(trajectories, cls) else cls.joined(trajectories.items())

    @classmethod
    def joined(cls, named: Iterable[tuple[str, Trajectory]]) -> "Parts":
        """Return parts, each with the key of its trajectory, in these arrays."""
        names, parts = [*zip(*named, strict=True)] or ((), ())
        if not parts:
            return cls([], *(NO_INTS,) * 3, np.zeros((0, 0)), NO_INTS, None, NONE)
        beside: list[Any] = [part.covariates for part in parts]
        width = max((values.shape[1] for values in beside if values is not None), default=None)
        if width is not None:
            beside = [np.zeros((0, width)) if one is None else one for one in beside]
            if [one.shape for one in beside] != [(len(one.contexts), width) for one in parts]:
                raise ValueError(f"every round needs {width} covariates")
        sizes = [(one.first_round, len(one.contexts), len(one.measurements)) for one in parts]
        first, lengths, counts = np.array(sizes, np.int64).T
        contexts = one_array([part.contexts for part in parts])
        rounds = contexts, one_array([part.numbering for part in parts]), one_array(beside)
        rows = Measurements.joined([part.measurements for part in parts])
        return cls(names, first, lengths, counts, *rounds, rows)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> Trajectory:
        """Return the first part of a trajectory."""
        return self._part(*self._places[self._first[name]])

    def values(self) -> list[Trajectory]:
        """Return each part."""
        return [*starmap(self._part, self._places)]

    def items(self) -> Iterator[tuple[str, Trajectory]]:
        """Return each part with the key of its trajectory."""
        return zip(self.names, self.values(), strict=True)

    def _part(self, first: int, rounds: slice, rows: slice) -> Trajectory:
        covariates = some_of(self.covariates, rounds)
        numbering, measured = self.numbering[rounds], self.measurements.chosen(rows)
        return Trajectory(self.contexts[rounds], measured, first, numbering, covariates)

    @cached_property
    def _places(self) -> list[tuple[int, slice, slice]]:
        edges = ([0, *np.cumsum(some).tolist()] for some in (self.lengths, self.counts))
        rounds, rows = (starmap(slice, pairwise(some)) for some in edges)
        return [*zip(self.first_rounds.tolist(), rounds, rows, strict=True)]

    @cached_property
    def _first(self) -> dict[str, int]:
        return dict(reversed([*zip(self.names, range(len(self)), strict=True)]))

    @cached_property
    def trajectories(self) -> tuple[Ints, tuple[str, ...]]:
        """Number of each part's trajectory, in the order in which they come, and their keys."""
        places = {name: i for i, name in enumerate(dict.fromkeys(self.names))}
        return np.array([places[name] for name in self.names], np.int64), tuple(places)

    @cached_property
    def starts(self) -> Ints:
        """(n,) the place of each part's first round."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def rounds(self) -> Ints:
        """(n_rounds,) number of each round in its trajectory."""
        numbers: Ints = self.spread(self.first_rounds - self.starts)
        return numbers + np.arange(len(self.contexts))

    @cached_property
    def owner(self) -> Ints:
        """(n_measurements,) the part of each measurement."""
        return np.repeat(np.arange(len(self)), self.counts)

    def spread(self, values: Any) -> Any:
        """Return a value for each round, given those of the parts."""
        return np.repeat(values, self.lengths)

    def inside(self) -> tuple[Flags, Measurements]:
        """Return which measurements are wholly in their part, and all at places of rounds."""
        shift = (self.starts - self.first_rounds)[self.owner]
        rows, start = self.measurements, self.starts[self.owner]
        first, last = rows.first + shift, rows.last + shift
        there = (first >= start) & (last < start + self.lengths[self.owner])
        return there, replace(rows, first=first, last=last)

    def spans(self, marked: Flags) -> tuple[Ints, Ints, Ints]:
        """Return the parts with `marked` rounds, and the first and the last of these in each."""
        of, at = self.spread(np.arange(len(self)))[marked], self.rounds[marked]
        begins = np.flatnonzero(np.diff(of, prepend=-1))
        ends = np.append(begins[1:], len(of))[: len(begins)] - 1
        return of[begins], at[begins], at[ends]

    def some(self, which: Flags) -> "Parts":
        """Return some parts, by a mask."""
        of, every = np.flatnonzero(which), np.ones(len(self.measurements), bool)
        first, last = self.first_rounds[of], (self.first_rounds + self.lengths)[of] - 1
        return self if which.all() else self.cut(of, first, last, every)

    def cut(self, of: Ints, first: Ints, last: Ints, kept: Flags) -> "Parts":
        """Return ranges of rounds of some parts, in order, as far as these have them.

        Of the measurements `kept` each has those that are wholly in it.
        """
        first = np.maximum(first, self.first_rounds[of])
        lengths = np.minimum(last, (self.first_rounds + self.lengths)[of] - 1) - first + 1
        start = (self.starts - self.first_rounds)[of] + first
        at = placed(of, first, lengths, self.owner, self.measurements)
        kept = kept & (at >= 0)
        here: Ints | slice = slice(start[0], start[0] + lengths[0]) if len(of) == 1 else NO_INTS
        if len(of) > 1:
            here = np.repeat(start - np.cumsum(lengths) + lengths, lengths)
            here += np.arange(len(here))
        names = [self.names[i] for i in of.tolist()]
        covariates = some_of(self.covariates, here)
        counts, rows = np.bincount(at[kept], minlength=len(of)), self.measurements.chosen(kept)
        rounds = self.contexts[here], self.numbering[here], covariates
        before: Any = self.before_voids and [values[here] for values in self.before_voids]
        return Parts(names, first, lengths, counts, *rounds, rows, before and BeforeVoids(*before))


Trajectories = Mapping[str, Trajectory] | Parts


def placed(of: Ints, first: Ints, lengths: Ints, owner: Ints, rows: Measurements) -> Ints:
    """Return which part each measurement is wholly in; -1 where there is none.

    Parts are of trajectories `of`, measurements of `owner`, both in order of these and of rounds.
    """
    if not len(of):
        return np.full(len(rows), -1)
    at = np.searchsorted(of * MOST_ROUNDS + first, owner * MOST_ROUNDS + rows.first, "right") - 1
    there = (at >= 0) & (of[at] == owner) & (rows.first >= first[at])
    return np.where(there & (rows.last < (first + lengths)[at]), at, -1)


@dataclass(frozen=True)
class History:
    """All trajectories of a session, or the part of them that one fit uses.

    Lags never reach across two trajectories; the schedule counts their rounds together.

    Attributes
    ----------
    dim : int
        Number of features in a context.
    trajectories : mapping from str to Trajectory, or Parts
        By trajectory key; `Parts` may have several of one trajectory.
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
    chosen : set of str or None
        Keys of the trajectories whose rows are the latest ones (`latest_keys`); None: all are.
    sets : mapping from int to (K, dim) arrays
        The context sets of some of the latest rounds, by the round's number in the session
        (`lhb_engine.context_sets`).
    grain : int
        How many measurements a partial sum of them has.
    rereads : bool
        The next fit can read all decisions again, as further columns need.
    """

    dim: int
    trajectories: Trajectories
    window: FitWindow | None = None
    groups: tuple[int, ...] = ()
    measured_before: int | None = None
    measured: int | None = None
    unsettled: int | None = None
    settled_round: int | None = None
    levels: int = 0
    latest_after: int | None = None
    chosen: frozenset[str] | None = None
    sets: Mapping[int, Floats] = field(default_factory=dict)
    rereads: bool = True
    grain: int = SIZES.grain

    @property
    def cut_window(self) -> FitWindow:
        """The window that `over` has cut; ValueError without one."""
        if self.window is None:
            raise ValueError("the history has no window: take History.over(window)")
        return self.window

    def checked_window(self) -> FitWindow:
        """Return the window; ValueError without it, its rounds, or finite rewards."""
        window = self.cut_window
        if not self.trajectories:
            raise ValueError("the history holds no round of its window")
        if not np.isfinite(Parts.of(self.trajectories).measurements.value).all():
            raise ValueError("rewards must be finite")
        return window

    def is_small(self, n_rounds: int) -> bool:
        """Return whether all rows may be among the latest ones, those of so many rounds."""
        after = self.latest_after
        return self.cut_window.last <= n_rounds if after is None else after == 0

    def latest(self, n: int, n_lags: int | None = None) -> "History":
        """Return the measurements of the window's last n rounds, with what their rows need.

        Where these are too few for a fit, as when rewards come later than that, it is the last n
        measurements in order of arrival. The lags are those of the window unless others are given.
        """
        after = self.latest_after
        if after is None:
            if self.measured is None or self.measures_latest(n):
                return self.since(self.cut_window.last - n + 1, n_lags)
            after = self.measured - n
        parts = self.of_chosen()
        there, rows = parts.inside()
        assert rows.position is not None
        return self._only(parts, there & (rows.position > after), n_lags)

    def measures_latest(self, n: int) -> bool:
        """Whether enough measurements for a fit are of the window's last n rounds."""
        parts = self.of_chosen()
        there, at = parts.inside()
        measured = np.bincount(at.first[there], minlength=len(parts.contexts)) > 0
        return int((measured & (parts.numbering > self.cut_window.last - n)).sum()) >= LEAST_ROWS

    def since(self, round: int, n_lags: int | None = None) -> "History":
        """Return the measurements from a round of the session on, with what their rows need.

        What is returned does not depend on what else the history holds.
        """
        parts = self.of_chosen()
        there, at = parts.inside()
        there[there] = parts.numbering[at.first[there]] >= round
        return self._only(parts, there, n_lags)

    def _only(self, parts: Parts, kept: Flags, n_lags: int | None = None) -> "History":
        """Return some of the measurements of parts, with what their rows need."""
        rows = parts.measurements.chosen(kept)
        reach = rows.needed_rounds(self.cut_window.n_lags if n_lags is None else n_lags)
        of, first, last = joined(parts.owner[kept], *reach)
        return replace(self, trajectories=parts.cut(of, first, last, kept))

    def of_chosen(self) -> Parts:
        """Return the trajectories that the latest rows are of; all, if none were drawn."""
        parts = Parts.of(self.trajectories)
        if self.chosen is None:
            return parts
        number, keys = parts.trajectories
        return parts.some(np.array([key in self.chosen for key in keys], bool)[number])

    def over(self, window: FitWindow) -> "History":
        """Return what a fit over `window` needs, with the trajectories of its latest rounds."""
        history = self.cut(window)
        if window.last <= LATEST or self.latest_after is not None or not history.trajectories:
            return history
        parts = Parts.of(history.trajectories)
        of, first, last = parts.spans(parts.numbering > window.last - LATEST)
        ends = zip(first.tolist(), last.tolist(), strict=True)
        spans = dict(zip([parts.names[i] for i in of.tolist()], ends, strict=True))
        return replace(history, chosen=latest_keys(spans, window.n_lags, SIZES.most_read * LATEST))

    def cut(self, window: FitWindow) -> "History":
        """Return the rounds of `window`, and those of the lags before."""
        parts = self.trajectories
        if parts:
            every = Parts.of(parts)
            of, first, last = every.spans(window.marks(every.numbering))
            kept = np.zeros(len(every.measurements), bool)
            if len(of):
                at = np.minimum(np.searchsorted(of, every.owner), len(of) - 1)
                kept = every.measurements.first >= first[at]
            parts = every.cut(of, first - window.n_lags + 1, last, kept)
        return replace(self, trajectories=parts, window=window)
