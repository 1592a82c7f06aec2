"""Doubling Lasso (Algorithm 1, docs/model.md 3), for fewer rounds than lags."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lhb_engine.agents import fit_windows
from lhb_engine.agents.base import Agent
from lhb_engine.agents.options import Options, option
from lhb_engine.design.fit_rows import differenced_rows, measured_rows
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.lasso.regularization import theory_doubling

LEVEL = 0.25  # a of docs/model.md (5.1): half of `regularization.LEVEL`, since only theta is used


@dataclass(frozen=True)
class LassoOptions(Options):
    """Options of AD-Lasso and Doubling Lasso."""

    reg: Literal["noise_adaptive", "theory"] = option(
        "noise_adaptive",
        "How lambda is chosen: from the estimated noise, or by the paper's formula.",
    )
    level: float = option(
        LEVEL, 'Level a of the noise-adaptive lambda (reg "noise_adaptive").', limits=(1e-9, 1e9)
    )
    c: float = option(
        1.0, 'Factor of the paper\'s lambda (reg "theory"); 1 as in the paper.', limits=(1e-9, 1e9)
    )
    gamma: float = option(
        0.1, "Failure probability in the paper's lambda, in (0, 1).", limits=(1e-9, 1 - 1e-9)
    )
    L: int | None = option(None, "The first epoch has 4 L rounds; null: max(1, horizon // 12).")
    fallback: bool = option(
        True,
        "If an epoch of the first phase has too few differenced rows: true fits its quarters "
        "undifferenced, with an intercept; false gives no estimate, as in the paper.",
    )
    fit_intercept: bool = option(False, "Fit an intercept, for rewards that have a baseline.")
    standardize: bool = option(
        False, "Divide each feature by its standard deviation within the fit."
    )
    standard_errors: bool = option(
        False,
        "Add standard errors and 95% intervals of theta and of the active lag weights, where "
        "each of these lags stands out.",
    )


class DoublingLasso(Agent):
    """Block-lasso fits of the fourth quarter of each epoch less the second (docs/model.md 3).

    The number of lags fitted grows with the epochs.
    """

    name = "doubling_lasso"
    summary = "Doubling Lasso, the paper's algorithm for fewer rounds than the horizon."
    options_type = LassoOptions
    options: LassoOptions

    def windows(self) -> Iterator[FitWindow]:
        """Yield the windows of all fits, endlessly; see docs/model.md (3.1)."""
        return fit_windows.doubling_windows(self.horizon, self.options.L)

    def fit(self, history: History) -> Estimate:
        """Fit the fourth quarter less the second, by docs/model.md (3.2) and (3.3).

        With fewer differenced rows than docs/model.md (3.5), or several trajectories, and the
        option `fallback`, both quarters are fitted undifferenced, with an intercept. The estimate's
        `design` says which rows were used.
        """
        window = history.cut_window
        quarter = fit_windows.quarter_of(window)
        o = self.options
        rows = differenced_rows(history, quarter)
        few = rows is None or rows.design.n_rows < max(2 * self.dim, quarter / 2)
        if rows is None or (few and o.fallback):
            rows = measured_rows(history, quarters=quarter)
        lam = theory_doubling(quarter, self.dim, o.gamma, o.c) if o.reg == "theory" else None
        return self.block_lasso(lam, rows.name == "undifferenced").estimate(rows, window)

    def block_lasso(self, lam: float | None, fit_intercept: bool) -> BlockLasso:
        """Return the block lasso with these options; without `lam` it is chosen from the data."""
        o = self.options
        return BlockLasso(lam, fit_intercept, o.standardize, o.standard_errors, level=o.level)
