"""The span of the contexts: with fewer rounds than features, chains run in it.

Rewards depend on theta through its products with contexts alone, and theta's prior (7.2) is the
same in every orthonormal basis. So the part of theta outside the span keeps its prior, whatever the
rewards are, and the part inside has the posterior of a theta with as many numbers as the span has
dimensions (docs/model.md 7, Gibbs sweep).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import qr

from lhb_engine.history import Floats


@dataclass(frozen=True)
class ContextSpan:
    """Contexts in coordinates of their span, or as they are if it may be the whole space.

    `coordinates` are (n_places, rank); `rank` is the number of contexts that are not zero, or
    `dim`. `basis` (dim, rank) has orthonormal columns; None stands for the unit matrix.
    """

    coordinates: Floats
    basis: Floats | None

    @classmethod
    def of(cls, contexts: Floats) -> Self:
        """Return the span of (n_places, dim) contexts."""
        places = np.flatnonzero(contexts.any(axis=1))
        if not 0 < len(places) < contexts.shape[1]:
            return cls(contexts, None)
        basis, upper = qr(contexts[places].T, overwrite_a=True, mode="economic", check_finite=False)
        coordinates = np.zeros((len(contexts), len(places)))
        coordinates[places] = upper.T
        return cls(coordinates, np.asarray(basis, np.float64))

    def inside(self, vectors: Floats) -> Floats:
        """Return the coordinates of vectors' parts inside the span, (n, dim) -> (n, rank)."""
        return vectors.copy() if self.basis is None else vectors @ self.basis

    def whole(self, inside: Floats, outside: Floats) -> Floats:
        """Return vectors (n, dim) with given parts inside and outside the span.

        `inside` (n, rank) are coordinates; of the vectors `outside` (n, dim) parts outside the span
        count.
        """
        if self.basis is None:
            return inside
        return np.asarray(outside + (inside - outside @ self.basis) @ self.basis.T)
