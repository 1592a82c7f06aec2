"""What to expect of the contexts before round 1: the mean of those seen (docs/model.md (7.29))."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats

WIDTH = 2.0  # prior deviation of the past's mean score about that expected, in scores' deviations
LEAST = 1e-3  # deviation of scores, over their size, below which contexts are taken to be alike


@dataclass(frozen=True)
class ExpectedPast:
    """The past that contexts seen since lead to expect.

    `share` (dim,) is the mean context, for each unit of the feature of the past; `spread` (dim,)
    the standard deviation of each feature of a context; `value` that of the feature of the past, in
    the rounds before the first.
    """

    share: Floats
    spread: Floats
    value: float

    def less(self, rows: AlignedRounds | RowMoments) -> AlignedRounds | RowMoments:
        """Return rows whose contexts before round 1 are the mean, and whose last feature is more.

        What that feature pays is then the difference to what is expected.
        """
        return rows.mixed(self.share)

    def beyond(self, theta: Floats) -> Floats:
        """Return theta for such rows, (dim + 1,) -> (dim + 1,); the inverse of `whole`."""
        return np.append(theta[:-1], theta[-1] - theta[:-1] @ self.share)

    def whole(self, thetas: Floats) -> Floats:
        """Return thetas for rows as they were from those for such rows, (n, dim + 1)."""
        out = thetas.copy()
        out[:, -1] += thetas[:, :-1] @ self.share
        return out

    def scale(self, scale: Floats) -> float:
        """Return the scale of the last feature where those of a context have these, (dim,)."""
        spread = float(np.linalg.norm(self.spread / scale))
        return self.value / (WIDTH * max(spread, LEAST * float(np.sqrt(len(scale)))))


def expected_past(rows: AlignedRounds | RowMoments, value: float) -> ExpectedPast:
    """Return the past to expect by the contexts of the rows' own rounds.

    Their last feature is that of the past: 0 in these rounds, and `value` before the first.
    """
    square, along, unit = rows.context_sums
    mean = along[:-1] / unit
    variance = np.maximum(square[:-1] - mean * along[:-1], 0.0) / rows.n_rows
    return ExpectedPast(mean / value, np.sqrt(variance), value)
