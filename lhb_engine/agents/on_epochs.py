"""AD-Lasso's epochs for the agents it is compared with: only the estimator differs (MODEL 6)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from lhb_engine import epochs
from lhb_engine.agents.base import Agent, OptionError, Options
from lhb_engine.history import FitWindow, History
from lhb_engine.rows import Rows, measured_rows

Share = Literal["epoch", "ad_lasso"]


@dataclass(frozen=True)
class EpochOptions(Options):
    """Which epochs, and which of their rows."""

    rows: Share = field(
        default="epoch",
        metadata={
            "description": "Rows of a fit: the whole epoch's, as in the paper, or ad_lasso's own "
            "(quarters two and four, later the second half)."
        },
    )
    L: int | None = field(
        default=None,
        metadata={"description": "The first epoch has 4 L rounds; none: max(1, horizon // 12)."},
    )

    def __post_init__(self) -> None:
        if self.rows not in get_args(Share):
            raise OptionError("rows", f"must be one of {', '.join(get_args(Share))}")
        if self.L is not None and (type(self.L) is not int or not 1 <= self.L <= 10**9):
            raise OptionError("L", "must be a whole number of at least 1")


class OnEpochs(Agent):
    """An agent that fits at AD-Lasso's boundaries, on as many lags."""

    options: EpochOptions

    def windows(self) -> Iterator[FitWindow]:
        """AD-Lasso's schedule, without end, on the share of the rows that is asked for."""
        length = self.options.L or epochs.default_first_epoch(self.horizon)
        for window in epochs.ad_windows(self.horizon, length):
            yield window if self.options.rows == "ad_lasso" else self._whole(window)

    def next_fit(self, n_rounds: int) -> FitWindow | None:
        """The first window that is due after more than `n_rounds` rounds."""
        return next(window for window in self.windows() if window.due > n_rounds)

    def rows(self, history: History) -> Rows:
        """The rows of one fit, undifferenced."""
        window = history.window
        assert window is not None
        in_quarters = window.due <= self.horizon and self.options.rows == "ad_lasso"
        return finite_rows(history, epochs.quarter_of(window) if in_quarters else None)

    def _whole(self, window: FitWindow) -> FitWindow:
        n_rows = window.last - window.first + 1
        # three of four quarters in the first phase, one of two halves in the second
        n_rounds = n_rows // 3 * 4 if window.due <= self.horizon else 2 * n_rows
        return replace(window, first=window.last - n_rounds + 1)


def finite_rows(history: History, quarters: int | None) -> Rows:
    """`measured_rows`, refusing rewards that are not finite."""
    rows = measured_rows(history, quarters=quarters)
    if not np.isfinite(rows.y).all():
        raise ValueError("rewards must be finite")
    return rows


def covered(rows: Rows, window: FitWindow) -> dict[str, Any]:
    """The fields of an `Estimate` that say which data a fit has used."""
    return {
        "n_rows": rows.design.n_rows,
        "n_missing": rows.n_missing,
        "first_round": window.first,
        "last_round": window.last,
        "design": rows.name,
    }
