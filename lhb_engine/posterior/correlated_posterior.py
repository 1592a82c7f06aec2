"""A posterior, and the correlation of the rows' noise that it assumes (docs/model.md 7)."""

from collections.abc import Callable

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.prediction_check import Predictor
from lhb_engine.posterior.rank_one_posterior import Posterior

REFIT = 0.1  # change of rho above which the fit is repeated
REFIT_LEVELS, MOST_REFITS = 0.45, 3  # change of log(1 - rho) of levels; repetitions

# draws a posterior from rows with independent noise, as `rank_one_posterior` does
Sample = Callable[..., Posterior]


def correlated_posterior(
    data: FitData, sample: Sample, old: Predictor | None, theta: Floats | None, levels: bool
) -> tuple[Posterior, float]:
    """Return the posterior from some rows, and the rho of the noise that it assumes.

    rho is that of the installed estimate's residuals, (7.15) or, with levels, (7.28). If the new
    estimate's residuals have a rho that differs by more than 0.1, the fit is repeated with that
    one. With levels it is repeated, thrice at most, until their spread differs by no more than a
    quarter.

    Parameters
    ----------
    data : FitData
    sample : Sample
    old : Predictor or None
        The installed estimate's.
    theta : (dim,) array or None
        The direction that decisions are made by.
    levels : bool
        Whether trajectories have levels of their own.
    """
    rho, start, weights = 0.0, theta, None
    if old is not None:
        rho = data.autocorrelation(old.theta, old.lag_weights, old.beside)
        start, weights = old.theta, old.lag_weights
    found = sample(data.whitened(rho), start=start, weights=weights)
    for _ in range(MOST_REFITS if levels else 1):
        again = data.autocorrelation(found.theta, found.weights, found.effects)
        change = np.log((1.0 - again) / (1.0 - rho)) / REFIT_LEVELS if levels else 0.0
        if abs(again - rho) <= REFIT and abs(change) <= 1.0:
            return found, again if levels else rho
        rho = again
        found = sample(data.whitened(rho), start=found.theta, weights=found.weights)
    return found, rho
