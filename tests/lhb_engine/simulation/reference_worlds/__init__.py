"""Five reference worlds as JSON files, each with the regret of `oracle_w` on it."""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from lhb_engine.simulation.environment import LongHorizonEnvironment

REFERENCE_WORLDS = ("single", "flat_5", "spiking_15", "random_30", "early_mass_10")


@dataclass(frozen=True)
class ReferenceWorld:
    """A fixed world and the regret to expect on it.

    Attributes
    ----------
    name, description : str
    environment : LongHorizonEnvironment
    n_rounds : int
        Rounds T to play.
    oracle_w_regret : float
        Final pseudo-regret of `oracle_w` with its default options and seed 0.
    """

    name: str
    description: str
    environment: LongHorizonEnvironment
    n_rounds: int
    oracle_w_regret: float

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; w as its nonzeros."""
        env = self.environment
        return {
            "name": self.name,
            "description": self.description,
            "n_rounds": self.n_rounds,
            "horizon": env.horizon,
            "n_arms": env.n_arms,
            "noise": env.noise,
            "seed": env.seed,
            "theta": env.theta.tolist(),
            "lags": np.flatnonzero(env.weights).tolist(),
            "weights": env.weights[env.weights != 0].tolist(),
            "oracle_w_regret": self.oracle_w_regret,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ReferenceWorld":
        """Invert `to_json`."""
        weights = np.zeros(data["horizon"])
        weights[data["lags"]] = data["weights"]
        environment = LongHorizonEnvironment(
            np.array(data["theta"]),
            weights,
            n_arms=data["n_arms"],
            noise=data["noise"],
            seed=data["seed"],
        )
        return cls(
            data["name"],
            data["description"],
            environment,
            data["n_rounds"],
            data["oracle_w_regret"],
        )


def load_world(name: str) -> ReferenceWorld:
    """Load one of `REFERENCE_WORLDS`.

    Raises
    ------
    KeyError
        No world of that name.
    """
    if name not in REFERENCE_WORLDS:
        raise KeyError(name)
    text = (files(__package__) / f"{name}.json").read_text(encoding="utf-8")
    return ReferenceWorld.from_json(json.loads(text))
