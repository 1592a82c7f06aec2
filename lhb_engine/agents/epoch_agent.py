"""The base of the baselines that fit on AD-Lasso's epochs (docs/model.md 6)."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lhb_engine.agents import fit_windows
from lhb_engine.agents.base import Agent
from lhb_engine.agents.options import Options, option
from lhb_engine.design.fit_rows import FitRows, measured_rows
from lhb_engine.design.scaling import in_units
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History


@dataclass(frozen=True)
class EpochOptions(Options):
    """The length of the epochs, and which of their rows a fit uses."""

    rows: Literal["epoch", "ad_lasso"] = option(
        "epoch",
        "Rows of a fit: the whole epoch's, as in the paper, or ad_lasso's own (quarters two "
        "and four, later the second half).",
    )
    L: int | None = option(None, "The first epoch has 4 L rounds; null: max(1, horizon // 12).")


class OnEpochs(Agent):
    """An agent that fits at the ends of AD-Lasso's epochs, with the same numbers of lags."""

    options: EpochOptions

    def windows(self) -> Iterator[FitWindow]:
        """Yield AD-Lasso's windows, endlessly, on the rows that the option `rows` names."""
        for window in fit_windows.ad_windows(self.horizon, self.options.L):
            if self.options.rows == "epoch":
                window = fit_windows.whole_epoch(window, self.horizon)
            yield window

    def fit(self, history: History) -> Estimate:
        """Fit the rows of the window, undifferenced."""
        return on_rows(history, self.options.rows == "ad_lasso", self.horizon, self._enough)

    def _enough(self, rows: FitRows) -> Estimate:
        if rows.design.n_rows >= 2 * self.dim and rows.y.any():
            return self.found(rows)
        zero, message = np.zeros(rows.design.n_lags), "Too few rewards, or all of them zero."
        return Estimate("insufficient_data", zero, message=message)

    @abstractmethod
    def found(self, rows: FitRows) -> Estimate:
        """Return the estimate from enough rows, whose contexts and rewards are at most 1."""


def on_rows(
    history: History, by_quarters: bool, horizon: int, find: Callable[[FitRows], Estimate]
) -> Estimate:
    """Return what `find` makes of the window's rows in scaled units, and which rows they were.

    `by_quarters` takes those of AD-Lasso in its first phase: the second quarter and the fourth.
    """
    window = history.checked_window()
    quarters = by_quarters and fit_windows.in_first_phase(window, horizon)
    measured = measured_rows(history, quarters=fit_windows.quarter_of(window) if quarters else None)
    rows, units = in_units(measured)
    estimate = replace(
        find(rows),
        n_rows=rows.design.n_rows,
        n_missing=rows.n_missing,
        first_round=window.first,
        last_round=window.last,
        design=rows.name,
    )
    return units.restore(estimate)
