"""The base of the baselines that fit on AD-Lasso's epochs (docs/model.md 6)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lhb_engine.agents import fit_windows
from lhb_engine.agents.base import Agent, Options, option
from lhb_engine.agents.option_checks import check_among, check_whole
from lhb_engine.design.fit_rows import FitRows, measured_rows
from lhb_engine.history import FitWindow, History

EpochRows = Literal["epoch", "ad_lasso"]


@dataclass(frozen=True)
class EpochOptions(Options):
    """The length of the epochs, and which of their rows a fit uses."""

    rows: EpochRows = option(
        "epoch",
        "Rows of a fit: the whole epoch's, as in the paper, or ad_lasso's own (quarters two "
        "and four, later the second half).",
    )
    L: int | None = option(None, "The first epoch has 4 L rounds; null: max(1, horizon // 12).")

    def __post_init__(self) -> None:
        check_among("rows", self.rows, get_args(EpochRows))
        if self.L is not None:
            check_whole("L", self.L)


class OnEpochs(Agent):
    """An agent that fits at the ends of AD-Lasso's epochs, with the same numbers of lags."""

    options: EpochOptions

    def windows(self) -> Iterator[FitWindow]:
        """Yield AD-Lasso's windows, endlessly, on the rows that the option `rows` names."""
        length = self.options.L or fit_windows.default_first_quarter(self.horizon)
        for window in fit_windows.ad_windows(self.horizon, length):
            if self.options.rows == "epoch":
                window = fit_windows.whole_epoch(window, self.horizon)
            yield window

    def rows(self, history: History) -> FitRows:
        """Return the rows of one fit, undifferenced."""
        window = history.window
        assert window is not None
        shared = self.options.rows == "ad_lasso" and fit_windows.in_first_phase(
            window, self.horizon
        )
        return measured_rows(history, quarters=fit_windows.quarter_of(window) if shared else None)


def covered(rows: FitRows, window: FitWindow) -> dict[str, Any]:
    """Return the fields of an `Estimate` that say which data a fit has used."""
    return {
        "n_rows": rows.design.n_rows,
        "n_missing": rows.n_missing,
        "first_round": window.first,
        "last_round": window.last,
        "design": rows.name,
    }
