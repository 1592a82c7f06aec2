"""An agent whose fits are of the rank-one model (docs/model.md 7): what these read of the agent."""

from lhb_engine.agents.anytime_options import AnytimeOptions
from lhb_engine.agents.base import Agent
from lhb_engine.history import Floats
from lhb_engine.posterior.anytime_settings import AnytimeSettings


class RankOneAgent(Agent):
    """Its `candidates` are posterior draws that decide in turn, (n, width); None: its mean does."""

    options: AnytimeOptions
    settings = AnytimeSettings()
    candidates: Floats | None = None

    @property
    def width(self) -> int:
        """The numbers of a context, and products of them that count."""
        return self.dim + len(self.products)
