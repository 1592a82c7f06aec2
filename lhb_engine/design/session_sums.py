"""The moments of a session's past that its next fit starts from (docs/model.md 10).

A fit at a watermark needs the moments of all rows up to it, and of those that the installed
estimate's fit used. Both are added grain by grain, so they are the same numbers whether they are
added from the first row or from what was kept.
"""

from dataclasses import dataclass, replace

import numpy as np

from lhb_engine.design import moment_sums
from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moment_sums import added, grains
from lhb_engine.design.moments import Moments

FAR = 2**62


@dataclass(frozen=True)
class KeptSums:
    """What is kept of a session's rows between two fits. Rows before round `first` do not count.

    Attributes
    ----------
    first, last : int
        Rounds of the session: of the first row that counts, and of the last row in `settled`.
    n_settled : int
        Measurements in `settled`: the first ones of the session, a whole number of grains.
    settled : Moments
        Of their rows. A grain is settled when a fit has used all of its measurements.
    seen : Moments or None
        Of the rows that the installed estimate's fit used; None if there is no such estimate.
    """

    first: int
    last: int
    n_settled: int
    settled: Moments
    seen: Moments | None


@dataclass(frozen=True)
class Seen:
    """Which rows an earlier fit used: those of the first measurements, of rounds up to the last.

    Attributes
    ----------
    measured : int or None
        Number of measurements; None where arrivals are not known.
    last : int
        The session's round.
    """

    measured: int | None
    last: int

    def of(self, rows: AlignedRounds) -> np.ndarray:
        """Return which rows it used, (n_places,) bool."""
        known = (rows.number > 0) & (rows.last <= self.last)
        return known if self.measured is None else known & (rows.position <= self.measured)


@dataclass(frozen=True)
class SessionSums:
    """The moments of a fit's rows, and what is to be kept of them.

    Attributes
    ----------
    total : Moments
        Of all rows.
    kept : KeptSums
        With the same installed estimate as before.
    """

    total: Moments
    kept: KeptSums

    def after(self, installs: bool) -> KeptSums:
        """Return what is kept after the fit, which may have installed its own estimate."""
        return replace(self.kept, seen=self.total) if installs else self.kept

    @property
    def later(self) -> Moments | None:
        """Of the rows that the installed estimate's fit has not used; None if there is none."""
        seen = self.kept.seen
        if seen is None:
            return None
        n_lags = max(self.total.n_lags, seen.n_lags)
        return self.total.widened(n_lags) - seen.widened(n_lags)


def session_sums(
    rows: AlignedRounds,
    first: int,
    last: int,
    seen: Seen | None,
    kept: KeptSums | None,
    unsettled: int | None = None,
) -> SessionSums:
    """Add up the rows of a session from round `first` on.

    Parameters
    ----------
    rows : AlignedRounds
        With `kept`: at least the rows beyond its settled ones, and the rows that are pairs with
        them. Without: all rows.
    first, last : int
        The session's rounds.
    seen : Seen or None
        What the installed estimate's fit used.
    kept : KeptSums or None
        Of an earlier fit, with the same `first`.
    unsettled : int, optional
        Number of the first measurement that is no row and may become one. By default it is the
        first number that no row has, as where nothing was erased.

    Returns
    -------
    SessionSums
        Equal to the bit with `kept` and without.
    """
    n_settled = kept.n_settled if kept else 0
    settled = total = seen_total = Moments.zero(1, rows.contexts.shape[1], rows.groups)
    if kept:
        settled = total = kept.settled
    stop = _first_grain_not_whole(rows, n_settled)
    if unsettled is not None:
        stop = (unsettled - 1) // moment_sums.GRAIN
    counts = rows.number >= max(first, 1)
    used = rows.only(counts) if counts.any() else rows
    before, shared = np.zeros(len(used.y), bool), 0
    if kept is None and seen is not None:
        before = seen.of(used)
        unseen = used.position[(used.number > 0) & ~before]
        shared = (int(unseen.min()) - 1) // moment_sums.GRAIN if len(unseen) else FAR
    for grain, part in grains(used, np.flatnonzero(used.position > n_settled)):
        total = added(total, part)
        settled = total if grain < stop else settled
        seen_total = total if grain < shared else seen_total
    if before.any() and shared < FAR:
        known = used.only(before)
        places = np.flatnonzero(known.position > shared * moment_sums.GRAIN)
        for _, part in grains(known, places):
            seen_total = added(seen_total, part)
    found = kept.seen if kept else seen_total
    n_whole = stop * moment_sums.GRAIN
    return SessionSums(
        total, KeptSums(first, last, n_whole, settled, None if seen is None else found)
    )


def _first_grain_not_whole(rows: AlignedRounds, n_settled: int) -> int:
    """Return the number of the first grain, beyond the settled ones, that lacks a row."""
    start = n_settled // moment_sums.GRAIN
    position = rows.position[(rows.number > 0) & (rows.position > n_settled)]
    sizes = np.bincount((position - 1) // moment_sums.GRAIN - start, minlength=1)
    return start + int(np.argmax(np.append(sizes, 0) < moment_sums.GRAIN))
