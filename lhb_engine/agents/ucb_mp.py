"""UCB-MP: LinUCB on pairs of a reward and the context of SW-MP's lag (docs/model.md 6)."""

from dataclasses import dataclass

from lhb_engine.agents.confidence_ellipsoid import Ellipsoid, EllipsoidOptions, Optimist
from lhb_engine.agents.epoch_agent import EpochOptions
from lhb_engine.agents.options import option
from lhb_engine.agents.sw_mp import SWMP
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History


@dataclass(frozen=True)
class UCBMPOptions(EllipsoidOptions, EpochOptions):
    """Epochs, and width and ridge of the confidence ellipsoid."""

    ridge: float = option(3.0, "Ridge penalty of the regression.", limits=(1e-9, 1e9))


class UCBMP(Optimist, SWMP):
    """LinUCB, docs/model.md (6.3) and (6.4), with the lag k* that SW-MP finds at an epoch's end.

    It plays uniformly at random before its first lag. The ellipsoid starts anew with each lag, and
    once more after round h, where AD-Lasso's second phase begins.
    """

    name = "ucb_mp"
    summary = "SW-MP's lag, and LinUCB on pairs of a reward and the context that many rounds ago."
    options_type = UCBMPOptions
    options: UCBMPOptions
    kept = Optimist.kept | {"lag": int, "second_phase": bool}

    def __init__(self, dim: int, horizon: int, options: UCBMPOptions) -> None:
        super().__init__(dim, horizon, options)
        self.lag: int | None = None
        self.second_phase = False

    def _scores(self, contexts: Floats) -> Floats:
        """Return the upper confidence bounds; all zero before there is a lag."""
        return super()._scores(contexts) if self.lag is not None else SWMP._scores(self, contexts)

    def observe(self, history: History, trajectory: str, round: int, reward: float) -> None:
        """Add the reward of `round` and the context selected `lag` rounds before it."""
        if round >= self.horizon and not self.second_phase:
            self.second_phase = True
            self.ellipsoid = Ellipsoid(self.dim, self.options.ridge)
        if self.lag is None or round == self.horizon:
            return
        part = history.trajectories[trajectory]
        place = round - self.lag - part.first_round
        if place >= 0:
            self.ellipsoid.update(part.contexts[place], reward)

    def install(self, estimate: Estimate) -> None:
        """Install the estimate's lag, and start the ellipsoid anew."""
        super().install(estimate)
        if estimate.active_lags and self.theta is estimate.theta:  # theta was finite
            self.lag = estimate.active_lags[0]
            self.ellipsoid = Ellipsoid(self.dim, self.options.ridge)
