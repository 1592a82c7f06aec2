"""Lag weights by least squares along theta: the lasso's own are shrunken (docs/model.md (5.10))."""

from typing import NamedTuple

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints

MAX_ENTRIES = 4_000_000  # of the columns along theta, at once
CHUNK_ENTRIES = 1_000_000


class Refit(NamedTuple):
    """Lag weights, (n_lags,), none below 0, and the baseline per round (0 where none is fitted)."""

    weights: Floats
    baseline: float


def columns_along(design: LaggedDesign, lags: Ints, theta: Floats) -> Floats:
    """Compute the signals X_b theta of some lags, (n_rows, len(lags))."""
    chunk = max(1, CHUNK_ENTRIES // (design.n_rows * design.dim))
    parts = [
        design.blocks(lags[start : start + chunk]) @ theta for start in range(0, len(lags), chunk)
    ]
    return np.concatenate([np.zeros((design.n_rows, 0)), *parts], axis=1)


def refit(
    design: LaggedDesign, y: Floats, theta: Floats, weights: Floats, fit_intercept: bool
) -> Refit:
    """Regress y on the signals of the lags with positive weight, and drop those below 0.

    What is left is regressed again, until no weight is below 0. With more than MAX_ENTRIES numbers
    in these columns all weights get one common factor instead.

    Parameters
    ----------
    design : LaggedDesign
    y : (n_rows,) array
    theta : (dim,) array
        Unit vector.
    weights : (n_lags,) array
        The lasso's lag weights, of either sign; only positive ones are refitted.
    fit_intercept : bool
        Regress on the design's baseline column too.
    """
    kept = np.flatnonzero(weights > 0)
    baseline = design.intercept[:, None] if fit_intercept else np.zeros((design.n_rows, 0))
    whole = design.n_rows * len(kept) <= MAX_ENTRIES
    if whole:
        columns = columns_along(design, kept, theta)
    else:
        columns = design.matvec(np.outer(np.maximum(weights, 0.0), theta))[:, None]
    n_weights = columns.shape[1]
    columns = np.concatenate([columns, baseline], axis=1)
    gram, along = columns.T @ columns, columns.T @ y
    refitted = np.zeros(columns.shape[1])
    left = np.arange(columns.shape[1])
    while len(left):
        solution = np.linalg.lstsq(gram[np.ix_(left, left)], along[left], rcond=None)[0]
        fine = (solution >= 0) | (left >= n_weights)
        if fine.all():
            refitted[left] = solution
            break
        left = left[fine]
    out = np.zeros(design.n_lags)
    out[kept] = refitted[:n_weights] if whole else refitted[0] * weights[kept]
    return Refit(out, float(refitted[n_weights:].sum()))
