"""Rewards far beyond the others, cut off, so that one of them decides no direction.

Equation numbers are those of docs/model.md.
"""

from dataclasses import replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.posterior.prediction_check import Predictor

LEAST_ROWS = 30
FAR = 6.0  # standard deviations of normal errors of the same median
NORMAL_MEDIAN = 0.6745  # of the size of a standard normal number
MOST = 0.1  # of the rows, or of those since the last fit: more are no outliers, but a change
REPEATED = 0.25  # of the rows: rewards that have one value so often are clicks, counts or prices


def are_repeated(rows: AlignedRounds) -> bool:
    """Whether many rewards are equal, as where most are 0."""
    _, counts = np.unique(rows.y[rows.number > 0], return_counts=True)
    return bool(counts.max(initial=0) > max(1.0, REPEATED * counts.sum()))


def without_outliers(rows: AlignedRounds, known: Predictor | None) -> AlignedRounds:
    """Return the rows with rewards within (7.32) of what `known` predicts.

    Without a prediction that is their median. Where rewards are repeated, as clicks are, or many
    are far off, since something changed, all stay as they are.
    """
    at = np.flatnonzero(rows.number > 0)
    if len(at) < LEAST_ROWS or are_repeated(rows):
        return rows
    left = rows.y[at] if known is None else known.residuals(rows)[at]
    left = left - np.median(left)
    limit = FAR / NORMAL_MEDIAN * float(np.median(np.abs(left)))
    far = np.abs(left) > limit
    later = rows.number[at] > (known.last_round if known else 0)
    if not far.any() or far.mean() > MOST or (later.any() and far[later].mean() > MOST):
        return rows
    cut = rows.y.copy()
    cut[at] -= left - np.clip(left, -limit, limit)
    return replace(rows, y=cut)
