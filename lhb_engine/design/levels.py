"""Levels of their own: a random intercept for each trajectory (docs/model.md 7).

The level is a new one in each stretch of so many rounds, so that a fit need not know how a long
trajectory began. Integrated out, levels of standard deviation tau sigma make two rounds of one
stretch correlated by rho = tau^2 / (1 + tau^2), the intraclass correlation. This takes the place of
the autocorrelation of `coloured_noise`, and is read off errors like it.
"""

from typing import NamedTuple

import numpy as np

from lhb_engine.history import Floats, Ints


class Stretches(NamedTuple):
    """Where the levels of trajectories change: after `n_rounds` rounds; 0: there are no levels.

    `n_before` of the first stretch's rounds come before the trajectory's first round.
    """

    n_rounds: int
    n_before: int

    def of(self, rounds: Ints) -> list[tuple[int, int]]:
        """Return the first and the last round of each stretch that has any of some rounds."""
        n, before = self
        starts = np.unique((rounds - 1 + before) // n) * n + 1 - before
        return [(first, first + n - 1) for first in starts.tolist()]


NO_LEVELS = Stretches(0, 0)


def without_levels(values: Floats, level: Ints, intercept: Floats, rho: float) -> Floats:
    """Return rows whose levels are taken out, with independent noise: docs/model.md (7.27).

    `values` has a column a variable, `level` (n,) the level of each row, `intercept` (n,) the
    column c, 0 where there is no row; rho is the intraclass correlation.
    """
    numbers, place = np.unique(level, return_inverse=True)
    place, n = place.reshape(-1), len(numbers)
    size = np.bincount(place, intercept**2, n).astype(np.float64)
    share = (1.0 - kept_share(rho, size)) / np.where(size > 0, size, 1.0)
    columns = values.reshape(len(values), -1)
    means = np.stack([np.bincount(place, intercept * column, n) for column in columns.T], axis=1)
    out = columns - intercept[:, None] * (share[:, None] * means)[place]
    return out.reshape(values.shape)


def known_level(
    errors: Floats, intercept: Floats, spread: float, noise: float
) -> tuple[float, float]:
    """Return what errors of one level say of it: its posterior mean and standard deviation.

    The level's spread is tau sigma, the noise sigma above 0; `intercept` is the column c.
    """
    within = float(np.hypot(spread * float(np.linalg.norm(intercept)), noise))
    share = spread / within  # squares of small numbers are 0
    return float(intercept @ errors) * share**2, noise * share


def kept_share(rho: float, sizes: Floats) -> Floats:
    """Return 1 / sqrt(1 + tau^2 n): how much of its mean a level of n rounds keeps."""
    return np.asarray(np.sqrt((1.0 - rho) / (1.0 - rho + rho * sizes)))
