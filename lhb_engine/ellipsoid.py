"""The confidence ellipsoid of a linear bandit: ridge regression, one observation at a time."""

from typing import Any, Self

import numpy as np

from lhb_engine.agents.base import scores_of
from lhb_engine.history import Floats


class Ellipsoid:
    """A = ridge I + sum x x', b = sum r x (Chu et al. 2011), kept as A^-1 and b.

    Parameters
    ----------
    dim : int
    ridge : float
        Positive.
    """

    def __init__(self, dim: int, ridge: float) -> None:
        self.inverse: Floats = np.eye(dim) / ridge
        self.moment: Floats = np.zeros(dim)

    def update(self, context: Floats, reward: float) -> None:
        """Add one pair, by the Sherman-Morrison formula."""
        along = np.einsum("ij,j->i", self.inverse, context)
        shrinkage = 1.0 + float(np.einsum("i,i->", context, along))
        self.inverse = self.inverse - np.outer(along, along) / shrinkage
        self.moment = self.moment + reward * context

    def upper_bounds(self, contexts: Floats, width: float) -> Floats:
        """<x, A^-1 b> + width sqrt(x' A^-1 x), (..., K, dim) -> (..., K).

        Every arm by the same additions in the same order, so that equal arms tie.
        """
        theta = np.einsum("ij,j->i", self.inverse, self.moment)
        terms = contexts[..., :, None] * self.inverse * contexts[..., None, :]
        spread = terms.reshape(*contexts.shape[:-1], -1).sum(axis=-1)
        return np.asarray(scores_of(contexts, theta) + width * np.sqrt(np.maximum(spread, 0.0)))

    def state(self) -> dict[str, Any]:
        """JSON-able numbers."""
        return {"inverse": self.inverse.tolist(), "moment": self.moment.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The ellipsoid that `state()` described."""
        ellipsoid = cls(len(state["moment"]), 1.0)
        ellipsoid.inverse = np.array(state["inverse"], dtype=np.float64)
        ellipsoid.moment = np.array(state["moment"], dtype=np.float64)
        return ellipsoid
