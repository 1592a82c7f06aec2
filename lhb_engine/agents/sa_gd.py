"""SA-GD: alternating gradient descent on the rank-one model, docs/model.md (6.1)."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.agents.epoch_agent import EpochOptions, OnEpochs
from lhb_engine.agents.options import option
from lhb_engine.design.fit_rows import FitRows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats
from lhb_engine.lasso.rank_one import rank_one


@dataclass(frozen=True)
class SAGDOptions(EpochOptions):
    """Epochs, the true sparsity, and when the descent stops."""

    s: int | None = option(
        None,
        "Keep the s largest entries of w after the descent; null: keep all. The paper gives "
        "the true number of active lags.",
    )
    n_steps: int = option(500, "Maximum number of pairs of steps (theta, then w).")
    tol: float = option(
        1e-3,
        "Stop when a pair of steps reduces the loss by less than this fraction.",
        limits=(0, 1),
    )


class SAGD(OnEpochs):
    """Alternating gradient steps on theta and w for docs/model.md (6.1), then hard thresholding.

    The start is the leading singular pair of X'r. An exact line search sets the length of each
    step, so there is no step size to tune. Theta is normalised after each of its steps.
    """

    name = "sa_gd"
    summary = "Alternating gradient descent on the rank-one model; may be told the true sparsity."
    options_type = SAGDOptions
    options: SAGDOptions

    def found(self, rows: FitRows) -> Estimate:
        """Run the descent, then keep the `s` largest lag weights if `s` is given."""
        zero, o = np.zeros(rows.design.n_lags), self.options
        start = rank_one(rows.design.rmatvec(rows.y))
        if start is None:
            return Estimate("zero", zero, message="No lag matches the rewards.")
        theta, weights, n_steps = descend(
            rows.design, rows.y, start.theta, start.weights, o.n_steps, o.tol
        )
        if o.s is not None and o.s < len(weights):
            weights[np.argsort(-np.abs(weights), kind="stable")[o.s :]] = 0.0
        total = float(weights.sum())
        if total < 0:  # docs/model.md (2.2)
            theta, weights = -theta, -weights
        mass = float(np.abs(weights).sum())
        if mass == 0.0:
            return Estimate("zero", zero, message="w = 0", n_iterations=n_steps)
        return Estimate(
            "ok",
            np.maximum(weights, 0.0),
            theta=theta,
            active_lags=tuple(np.flatnonzero(weights > 0).tolist()) if o.s is not None else (),
            sign_margin=abs(total) / mass,
            n_iterations=n_steps,
            converged=n_steps < o.n_steps,
        )


def descend(
    design: LaggedDesign, y: Floats, theta: Floats, weights: Floats, n_steps: int, tol: float
) -> tuple[Floats, Floats, int]:
    """Minimise docs/model.md (6.1) by alternating gradient steps with exact line search.

    Starts at `theta` (dim,) and `weights` (n_lags,), whose length is set by a line search; stops
    when a pair of steps lowers the loss by no more than a share of `tol`. Returns theta, of length
    1, the weights, and the pairs of steps made.
    """
    fitted = design.matvec(np.outer(weights, theta))
    scale = float(fitted @ fitted)
    if scale > 0:  # the start has no scale: a line search sets its length
        weights = weights * (float(fitted @ y) / scale)
        fitted = design.matvec(np.outer(weights, theta))
    residual = y - fitted
    loss = float(residual @ residual)
    for step in range(1, n_steps + 1):
        before = loss
        uphill = design.rmatvec(residual).T @ weights
        theta, residual = _move(design, residual, theta, uphill, np.outer(weights, uphill))
        length = float(np.linalg.norm(theta))
        theta, weights = theta / length, weights * length
        uphill = design.rmatvec(residual) @ theta
        weights, residual = _move(design, residual, weights, uphill, np.outer(uphill, theta))
        loss = float(residual @ residual)
        if before - loss <= tol * before:
            return theta, weights, step
    return theta, weights, n_steps


def _move(
    design: LaggedDesign, residual: Floats, point: Floats, uphill: Floats, phi: Floats
) -> tuple[Floats, Floats]:
    """Return the point after one exact line search along `uphill`, which changes phi by `phi`.

    Its residual is returned, too.
    """
    change = design.matvec(phi)
    square = float(change @ change)
    if square == 0.0:
        return point, residual
    length = float(residual @ change) / square
    return point + length * uphill, residual - length * change
