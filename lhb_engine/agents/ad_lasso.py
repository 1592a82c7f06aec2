"""AD-Lasso (Algorithm 2, docs/model.md 4), for any number of rounds.

The agent is Doubling Lasso up to round h; later it fits all lags on the later half of each epoch.
"""

from collections.abc import Iterator

from lhb_engine.agents import fit_windows
from lhb_engine.agents.doubling_lasso import DoublingLasso
from lhb_engine.design.fit_rows import measured_rows
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History
from lhb_engine.lasso.regularization import theory_full


class ADLasso(DoublingLasso):
    """Doubling Lasso up to round h, then block-lasso fits of all h lags (docs/model.md 4)."""

    name = "ad_lasso"
    summary = "Adaptive Doubling Lasso, the paper's algorithm for any number of rounds."

    def windows(self) -> Iterator[FitWindow]:
        """Yield the windows of all fits, endlessly; see docs/model.md (4.1)."""
        return fit_windows.ad_windows(self.horizon, self.options.L)

    def fit(self, history: History) -> Estimate:
        """Fit by docs/model.md (3.3) up to round h, and by docs/model.md (4.2) after it."""
        window = history.cut_window
        if fit_windows.in_first_phase(window, self.horizon):
            return super().fit(history)
        o = self.options
        n_rows = window.last - window.first + 1
        lam = theory_full(n_rows, self.dim, o.gamma, o.c) if o.reg == "theory" else None
        return self.block_lasso(lam, o.fit_intercept).estimate(measured_rows(history), window)
