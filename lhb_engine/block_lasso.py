"""One fit from rows to an `Estimate`: lam, block Lasso, rank-one direction, diagnostics."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lhb_engine.blocks import block_norms
from lhb_engine.estimate import Estimate
from lhb_engine.group_lasso import lambda_max, solve_group_lasso
from lhb_engine.history import FitWindow
from lhb_engine.rank_one import rank_one
from lhb_engine.regularization import noise_adaptive
from lhb_engine.rows import Rows


@dataclass(frozen=True)
class BlockLasso:
    """How a fit is made.

    Parameters
    ----------
    lam : float or None
        Fixed regularisation strength; None: noise-adaptive.
    fit_intercept : bool
    tol : float
        Relative duality gap.
    """

    lam: float | None
    fit_intercept: bool
    tol: float = 1e-6

    def estimate(self, rows: Rows, window: FitWindow) -> Estimate:
        """Fit phi on `rows` and read theta and the lag weights off it."""
        design = rows.design
        zero = np.zeros(design.n_lags)
        covered: dict[str, Any] = {
            "n_rows": design.n_rows,
            "n_missing": rows.n_missing,
            "first_round": window.first,
            "last_round": window.last,
            "design": rows.name,
        }
        reason = self._too_little(rows)
        if reason:
            return Estimate("insufficient_data", zero, message=reason, **covered)
        most = lambda_max(design, rows.y, fit_intercept=self.fit_intercept)
        noise = noise_adaptive(design, rows.y, fit_intercept=self.fit_intercept)
        lam = noise.lam if self.lam is None else self.lam
        result = solve_group_lasso(
            design,
            rows.y,
            lam,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            warm_start=noise.result.phi if lam < most else None,
        )
        strict = solve_group_lasso(
            design, rows.y, noise.strict_lam, fit_intercept=self.fit_intercept, tol=1e-4
        )
        found = rank_one(result.phi)
        covered |= {
            "active_lags": tuple(np.flatnonzero(block_norms(strict.phi)).tolist()),
            "intercept": result.intercept if self.fit_intercept else None,
            "lam": lam,
            "lambda_max": most,
            "sigma_hat": noise.sigma_hat,
            "duality_gap": result.gap,
            "n_iterations": result.n_iterations,
            "converged": result.converged,
        }
        if found is None:
            message = "The rewards do not stand out from the noise at this regularisation: phi = 0."
            return Estimate("zero", zero, message=message, **covered)
        return Estimate(
            "ok",
            np.maximum(found.weights, 0.0),
            theta=found.theta,
            singular_ratio=found.singular_ratio,
            sign_margin=found.sign_margin,
            **covered,
        )

    def _too_little(self, rows: Rows) -> str:
        """Why no estimate is possible; empty where one is."""
        n, least = rows.design.n_rows, 2 * rows.design.dim
        if n < least:
            return f"{n} measured rows; a fit needs at least {least}."
        y, column = rows.y, rows.design.intercept
        square = float(column @ column)
        level = float(column @ y) / square if square > 0 else 0.0
        if float(np.abs(y - level * column).max()) <= 1e-12 * float(np.abs(y).max()):
            return "All rewards are equal: nothing to learn from."
        if rows.design.square_sum == 0.0:
            return "All contexts are zero: nothing to learn from."
        return ""
