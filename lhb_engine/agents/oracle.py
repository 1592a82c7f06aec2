"""The oracle, which is told the true theta and has regret 0 (docs/model.md 6)."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.agents.base import Agent
from lhb_engine.agents.options import OptionError, Options, option


@dataclass(frozen=True)
class OracleOptions(Options):
    """The true direction."""

    theta: list[float] = option([], "The true direction, dim numbers.")


class Oracle(Agent):
    """Greedy in the true theta from the first round on, by docs/model.md (1.2)."""

    name = "oracle"
    summary = "Is given the true direction; its regret is 0."
    options_type = OracleOptions
    options: OracleOptions
    needs_truth = True

    def __init__(self, dim: int, horizon: int, options: OracleOptions) -> None:
        super().__init__(dim, horizon, options)
        if len(options.theta) != dim:
            raise OptionError("theta", f"must hold {dim} numbers")
        self.theta = np.array(options.theta, dtype=np.float64)
