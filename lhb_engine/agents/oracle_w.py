"""Oracle-w, which is told the lag weights and fits theta by least squares (docs/model.md 6)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lhb_engine.agents import fit_windows
from lhb_engine.agents.base import Agent
from lhb_engine.agents.epoch_agent import on_rows
from lhb_engine.agents.options import Options, option
from lhb_engine.design.fit_rows import FitRows
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, Floats, History


@dataclass(frozen=True)
class OracleWOptions(Options):
    """The true lag weights, and the schedule."""

    weights: list[float] = option([], "The true lag weights, lag 0 first.")
    schedule: Literal["ad_lasso", "growing"] = option(
        "ad_lasso",
        "ad_lasso: its epochs and rows. growing: all rows, at rounds ceil(8 * 1.2^k), the "
        "yardstick of `lhb bench decide`.",
    )
    L: int | None = option(None, "As ad_lasso's: the first epoch has 4 L rounds.")


class OracleW(Agent):
    """Least squares of the rewards on the filtered contexts g_t of docs/model.md (6.5)."""

    name = "oracle_w"
    summary = "Is given the lag weights and learns the direction: the best that can be hoped for."
    options_type = OracleWOptions
    options: OracleWOptions
    needs_truth = True

    def __init__(self, dim: int, horizon: int, options: OracleWOptions) -> None:
        super().__init__(dim, horizon, options)
        weights = np.array(options.weights, dtype=np.float64)[:horizon]
        self.weights: Floats = np.zeros(horizon)
        self.weights[: len(weights)] = weights

    def windows(self) -> Iterator[FitWindow]:
        """Yield the windows of all fits, endlessly; every fit has all lags."""
        if self.options.schedule == "growing":
            yield from fit_windows.growing_windows(self.horizon)
        for window in fit_windows.ad_windows(self.horizon, self.options.L):
            yield replace(window, n_lags=self.horizon)

    def fit(self, history: History) -> Estimate:
        """Fit theta to the window's measurements, by docs/model.md (6.5)."""
        by_quarters = self.options.schedule == "ad_lasso"
        return on_rows(history, by_quarters, self.horizon, self._found)

    def _found(self, rows: FitRows) -> Estimate:
        rank, zero = 0, np.zeros(self.horizon)
        if rows.design.n_rows:
            filtered = filtered_contexts(rows, self.weights)
            solution, _, rank_found, _ = np.linalg.lstsq(filtered, rows.y)
            rank = int(rank_found)
        if rank < self.dim:  # such as before the first active lag
            message = "The rewards so far do not determine a direction."
            return Estimate("insufficient_data", zero, message=message)
        length = float(np.linalg.norm(solution))
        if length == 0.0:
            return Estimate("zero", zero, message="theta = 0")
        theta = np.asarray(solution / length)
        active = tuple(np.flatnonzero(self.weights).tolist())
        return Estimate("ok", self.weights * length, theta=theta, active_lags=active)


def filtered_contexts(rows: FitRows, weights: Floats) -> Floats:
    """Return the (n_rows, dim) rows of G in docs/model.md (6.5), g_t = sum_k w_k xi_{t-k}."""
    out = np.zeros((rows.design.n_rows, rows.design.dim))
    for lag in np.flatnonzero(weights):
        out += weights[lag] * rows.design.blocks(np.array([lag]))[:, 0]
    return out
