"""Noise that remembers the last round's: eps_t = rho eps_(t-1) + u_t, with independent u_t.

Quasi-differences x_t - rho x_(t-1) and y_t - rho y_(t-1) leave u_t alone (Cochrane and Orcutt). A
row that follows no other is kept as it is, scaled to the variance of u_t (Prais and Winsten). The
quasi-difference of a lag is the lag of the quasi-difference: the rows stay rows in place.
"""

from dataclasses import replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.history import Floats

FEWEST = 60  # rows that follow another, below which noise is taken for white
LEAST, MOST = 0.15, 0.99
SURE = 3.0  # standard errors of a correlation of independent errors


def autocorrelation(rows: AlignedRounds, errors: Floats) -> float:
    """Return rho, the correlation of the errors of consecutive rows about their mean.

    It is 0 where rows are few or the correlation is faint.

    Parameters
    ----------
    rows : AlignedRounds
    errors : (n_places,) array
        Zero where there is no row.
    """
    later = rows.followers()
    if len(later) < FEWEST:
        return 0.0
    level = float(errors @ rows.intercept) / float(rows.intercept @ rows.intercept)
    left = errors - level * rows.intercept
    now, last = left[later], left[rows.before[later]]
    size = float(np.sqrt((now @ now) * (last @ last)))
    rho = float(now @ last) / size if size > 0 else 0.0
    return min(rho, MOST) if rho >= max(LEAST, SURE / np.sqrt(len(later))) else 0.0


def innovations(rows: AlignedRounds, errors: Floats, rho: float) -> Floats:
    """Return u_t of every row, (n_places,) -> (n_places,); zero where there is no row."""
    if rho == 0.0:
        return errors
    later = rows.followers()
    out = errors * np.sqrt(1.0 - rho**2)
    out[later] = errors[later] - rho * errors[rows.before[later]]
    return np.asarray(out)


def whitened(rows: AlignedRounds, rho: float) -> AlignedRounds:
    """Return the rows of which the noise is u_t: those that follow none come first."""
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
        return np.concatenate([values[start:stop] * scale, np.zeros(gap), difference])

    contexts = rows.contexts.copy()
    contexts[has_last] -= rho * rows.contexts[rows.before[has_last]]
    plain = rows.contexts[start:stop] * np.sqrt(1.0 - rho**2)
    first = np.where(is_alone, rows.number[start:stop], 0)
    rest = np.where(is_later, rows.number, 0)
    number = np.concatenate([first, np.zeros(gap, np.int64), rest])
    return replace(
        rows,
        contexts=np.concatenate([plain, np.zeros((gap, plain.shape[1])), contexts]),
        y=joined(rows.y),
        intercept=joined(rows.intercept),
        number=number,
        before=np.full(len(number), -1),
    )
