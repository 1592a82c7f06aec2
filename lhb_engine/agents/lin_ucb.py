"""LinUCB (docs/model.md 6), which credits each reward to the context of its own round."""

from dataclasses import dataclass
from typing import Any, Self

from lhb_engine.agents.base import Agent, Deciding, Options, option
from lhb_engine.agents.confidence_ellipsoid import Ellipsoid
from lhb_engine.agents.option_checks import check_number
from lhb_engine.history import Floats, History


@dataclass(frozen=True)
class LinUCBOptions(Options):
    """Width and ridge of the confidence ellipsoid."""

    confidence_width: float = option(
        0.01, "Number of standard deviations that are added to a score."
    )
    ridge: float = option(1.0, "Ridge penalty of the regression.")

    def __post_init__(self) -> None:
        check_number("confidence_width", self.confidence_width, 1e-9, 1e9, zero=True)
        check_number("ridge", self.ridge, 1e-9, 1e9)


class LinUCB(Agent):
    """Upper confidence bounds docs/model.md (6.4) with lag 0.

    To LinUCB the effects of all other lags are noise. It learns nothing where w_0 = 0.
    """

    name = "lin_ucb"
    summary = "LinUCB, which credits each reward to its own round: the common baseline."
    options_type = LinUCBOptions
    options: LinUCBOptions
    learns_within_epoch = True
    takes_corrections = False
    # with every reward dim x dim numbers are stored (360 kB), and as many rounds read as are lags
    served_dim, served_horizon = 128, 10_000
    max_dim = 1000  # A^-1 has dim x dim numbers: 8 MB

    def __init__(self, dim: int, horizon: int, options: LinUCBOptions) -> None:
        super().__init__(dim, horizon, options)
        self.ellipsoid = Ellipsoid(dim, options.ridge)

    @property
    def deciding(self) -> Deciding:
        """LinUCB decides by its ellipsoid from the first round on."""
        return "in_use"

    def _scores(self, contexts: Floats) -> Floats:
        """Return the upper confidence bounds."""
        return self.ellipsoid.upper_bounds(contexts, self.options.confidence_width)

    def observe(self, history: History, trajectory: str, round: int, reward: float) -> None:
        """Add the reward and the context selected in its round."""
        part = history.trajectories[trajectory]
        self.ellipsoid.update(part.contexts[round - part.first_round], reward)

    def state(self) -> dict[str, Any]:
        """Return the state as a JSON object, the ellipsoid included."""
        return super().state() | {"ellipsoid": self.ellipsoid.state()}

    @classmethod
    def from_state(cls, dim: int, horizon: int, options: Options, state: dict[str, Any]) -> Self:
        """Return the agent that `state()` described."""
        agent = super().from_state(dim, horizon, options, state)
        agent.ellipsoid = Ellipsoid.from_state(state["ellipsoid"])
        return agent
