"""One fit from rows to an `Estimate`: lam, block Lasso, direction, refit, diagnostics.

Contexts and rewards are scaled to about 1 inside (`design.scaling`), and each feature is divided
by its spread where asked; results are in the user's units.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lhb_engine.design.fit_rows import FitRows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.design.scaling import ERROR_UNITS, Units, in_units, power_of_two
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, Floats
from lhb_engine.lasso.group_lasso import GroupLasso
from lhb_engine.lasso.rank_one import rank_one, refit
from lhb_engine.lasso.regularization import LEVEL, entry_rms, noise_adaptive
from lhb_engine.lasso.standard_errors import active_lags, intervals, rank_one_errors, said_of

MAX_CONDITION_ENTRIES = 4_000_000
LEAST_LAM = 1e-9  # of lambda_max; rounding leaves a smaller lam without a certificate
LARGEST = float(np.finfo(float).max)


@dataclass(frozen=True)
class BlockLasso:
    """Settings of a block-Lasso fit (docs/model.md, 3 to 5)."""

    lam: float | None  # fixed regularisation strength; None: noise-adaptive
    fit_intercept: bool  # fit a baseline per round, unpenalised
    # divide every feature by its standard deviation within the fit. lam then belongs to the scaled
    # problem and is in units of reward
    standardize: bool = False
    # add standard errors and intervals of theta and of the active lag weights, or why there are
    # none (`standard_errors`)
    standard_errors: bool = False
    tol: float = 1e-6  # relative duality gap at which the solver stops
    level: float = LEVEL  # a of the noise-adaptive lam

    def estimate(self, rows: FitRows, window: FitWindow) -> Estimate:
        """Fit phi on `rows`, take theta from it, and lag weights from a refit (docs/model.md, 5).

        Returns
        -------
        Estimate
            In the user's units. "insufficient_data" where no fit is possible, "zero" where
            phi = 0, each with its reason in `message`.
        """
        empty = Estimate(
            "insufficient_data",
            np.zeros(rows.design.n_lags),
            n_rows=rows.design.n_rows,
            n_missing=rows.n_missing,
            first_round=window.first,
            last_round=window.last,
            design=rows.name,
        )
        if reason := self._too_little(rows):
            return replace(empty, message=reason)
        scaled, units = in_units(rows)
        return units.restore(self._estimate(scaled, units, empty))

    def _estimate(self, rows: FitRows, units: Units, empty: Estimate) -> Estimate:
        """Make the estimate in the fit's units; its diagnostics are in the user's."""
        y = rows.y
        features = self._feature_scales(rows.design)
        design = rows.design.scaled(1.0 / features)
        if entry_rms(design, self.fit_intercept) <= 1e-7 * entry_rms(design, False):
            return replace(empty, message="The contexts never change: nothing to learn from.")

        noise = noise_adaptive(design, y, fit_intercept=self.fit_intercept, level=self.level)
        lasso = GroupLasso(design, y, fit_intercept=self.fit_intercept)
        lam = noise.lam
        if self.lam is not None:
            contexts = 1.0 if self.standardize else units.contexts
            lam = self.lam / units.rewards / contexts
            lam = min(max(lam, LEAST_LAM * (lasso.lambda_max or 1.0)), LARGEST)
        result = lasso.solve(lam, tol=self.tol, warm_start=noise.result.phi)
        direction = rank_one(result.phi)
        active = () if direction is None else active_lags(design, y, direction.theta)
        by = 1.0 / units.contexts if self.standardize else 1.0  # lam in units of reward
        common: dict[str, Any] = {
            "active_lags": active,
            "intercept": result.intercept if self.fit_intercept else None,
            "lam": lam * by,
            "lambda_max": lasso.lambda_max * by,
            "sigma_hat": noise.sigma_hat,
            "duality_gap": result.gap,
            "n_iterations": result.n_iterations,
            "converged": result.converged,
            "diagnostics": {"active_condition": _condition(design, active)},
        }
        if direction is None:
            message = "The rewards do not stand out from the noise at this regularisation: phi = 0."
            return replace(empty, status="zero", message=message, **common)
        weights, offset = refit(design, y, direction.theta, direction.weights, self.fit_intercept)
        if self.fit_intercept:
            common["intercept"] = offset
        # the solution for the given features, theta of unit length
        theta = direction.theta / (features / features.max())
        norm = float(np.sqrt(theta @ theta))
        weights = weights * (norm / float(features.max()))
        direction = replace(direction, theta=theta / norm, weights=weights)
        if self.standard_errors:
            errors = said_of(rank_one_errors(rows.design, y, active, direction), design.n_lags)
            if isinstance(errors, str):
                common["diagnostics"]["standard_errors"] = None
                common["no_intervals"] = errors
            else:
                common["diagnostics"]["standard_errors"] = units.restored(errors, ERROR_UNITS)
                common["intervals"] = intervals(errors)
        return replace(
            empty,
            status="ok",
            theta=direction.theta,
            lag_weights=direction.weights,
            singular_ratio=direction.singular_ratio,
            sign_margin=direction.sign_margin,
            message=_caution(design, active, result.converged, result.gap),
            **common,
        )

    def _feature_scales(self, design: LaggedDesign) -> Floats:
        """(dim,) divisor of each feature."""
        if not self.standardize:
            return np.ones(design.dim)
        contexts = design.contexts
        centre = contexts.mean(axis=0) if self.fit_intercept else 0.0
        spread = np.sqrt(((contexts - centre) ** 2).mean(axis=0))
        # a constant feature has no spread to divide by
        flat = spread <= 1e-12 * np.abs(contexts).max(axis=0)
        return np.asarray(np.where(flat, 1.0, spread))

    def _too_little(self, rows: FitRows) -> str:
        """Why no estimate is possible; empty where one is."""
        # a direction needs 2d rows (docs/model.md, 5), a fitted baseline one more
        n, least = rows.design.n_rows, 2 * rows.design.dim + self.fit_intercept
        if n < least:
            return f"{n} measured rows; a fit needs at least {least}."
        y, column = rows.y / power_of_two(rows.y), rows.design.intercept
        square = float(column @ column)
        mean = float(column @ y) / square if square > 0 else 0.0
        if float(np.abs(y - mean * column).max()) <= 1e-12 * float(np.abs(y).max()):
            return "All rewards are equal: nothing to learn from."
        if not rows.design.contexts.any():
            return "All contexts are zero: nothing to learn from."
        return ""


def _condition(design: LaggedDesign, lags: tuple[int, ...]) -> float | None:
    """Condition number of the active lags' columns; None where none or too many are active."""
    n_columns = len(lags) * design.dim
    if not lags or n_columns > design.n_rows or n_columns * design.n_rows > MAX_CONDITION_ENTRIES:
        return None
    columns = design.blocks(np.array(lags)).reshape(design.n_rows, -1)
    values = np.linalg.eigvalsh(columns.T @ columns)
    return float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else None


def _caution(design: LaggedDesign, active: tuple[int, ...], converged: bool, gap: float) -> str:
    """Describe what limits trust in the estimate; empty where nothing does."""
    n, h = design.n_rows, design.n_lags
    cautions = []
    if n < h:
        cautions.append(f"{n} rows are few for {h} lags: weak effects cannot be seen yet.")
    if not active:
        cautions.append("No lag stands out from the noise by itself.")
    if not converged:
        cautions.append(f"The solver stopped at a relative gap of {gap:.1e}.")
    return " ".join(cautions)
