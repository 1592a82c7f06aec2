"""Kept sums without the rows of somebody who is to be forgotten (docs/model.md 10)."""

from dataclasses import replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.level_grains import level_grains
from lhb_engine.design.moment_sums import moments_of
from lhb_engine.design.session_sums import KeptSums, Seen
from lhb_engine.design.square_sums import SquareSums


def lessened(kept: KeptSums, rows: AlignedRounds, seen: Seen | None) -> KeptSums:
    """Return the sums less some rows that are in them, and less the pairs of these.

    They are equal to the sums of the other rows within rounding. Of a level that has both, what the
    other rows say stays as it is where these are known.

    Parameters
    ----------
    kept : KeptSums
    rows : AlignedRounds
        The rows to be taken out, and later ones.
    seen : Seen or None
        What the installed estimate's fit used.
    """
    counts = (rows.number > 0) & (rows.number >= kept.first) & (rows.last <= kept.last)
    settled = _less(kept.settled, rows, counts & (rows.position <= kept.n_settled))
    rest = kept.seen
    if rest is not None and seen is not None:
        rest = _less(rest, rows, counts & seen.of(rows))
    return replace(kept, settled=settled, seen=rest)


def _less(total: SquareSums, rows: AlignedRounds, which: np.ndarray) -> SquareSums:
    if not which.any():
        return total
    if not rows.levels:
        return less(total, moments_of(rows, np.flatnonzero(which)))
    only = rows.only(which)  # those of a level that are left, given the others
    for _, part in level_grains(only, np.flatnonzero(only.number > 0)):
        total = less(total, part)
    return total


def less(total: SquareSums, part: SquareSums) -> SquareSums:
    """Return moments less those of a part of their rows, which may see fewer lags."""
    n_lags = max(total.n_lags, part.n_lags)
    return total.widened(n_lags) - part.widened(n_lags)
