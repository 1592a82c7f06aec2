"""LinUCB (docs/model.md 6), which credits each reward to the context of its own round."""

from lhb_engine.agents.base import Deciding
from lhb_engine.agents.confidence_ellipsoid import Optimist
from lhb_engine.history import History


class LinUCB(Optimist):
    """Upper confidence bounds docs/model.md (6.4) with lag 0.

    To LinUCB the effects of all other lags are noise. It learns nothing where w_0 = 0.
    """

    name = "lin_ucb"
    summary = "LinUCB, which credits each reward to its own round: the common baseline."

    @property
    def deciding(self) -> Deciding:
        """LinUCB decides by its ellipsoid from the first round on."""
        return "in_use"

    def observe(self, history: History, trajectory: str, round: int, reward: float) -> None:
        """Add the reward and the context selected in its round."""
        part = history.trajectories[trajectory]
        self.ellipsoid.update(part.contexts[round - part.first_round], reward)
