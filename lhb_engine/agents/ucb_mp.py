"""UCB-MP: LinUCB on pairs of a reward and the context of SW-MP's lag (docs/model.md 6)."""

from dataclasses import dataclass
from typing import Any, Self

from lhb_engine.agents.base import Options, option
from lhb_engine.agents.confidence_ellipsoid import Ellipsoid
from lhb_engine.agents.epoch_agent import EpochOptions
from lhb_engine.agents.option_checks import check_number
from lhb_engine.agents.sw_mp import SWMP
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History


@dataclass(frozen=True)
class UCBMPOptions(EpochOptions):
    """Epochs, and width and ridge of the confidence ellipsoid."""

    confidence_width: float = option(
        0.01, "Number of standard deviations that are added to a score."
    )
    ridge: float = option(3.0, "Ridge penalty of the regression.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("confidence_width", self.confidence_width, 1e-9, 1e9, zero=True)
        check_number("ridge", self.ridge, 1e-9, 1e9)


class UCBMP(SWMP):
    """LinUCB, docs/model.md (6.3) and (6.4), with the lag k* that SW-MP finds at an epoch's end.

    It plays uniformly at random before its first lag. The ellipsoid starts anew with each lag, and
    once more after round h, where AD-Lasso's second phase begins.
    """

    name = "ucb_mp"
    summary = "SW-MP's lag, and LinUCB on pairs of a reward and the context that many rounds ago."
    options_type = UCBMPOptions
    options: UCBMPOptions
    learns_within_epoch = True
    takes_corrections = False
    # with every reward dim x dim numbers are stored (360 kB), and as many rounds read as are lags
    served_dim, served_horizon = 128, 10_000
    max_dim = 1000  # A^-1 has dim x dim numbers: 8 MB

    def __init__(self, dim: int, horizon: int, options: UCBMPOptions) -> None:
        super().__init__(dim, horizon, options)
        self.lag: int | None = None
        self.ellipsoid = Ellipsoid(dim, options.ridge)
        self.second_phase = False

    def _scores(self, contexts: Floats) -> Floats:
        """Return the upper confidence bounds; all zero before there is a lag."""
        if self.lag is None:
            return super()._scores(contexts)
        return self.ellipsoid.upper_bounds(contexts, self.options.confidence_width)

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

    def state(self) -> dict[str, Any]:
        """Return the state as a JSON object, with lag, ellipsoid and phase."""
        own = {"lag": self.lag, "second_phase": self.second_phase}
        return super().state() | own | {"ellipsoid": self.ellipsoid.state()}

    @classmethod
    def from_state(cls, dim: int, horizon: int, options: Options, state: dict[str, Any]) -> Self:
        """Return the agent that `state()` described."""
        agent = super().from_state(dim, horizon, options, state)
        agent.lag = state["lag"]
        agent.second_phase = state.get("second_phase", True)  # absent from older states
        agent.ellipsoid = Ellipsoid.from_state(state["ellipsoid"])
        return agent
