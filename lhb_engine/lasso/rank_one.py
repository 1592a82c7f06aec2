"""From phi to theta and lag weights: the leading singular pair of Phi (docs/model.md (2.1))."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats


@dataclass(frozen=True)
class RankOne:
    """The best rank-one approximation phi_k ~ weights[k] theta.

    Attributes
    ----------
    theta : (dim,) array
        Unit vector.
    weights : (n_lags,) array
        Lag weights of either sign, with phi's scale; they sum to >= 0.
    singular_ratio : float or None
        sigma_1 / sigma_2; None where sigma_2 = 0.
    sign_margin : float
        |sum weights| / |weights|_1, in [0, 1].
    """

    theta: Floats
    weights: Floats
    singular_ratio: float | None
    sign_margin: float


def rank_one(phi: Floats) -> RankOne | None:
    """Compute the leading singular pair of Phi, the dim x n_lags matrix of the blocks.

    The paper leaves the sign open. True lag weights are >= 0, so theta is oriented such that the
    implied ones sum to >= 0; where they sum to 0, such that the first largest one is positive.

    Parameters
    ----------
    phi : (n_lags, dim) array

    Returns
    -------
    RankOne or None
        None where phi = 0.
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
