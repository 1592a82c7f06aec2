"""Rewards and contexts far beyond the others, so that one of them decides no direction.

Equation numbers are those of docs/model.md.
"""

from dataclasses import replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.history import Floats
from lhb_engine.posterior.predictor import Predictor

LEAST_ROWS = 30
FAR = 6.0  # standard deviations of normal errors of the same median
NORMAL_MEDIAN = 0.6745  # of the size of a standard normal number
MOST = 0.1  # of the rows, or of those since the last fit: more are no outliers, but a change
RARE = 0.01  # of the rounds: more contexts beyond the others are no mistakes
REPEATED = 0.25  # of the rows: rewards that have one value so often are clicks, counts or prices


def are_repeated(rows: AlignedRounds) -> bool:
    """Whether many rewards are equal, as where most are 0."""
    _, counts = np.unique(rows.y[rows.number > 0], return_counts=True)
    return bool(counts.max(initial=0) > max(1.0, REPEATED * counts.sum()))


def largest(contexts: Floats) -> Floats:
    """Return the size from which on a number of a feature is far beyond its others, (dim,)."""
    sizes = (size[size > 0.0] for size in np.abs(contexts.T))
    medians = [float(np.median(size)) if len(size) else 0.0 for size in sizes]
    return FAR / NORMAL_MEDIAN * np.array(medians)


def without_outliers(rows: AlignedRounds, predictor: Predictor | None) -> AlignedRounds:
    """Return the rows with rewards within (7.32) of what `predictor` predicts.

    Without a predictor rewards are cut about their median. Where rewards are repeated, as clicks
    are, or many are far off, since something changed, all stay. Rows that see one of few contexts
    far beyond the others are left out: cut, such a row would say that the prediction was right.
    """
    at = np.flatnonzero(rows.number > 0)
    if len(at) < LEAST_ROWS or are_repeated(rows):
        return rows
    left = rows.y[at] if predictor is None else predictor.residuals(rows)[at]
    left = left - np.median(left)
    limit = FAR / NORMAL_MEDIAN * float(np.median(np.abs(left)))
    far = np.abs(left) > limit
    if not far.any() or far.mean() > MOST:
        return rows
    beyond = (np.abs(rows.contexts) > largest(rows.contexts)).any(axis=1)
    beyond &= np.count_nonzero(beyond) <= RARE * np.count_nonzero(rows.contexts.any(axis=1))
    seen = np.convolve(beyond, np.ones(rows.n_lags))[at] > 0.5
    later = rows.number[at] > (predictor.last_round if predictor else 0)
    if later.any() and (far & ~seen)[later].mean() > MOST:
        return rows
    cut = rows.y.copy()
    cut[at] -= left - np.clip(left, -limit, limit)
    kept = rows.number > 0
    kept[at[far & seen]] = False
    rows = replace(rows, y=cut)
    return rows.only(kept) if (far & seen).any() else rows
