"""How far levels differ: the restricted likelihood docs/model.md (7.28)."""

from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import lambertw

from lhb_engine.design.square_sums import RowMoments
from lhb_engine.history import Floats

# tau that are compared: 0, and from below what 10^4 rounds could show to where levels are free
SPREADS = np.append(0.0, np.geomspace(0.01, 1000.0, 401))
WITHIN = 1.92  # nats below the largest likelihood: the 95% interval of one parameter
_EQUAL = 1e-9  # nats that do not count


class Spread(NamedTuple):
    """How far levels differ.

    Attributes
    ----------
    tau : float
        Standard deviation of the levels over that of the noise.
    value : float
        Standard deviation of the levels.
    low, high : float
        Bounds of its 95% interval.
    """

    tau: float
    value: float
    low: float
    high: float


class LevelErrors(NamedTuple):
    """What errors e of a prediction are, level by level; levels of one size together.

    Attributes
    ----------
    sizes : (n_sizes,) array
        Measured rounds n of a level.
    counts : (n_sizes,) array
        Number of such levels.
    rounds, totals, squares : (n_sizes,) arrays
        Sums of n, of E = sum c e, and of E^2 / n over these levels.
    """

    sizes: Floats
    counts: Floats
    rounds: Floats
    totals: Floats
    squares: Floats


class Levelled(Protocol):
    """The moments of rows, and of their levels."""

    @property
    def rows(self) -> RowMoments:
        """The moments of the rows alone."""

    @property
    def begun(self) -> int:
        """Number of levels that are a trajectory's first."""

    @property
    def inexact(self) -> float:
        """By which share of itself the spread may be off, however many levels there are."""

    def errors(self, of: Floats) -> LevelErrors:
        """Return what is known of errors, which are the product of a row with `of`, (p,)."""


def level_correlation(moments: Levelled, coefficients: Floats) -> float:
    """Return the intraclass correlation rho of the largest likelihood, of those of `SPREADS`.

    Parameters
    ----------
    moments : Levelled
    coefficients : (p - 1,) array
        By which rows are predicted: phi (lag by lag), the baseline, and the other covariates.
    """
    cost, _ = _costs(moments, coefficients, SPREADS)
    tau = float(SPREADS[_first_of_least(cost)])
    return tau**2 / (1.0 + tau**2)


def level_spread(moments: Levelled, coefficients: Floats) -> Spread:
    """Return how far levels differ, by docs/model.md (7.28).

    The interval is that of all pairs of tau and noise whose likelihood is large enough. Levels of
    one trajectory may be one, so it is that of as many levels as there are trajectories. With many
    it is narrower than the steps of `SPREADS`, so tau is taken from finer ones near the largest.

    Parameters
    ----------
    moments, coefficients
        As in `level_correlation`.
    """
    cost, _ = _costs(moments, coefficients, SPREADS)
    n_levels = float(moments.errors(np.append(-coefficients, 1.0)).counts.sum())
    within = WITHIN * max(n_levels / max(moments.begun, 1), 1.0)
    near = np.flatnonzero(cost <= cost.min() + within)
    first, last = max(near[0] - 1, 0), min(near[-1] + 1, len(SPREADS) - 1)
    finer = np.geomspace(SPREADS[max(first, 1)], SPREADS[max(last, 1)], len(SPREADS))
    spreads = finer if first else np.append(0.0, finer)
    cost, noise = _costs(moments, coefficients, spreads)
    best = _first_of_least(cost)
    # beside tau, noise of 1 / w times the variance may be, where w - log w = 1 + 2 left / free
    left = np.maximum(cost.min() + within - cost, 0.0)
    edge = -np.exp(-1.0 - 2.0 * left / max(moments.rows.n_rows - 1, 1))
    near = cost <= cost.min() + within
    low = spreads * noise / np.sqrt(-lambertw(edge, -1).real)
    high = spreads * noise / np.sqrt(-lambertw(edge).real)
    value, off = float(spreads[best] * noise[best]), moments.inexact
    bounds = float(low[near].min()) * (1.0 - off), float(high[near].max()) * (1.0 + off)
    return Spread(float(spreads[best]), value, *bounds)


def _first_of_least(cost: Floats) -> int:
    return int(np.argmax(cost <= cost.min() + _EQUAL))


def _costs(moments: Levelled, coefficients: Floats, spreads: Floats) -> tuple[Floats, Floats]:
    """Return (7.28) of each tau, in nats, and the noise's standard deviation there."""
    error = np.append(-coefficients, 1.0)
    square = float(error @ moments.rows.matrix @ error)
    square = max(square, float(np.finfo(float).tiny))
    of_levels = moments.errors(error)
    kept = 1.0 / (1.0 + spreads[:, None] ** 2 * of_levels.sizes)
    known = kept @ of_levels.rounds
    left = square - (1.0 - kept) @ of_levels.squares - (kept @ of_levels.totals) ** 2 / known
    left = np.maximum(left, 1e-12 * square)
    free = max(moments.rows.n_rows - 1, 1)
    cost = 0.5 * (free * np.log(left) - np.log(kept) @ of_levels.counts + np.log(known))
    return cost, np.sqrt(left / free)
