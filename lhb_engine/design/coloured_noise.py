"""AR(1) noise, eps_t = rho eps_(t-1) + u_t with independent u_t (docs/model.md 7).

Quasi-differences, docs/model.md (7.16), have the noise u_t (Cochrane-Orcutt). A row that follows no
other is kept, scaled to the variance of u_t (Prais-Winsten). The quasi-difference of a lag is the
lag of the quasi-difference, so the rows keep the layout of `AlignedRounds`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from lhb_engine.design.aligned_rounds import NUMBERED, SCALED, AlignedRounds
from lhb_engine.design.levels import without_levels
from lhb_engine.history import Floats, Ints

FEWEST = 25  # pairs of consecutive rows, below which the noise is taken to be white
LEAST, MOST = 0.15, 0.99  # a smaller rho counts as 0, a larger one as 0.99
SURE = 3.0  # standard errors of rho under white noise, below which it counts as 0


def autocorrelation(rows: AlignedRounds, errors: Floats) -> float:
    """Return rho of docs/model.md (7.15), from the errors of consecutive rows about their mean.

    `errors` (n_places,) are zero where there is no row. At most 0.99; 0 with fewer than 25 pairs of
    rows, or if not clearly positive.
    """
    later = rows.followers()
    if len(later) < FEWEST:
        return 0.0
    mean = float(errors @ rows.intercept) / float(rows.intercept @ rows.intercept)
    left = errors - mean * rows.intercept
    now, last = left[later], left[rows.before[later]]
    return credible(float(now @ last), float(now @ now + last @ last) / 2, len(later))


def credible(product: float, size: float, n_pairs: int) -> float:
    """Return product / size, or 0 where it may be chance."""
    rho = product / size if size > 0 else 0.0
    return min(rho, MOST) if rho >= max(LEAST, SURE / np.sqrt(n_pairs)) else 0.0


def in_time(rows: AlignedRounds, rho: float) -> float:
    """Return the noise's correlation over time: where trajectories have levels, rho is theirs."""
    return 0.0 if rows.levels else rho


def innovations(rows: AlignedRounds, errors: Floats, rho: float) -> Floats:
    """Return u_t of every row, (n_places,) -> (n_places,); zero where there is no row.

    A row that follows no other has its error times sqrt(1 - rho^2). Where trajectories have levels,
    these are taken out instead.
    """
    if rho == 0.0:
        return errors
    if rows.levels:
        return without_levels(errors, rows.level, rows.intercept, rho)
    later = rows.followers()
    out = errors * np.sqrt(1.0 - rho**2)
    out[later] = errors[later] - rho * errors[rows.before[later]]
    return np.asarray(out)


def whitened(rows: AlignedRounds, rho: float) -> AlignedRounds:
    """Return the quasi-differenced rows docs/model.md (7.16), whose noise is u_t.

    The rows that follow no other come first, then the quasi-differences.
    """
    if rho == 0.0:
        return rows
    later, has_last = rows.followers(), rows.before >= 0
    is_later = np.zeros(len(rows.y), bool)
    is_later[later] = True
    alone = np.flatnonzero((rows.number > 0) & ~is_later)
    start, stop = max(0, int(alone[0]) - rows.n_lags + 1), int(alone[-1]) + 1
    is_alone = (rows.number > 0)[start:stop] & ~is_later[start:stop]
    scale = np.where(is_alone, np.sqrt(1.0 - rho**2), 0.0)
    gap = rows.n_lags - 1

    def joined(values: Floats) -> Floats:
        last = values[rows.before[is_later]]
        difference = np.zeros_like(values)
        difference[is_later] = values[is_later] - rho * last
        first = (values[start:stop].T * scale).T
        return np.concatenate([first, np.zeros((gap, *values.shape[1:])), difference])

    contexts = rows.contexts.copy()
    contexts[has_last] -= rho * rows.contexts[rows.before[has_last]]
    plain = rows.contexts[start:stop] * np.sqrt(1.0 - rho**2)

    def parted(values: Ints) -> Ints:
        alone, rest = np.where(is_alone, values[start:stop], 0), np.where(is_later, values, 0)
        return np.concatenate([alone, np.zeros(gap, np.int64), rest])

    none = np.full(len(plain) + gap + len(contexts), -1)
    values: dict[str, Any] = {name: joined(getattr(rows, name)) for name in SCALED}
    values |= {name: parted(getattr(rows, name)) for name in NUMBERED}
    return replace(
        rows,
        owner=none,
        before=none,
        contexts=np.concatenate([plain, np.zeros((gap, plain.shape[1])), contexts]),
        **values,
    )
