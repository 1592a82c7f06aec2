"""From phi to theta and lag weights: the leading singular pair, and least squares along theta.

The lasso's own weights are shrunken, so they are fitted again (docs/model.md (2.1), (5.10)).
"""

from dataclasses import dataclass

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints

MAX_ENTRIES = 4_000_000  # of the columns along theta, at once
CHUNK_ENTRIES = 1_000_000


@dataclass(frozen=True)
class RankOne:
    """The best rank-one approximation phi_k ~ weights[k] theta."""

    theta: Floats  # (dim,): unit vector
    weights: Floats  # (n_lags,): lag weights of either sign, with phi's scale; they sum to >= 0
    singular_ratio: float | None  # sigma_1 / sigma_2; None where sigma_2 = 0
    sign_margin: float  # |sum weights| / |weights|_1, in [0, 1]


def rank_one(phi: Floats) -> RankOne | None:
    """Return the leading singular pair of Phi, the dim x n_lags matrix of the blocks; None for 0.

    The paper leaves the sign open. True lag weights are >= 0, so theta is oriented such that the
    implied ones sum to >= 0; where they sum to 0, such that the first largest one is positive.
    """
    active = np.flatnonzero((phi != 0).any(axis=1))
    if len(active) == 0:
        return None
    scale = float(np.abs(phi).max())
    left, singular, right = np.linalg.svd(phi[active].T / scale, full_matrices=False)
    theta, v = left[:, 0], right[0]
    total = float(v.sum())
    towards = total if total != 0.0 else float(v[np.abs(v).argmax()])
    if towards < 0:
        theta, v = -theta, -v
    weights = np.zeros(len(phi))
    weights[active] = v * (singular[0] * scale)
    second = float(singular[1]) if len(singular) > 1 else 0.0
    return RankOne(
        theta=np.ascontiguousarray(theta),
        weights=weights,
        singular_ratio=float(singular[0]) / second if second > 0 else None,
        sign_margin=abs(total) / float(np.abs(v).sum()),
    )


def columns_along(design: LaggedDesign, lags: Ints, theta: Floats) -> Floats:
    """Compute the signals X_b theta of some lags, (n_rows, len(lags))."""
    chunk = max(1, CHUNK_ENTRIES // (design.n_rows * design.dim))
    parts = [
        design.blocks(lags[start : start + chunk]) @ theta for start in range(0, len(lags), chunk)
    ]
    return np.concatenate([np.zeros((design.n_rows, 0)), *parts], axis=1)


def refit(
    design: LaggedDesign,
    y: Floats,
    theta: Floats,
    weights: Floats,
    fit_intercept: bool,
    most: int = MAX_ENTRIES,
) -> tuple[Floats, float]:
    """Regress y on the signals of the lags with positive weight, and drop those below 0.

    What is left is regressed again, until no weight is below 0. With more than `most`
    numbers in these columns all weights get one common factor instead. `theta` is a unit vector,
    `weights` (n_lags,) are those of the lasso, of either sign. Returns lag weights, (n_lags,), none
    below 0, and the baseline per round, 0 where none is fitted.
    """
    kept = np.flatnonzero(weights > 0)
    baseline = design.intercept[:, None] if fit_intercept else np.zeros((design.n_rows, 0))
    if whole := design.n_rows * len(kept) <= most:
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
    return out, float(refitted[n_weights:].sum())
