"""Agents with the confidence ellipsoid of recursive ridge regression (docs/model.md 6)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lhb_engine.agents.base import Agent, floats
from lhb_engine.agents.options import Options, option
from lhb_engine.agents.scores import scores_of
from lhb_engine.history import Floats

CHUNK_NUMBERS = 2**20  # products held at a time: 8 MB


class Ellipsoid:
    """A = ridge I + sum x x' and g = sum r x of docs/model.md (6.3), stored as A^-1 and g."""

    def __init__(self, dim: int, ridge: float) -> None:
        self.inverse: Floats = np.eye(dim) / ridge
        self.moment: Floats = np.zeros(dim)

    def update(self, context: Floats, reward: float) -> None:
        """Add one context and reward by the Sherman-Morrison formula.

        A pair that overflows is ignored.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            along = np.einsum("ij,j->i", self.inverse, context)
            shrinkage = 1.0 + float(np.einsum("i,i->", context, along))
            inverse = self.inverse - np.outer(along, along) / shrinkage
            moment = self.moment + reward * context
        if np.isfinite(inverse).all() and np.isfinite(moment).all():
            self.inverse, self.moment = inverse, moment

    def upper_bounds(self, contexts: Floats, width: float) -> Floats:
        """Return the upper confidence bounds docs/model.md (6.4), (..., K, dim) -> (..., K).

        The order of additions is the same for every arm, so that equal arms tie.
        """
        theta = np.einsum("ij,j->i", self.inverse, self.moment)
        arms = contexts.reshape(-1, contexts.shape[-1])
        spread = np.empty(len(arms))
        chunk = max(1, CHUNK_NUMBERS // self.inverse.size)
        for start in range(0, len(arms), chunk):
            some = arms[start : start + chunk]
            terms = np.multiply(some[:, :, None] * self.inverse, some[:, None, :], order="C")
            np.add.reduce(terms.reshape(len(some), -1), axis=-1, out=spread[start : start + chunk])
        optimism = width * np.sqrt(np.maximum(spread, 0.0)).reshape(contexts.shape[:-1])
        return np.asarray(scores_of(contexts, theta) + optimism)

    def to_json(self) -> dict[str, Any]:
        """Return A^-1 and g as a JSON object."""
        return {"inverse": self.inverse.tolist(), "moment": self.moment.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Invert `to_json`."""
        ellipsoid = cls(len(data["moment"]), 1.0)
        ellipsoid.inverse, ellipsoid.moment = floats(data["inverse"]), floats(data["moment"])
        return ellipsoid


@dataclass(frozen=True)
class EllipsoidOptions(Options):
    """Width and ridge of the confidence ellipsoid."""

    confidence_width: float = option(
        0.01, "Number of standard deviations that are added to a score.", limits=(0, 1e-9, 1e9)
    )
    ridge: float = option(1.0, "Ridge penalty of the regression.", limits=(1e-9, 1e9))


class Optimist(Agent):
    """An agent that is greedy in upper confidence bounds, and learns from each reward."""

    options_type: ClassVar[type[Options]] = EllipsoidOptions
    options: EllipsoidOptions
    learns_within_epoch = True
    kept = Agent.kept | {"ellipsoid": Ellipsoid.from_json}
    takes_corrections = False
    # with every reward dim x dim numbers are stored (360 kB), and as many rounds read as are lags
    served_dim, served_horizon = 128, 10_000
    max_dim = 1000  # A^-1 has dim x dim numbers: 8 MB

    def __init__(self, dim: int, horizon: int, options: EllipsoidOptions) -> None:
        super().__init__(dim, horizon, options)
        self.ellipsoid = Ellipsoid(dim, options.ridge)

    def _scores(self, contexts: Floats) -> Floats:
        """Return the upper confidence bounds."""
        return self.ellipsoid.upper_bounds(contexts, self.options.confidence_width)
