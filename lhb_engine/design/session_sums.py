"""The moments of a session's past that its next fit starts from (docs/model.md 10).

A fit at a watermark needs the moments of all rows up to it, and of those that the installed
estimate's fit used. Both are added grain by grain, so they are the same numbers whether they are
added from the first row or from what was kept.

A correction is a measurement of its own, mostly in a later grain than the row that it replaces. In
that grain the row goes out of the sums as it came in. So the sums of earlier grains never change.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.level_sums import Levels, LevelSums
from lhb_engine.design.moment_sums import Columns, grains, moments_of
from lhb_engine.design.moments import Moments, SquareSums
from lhb_engine.design.replaced_rows import NEVER
from lhb_engine.history import Flags, Ints

Range = tuple[int, int]  # of positions: those after the first number, up to the second
# sign of what comes in or goes out, the rows as they are then, and the places of those that do
Moved = tuple[int, AlignedRounds, Ints]


def changes(
    rows: AlignedRounds, within: Range, n_measured: int = NEVER
) -> Iterator[tuple[int, SquareSums]]:
    """Yield the number of each grain with measurements within a range, and what these change.

    Rows are those of the first `n_measured` measurements; a later measurement takes out the rows
    that it replaces. With levels, `rows` has all earlier rows of the same levels.
    """
    if rows.replaced is None and within[0] >= n_measured:
        return
    if rows.replaced is None and not rows.levels:
        now = rows if n_measured == NEVER else rows.at(n_measured)
        yield from grains(now, np.flatnonzero(_is_within(now.position, within)))
        return
    some, levels, begin = rows.number > 0, None, within[0]
    if rows.levels:
        begin = 0
        place, position, until = rows.arrivals()
        touched = _is_within(position, within) | _is_within(until, within)
        some &= np.isin(rows.level, rows.level[place[touched]])
        levels = Levels(rows, np.flatnonzero(some))
    elif rows.replaced is not None:  # grains before the first one that corrections touch
        near, old = rows.around(rows.replaced.place)[0].position, rows.replaced
        touched = np.concatenate([near, old.position, old.until, [n_measured, within[1]]])
        begin = int(touched[touched > begin].min(initial=n_measured) - 1) // rows.grain
        begin = max(begin * rows.grain, within[0])
        if begin > within[0]:
            yield from grains(rows, np.flatnonzero(_is_within(rows.position, (within[0], begin))))
    for last, moved in _steps(rows, (begin, within[1]), n_measured, some):
        if levels is None:
            yield (last - 1) // rows.grain, _moments(moved, either=True)
            continue
        change = [(sign, one, Columns.of(one), at) for sign, one, at in moved]
        if last <= within[0]:
            levels.add(change)
        else:
            sums = levels.changed(change, _moments(moved, either=False))
            yield (last - 1) // rows.grain, sums


def _moments(moved: list[Moved], *, either: bool) -> Moments:
    """Return the moments of the rows that come in, less those of the others and of their pairs."""
    total = None
    for sign, rows, places in moved:
        part = moments_of(rows, places, either=either and sign < 0)
        part = part if sign > 0 else Moments.zero(part.n_lags, part.dim, part.groups) - part
        total = part if total is None else total + part
    assert total is not None
    return total


def _steps(
    rows: AlignedRounds, within: Range, n_measured: int, some: Flags
) -> Iterator[tuple[int, list[Moved]]]:
    """Yield each grain's end and what moves in the grain, in two parts where `n_measured` lies."""
    size, (place, position, until) = rows.grain, rows.arrivals()
    here = some[place]
    place, position, until = place[here], position[here], until[here]
    moved = np.concatenate([position[position <= n_measured], until[until < NEVER]])
    ends = -(-moved[_is_within(moved, within)] // size) * size
    whole = (rows, np.arange(len(rows.y))) if rows.levels else None  # else other rows say nothing
    for end in np.unique(ends).tolist():
        after, end = max(end - size, within[0]), min(end, within[1])
        inside = [n_measured] if after < n_measured < end else []
        for start, stop in zip([after, *inside], [*inside, end], strict=True):
            gone = place[(position <= min(start, n_measured)) & (until > start) & (until <= stop)]
            moves, steps = place[_is_within(position, (start, stop))], []
            if stop <= n_measured and len(moves):
                near, places = whole or rows.around(moves)
                now = near.at(stop)
                steps.append((1, now, np.flatnonzero(some[places] & (now.position > start))))
            if len(gone):
                near, places = whole or rows.around(gone)
                then = near.at(min(start, n_measured), start)
                steps.append((-1, then, np.flatnonzero(np.isin(places, gone))))
            if steps:
                yield stop, steps


def _is_within(positions: Ints, within: Range) -> Flags:
    return np.asarray((positions > within[0]) & (positions <= within[1]))


MOST_GONE = 2.0**20  # times what is left: of 16 digits, ten stay


@dataclass(frozen=True)
class KeptSums:
    """What is kept of a session's rows between two fits. Rows before round `first` do not count.

    `settled` are the sums of the rows, up to round `last`, of the first `n_settled` measurements, a
    whole number of grains: a grain is settled when a fit has used all of its measurements. `seen`
    are those of the rows that the installed estimate's fit used, less those that settled
    corrections have replaced since; None if there is no such estimate, or if these rows may change:
    then all of those in `settled` are among them.
    """

    first: int
    last: int
    n_settled: int
    settled: SquareSums
    seen: SquareSums | None


@dataclass(frozen=True)
class Seen:
    """Which rows an earlier fit used: those of the first measurements, of rounds up to the last.

    Where arrivals are not known, all have arrived.
    """

    measured: int
    last: int


@dataclass(frozen=True)
class SessionSums:
    """The moments of a fit's rows, and what is to be kept of them.

    `seen` are those of the rows that the installed estimate's fit used and that stand.
    `total_stays`: no context of the rows can change any more. Else the next fit adds them up again.
    """

    total: SquareSums
    seen: SquareSums | None
    kept: KeptSums
    total_stays: bool = True

    def after(self, installs: bool) -> KeptSums:
        """Return what is kept after the fit, which may have installed its own estimate."""
        return replace(self.kept, seen=self.total) if installs else self.kept

    @property
    def later(self) -> SquareSums | None:
        """Of the rows that the installed estimate's fit has not used; None if there is none."""
        return None if self.seen is None else self.total - self.seen


class Slice(NamedTuple):
    """The rows of consecutive measurements of a session, in order of arrival, with those beside.

    Beside them are the rows that are pairs with them, and those of their levels. `stop` is the
    number of the last measurement: a multiple of the grain, or `NEVER` for all that there are.
    `unsettled` is the number of the first measurement after the slice before that is no row and may
    become one; more than `stop` if there is none in the slice.
    """

    rows: AlignedRounds
    stop: int
    unsettled: int


def session_sums(
    slices: Iterable[Slice],
    first: int,
    last: int,
    seen: Seen | None,
    kept: KeptSums | None = None,
    settled_round: int | None = None,
) -> SessionSums | None:
    """Add up the rows of a session from round `first` on; equal to the bit whatever was kept.

    Rows need not be there all at once: slices come from the first measurement on, or from the first
    that `kept` lacks, of an earlier fit with the same `first`. No more are taken than are needed
    for what is to be kept, which another call goes on from. None without a slice.

    `settled_round` is the last round whose context is sure to stay; by default all do. Until the
    rows of the installed estimate's fit (`seen`) are sure to stay, only grains that it used are
    settled.
    """
    running, after = None, 0 if kept is None else kept.n_settled
    n_settled, is_settled = after, True
    stays = seen is None or settled_round is None or seen.last <= settled_round
    for rows, stop, unsettled in slices:
        if running is None:
            zero = (LevelSums if rows.levels else Moments).zero(1, rows.dim, rows.groups)
            running = _Running(zero) if kept is None else _Running(kept.settled, kept.seen)
        begin = first if stop < NEVER or (rows.number >= first).any() else 1
        whole = max(min(unsettled, stop + 1) - 1, n_settled) // rows.grain
        whole = whole if is_settled else 0
        whole = running.add(rows, begin, (after, stop), whole, seen, only_seen=not stays)
        if is_settled:
            n_settled = whole * rows.grain
            is_settled = unsettled > stop and n_settled == stop
        after = stop
        if not is_settled and (not stays or seen is None or seen.measured <= stop):
            break
    if running is None:
        return None
    seen_sums = running.seen_to_keep if stays and seen is not None else None
    keep = KeptSums(first, last, n_settled, running.settled, seen_sums)
    used = None if seen is None else running.seen
    return SessionSums(running.total, used, keep, settled_round is None)


class _Running:
    """Sums that grow grain by grain: of all rows, of settled ones, and of those seen.

    As long as all rows were seen, the sum of these is that of all. Later corrections take rows out
    of it; those of grains that are not settled stay in `seen_to_keep`.
    """

    def __init__(self, begun: SquareSums, seen: SquareSums | None = None) -> None:
        self.total = self.settled = begun
        self.seen = self.seen_to_keep = begun if seen is None else seen
        self._has_seen, self._all_seen = seen is not None, seen is None

    def add(
        self,
        rows: AlignedRounds,
        first: int,
        within: Range,
        stop: int,
        seen: Seen | None,
        *,
        only_seen: bool = False,
    ) -> int:
        """Add the rows from round `first` on that are within a range of positions.

        Grains before number `stop` are settled; of `only_seen`, those alone all of whose rows were
        seen. Return the number of the first grain that is not.
        """
        counts = rows.number >= max(first, 1)
        if not counts.any():
            return stop
        used, shared = rows.only(counts), 0
        if seen is not None and self._all_seen:
            place, position, _ = used.arrivals()
            unseen = (position > seen.measured) | (used.last[place] > seen.last)
            unseen &= (position > within[0]) & (position <= within[1])
            shared = NEVER
            if unseen.any():
                shared = (int(position[unseen].min()) - 1) // rows.grain
        stop = min(stop, shared) if only_seen else stop
        for grain, part in changes(used, within):
            self.total = self.total + part
            self.settled = self.total if grain < stop else self.settled
            if grain < shared:
                self.seen = self.seen_to_keep = self.total
        self._all_seen = shared == NEVER
        is_seen = (used.number > 0) & (used.last <= (0 if seen is None else seen.last))
        if seen is None or self._all_seen or not is_seen.any():
            return stop
        edge = min(max(within[0], seen.measured), within[1])
        begin = edge if self._has_seen else max(within[0], shared * rows.grain)
        used = used.only(is_seen)
        for some in ((begin, edge), (edge, within[1])):
            for grain, part in changes(used, some, seen.measured):
                self.seen = self.seen + part
                if some[0] < seen.measured or grain < stop:
                    self.seen_to_keep = self.seen
        return stop


def loses_digits(rows: AlignedRounds, kept: KeptSums, sums: SessionSums) -> bool:
    """Return whether rows that go out of kept sums were so large that what is left is rounding."""
    if rows.replaced is None:
        return False
    gone = rows.replaced.y[rows.replaced.until > kept.n_settled]
    return float(gone @ gone) > MOST_GONE * sums.total.rows.square


def lessened(kept: KeptSums, rows: AlignedRounds, seen: Seen | None) -> KeptSums:
    """Return the sums less some rows that are in them, and less the pairs of these.

    The result is equal to the sums of the other rows within rounding. Of a level with rows of both
    kinds, what the other rows say stays as it is where the other rows are known. `rows` are those
    to be taken out, and later ones; `seen` is what the installed estimate's fit used.
    """
    counts = (rows.number >= max(kept.first, 1)) & (rows.last <= kept.last)
    settled, rest = _less(kept.settled, rows.at(kept.n_settled), counts), kept.seen
    if rest is not None and seen is not None:
        used = rows.at(seen.measured, max(seen.measured, kept.n_settled))
        rest = _less(rest, used, counts & (rows.last <= seen.last))
    return replace(kept, settled=settled, seen=rest)


def _less(total: SquareSums, rows: AlignedRounds, which: Flags) -> SquareSums:
    which = which & (rows.number > 0)
    if not which.any():
        return total
    if not rows.levels:
        return total - moments_of(rows, np.flatnonzero(which))
    only = rows.only(which)  # those of a level that are left, given the others
    for _, part in changes(only, (0, NEVER)):
        total = total - part
    return total
