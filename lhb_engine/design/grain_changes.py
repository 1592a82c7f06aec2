"""What each grain of measurements changes in sums: rows come in, and corrected ones go out.

A correction is a measurement of its own, mostly in a later grain than the row that it replaces. In
that grain the row goes out of the sums as it came in. So the sums of earlier grains never change.
"""

from collections.abc import Iterator

import numpy as np

from lhb_engine.design import moment_sums
from lhb_engine.design.aligned_rounds import NEVER, AlignedRounds
from lhb_engine.design.level_sums import Levels
from lhb_engine.design.moment_sums import Columns, grains, moments_of
from lhb_engine.design.moments import Moments, SquareSums
from lhb_engine.history import Flags, Ints

Range = tuple[int, int]  # of positions: those after the first number, up to the second
# sign of what comes in or goes out, the rows as they are then, and the places of those that do
Moved = tuple[int, AlignedRounds, Ints]


def changes(
    rows: AlignedRounds, within: Range, known: int = NEVER
) -> Iterator[tuple[int, SquareSums]]:
    """Yield the number of each grain with measurements within a range, and what these change.

    Rows are those of the first `known` measurements; a later one takes out what it replaces. With
    levels, `rows` has all earlier rows of theirs.
    """
    if rows.replaced is None and within[0] >= known:
        return
    if rows.replaced is None and not rows.levels:
        now = rows if known == NEVER else rows.at(known)
        yield from grains(now, np.flatnonzero(_is_within(now.position, within)))
        return
    some, levels = rows.number > 0, None
    if rows.levels:
        place, position, until = rows.arrivals()
        touched = _is_within(position, within) | _is_within(until, within)
        some &= np.isin(rows.level, rows.level[place[touched]])
        levels = Levels(rows, np.flatnonzero(some))
    for last, moved in _steps(rows, (0 if levels else within[0], within[1]), known, some):
        if levels is None:
            yield (last - 1) // moment_sums.GRAIN, _moments(moved, either=True)
            continue
        change = [(sign, one, Columns.of(one), at) for sign, one, at in moved]
        if last <= within[0]:
            levels.add(change)
        else:
            found = levels.changed(change, _moments(moved, either=False))
            yield (last - 1) // moment_sums.GRAIN, found


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
    rows: AlignedRounds, within: Range, known: int, some: Flags
) -> Iterator[tuple[int, list[Moved]]]:
    """Yield where a grain ends and what moves in it, of some places; that of `known` is in two."""
    size, (place, position, until) = moment_sums.GRAIN, rows.arrivals()
    here = some[place]
    place, position, until = place[here], position[here], until[here]
    moved = np.concatenate([position[position <= known], until[until < NEVER]])
    ends = -(-moved[_is_within(moved, within)] // size) * size
    for end in np.unique(ends).tolist():
        after, end = max(end - size, within[0]), min(end, within[1])
        inside = [known] if after < known < end else []
        for start, stop in zip([after, *inside], [*inside, end], strict=True):
            gone = place[(position <= min(start, known)) & (until > start) & (until <= stop)]
            found = [(-1, rows.at(min(start, known), start), np.sort(gone))] if len(gone) else []
            now = rows.at(stop)
            new = np.flatnonzero(some & (now.position > start))
            if stop <= known and len(new):
                found.insert(0, (1, now, new))
            if found:
                yield stop, found


def _is_within(positions: Ints, within: Range) -> Flags:
    return np.asarray((positions > within[0]) & (positions <= within[1]))
