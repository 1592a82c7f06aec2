"""A posterior, and the correlation of the rows' noise that it assumes (docs/model.md 7).

Errors of a wrong direction last, as correlated noise does. Differences (7.16) would then take the
signal away, and the next fit would find the same correlation. So correlation is assumed only where
it explains the rows better than none does.
"""

from collections.abc import Callable

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.posterior.rank_one_posterior import Posterior

REFIT = 0.1  # change of rho above which the fit is repeated
REFIT_LEVELS, MOST_REFITS = 0.45, 3  # change of log(1 - rho) of levels; repetitions

# draws a posterior from rows with independent noise, as `rank_one_posterior` does
Sample = Callable[..., Posterior]


def correlated_posterior(
    data: FitData, sample: Sample, old: Predictor | None, theta: Floats | None
) -> tuple[Posterior, float]:
    """Return the posterior from some rows, and the rho of the noise that it assumes.

    rho is that of the installed estimate's residuals, (7.15) or, with levels, (7.28). If the new
    estimate's residuals have a rho that differs by more than 0.1, the fit is repeated with that
    one. With levels it is repeated, thrice at most, until their spread differs by no more than a
    quarter. Without levels, a fit that assumes independent noise decides if it explains the rows
    better, (7.30). `theta` is the direction that decisions are made by.
    """
    rho, start, weights = 0.0, theta, None
    if old is not None:
        rho = data.autocorrelation(old.theta, old.lag_weights, old.beside)
        start, weights = old.theta, old.lag_weights
    last = rho != 0.0
    posterior = sample(data.whitened(rho), start=start, weights=weights, errors_last=last)
    if data.has_levels:
        return _of_levels(data, sample, posterior, rho)
    again = data.autocorrelation(posterior.theta, posterior.weights, posterior.effects)
    if abs(again - rho) > REFIT:
        rho = again
        about = {"start": posterior.theta, "weights": posterior.weights}
        posterior = sample(data.whitened(rho), **about, errors_last=True)
    if rho == 0.0:
        return posterior, rho
    plain = sample(data.whitened(0.0), start=start, weights=weights, errors_last=True)
    is_plain = misfit(data, plain, 0.0) < misfit(data, posterior, rho)
    return (plain, 0.0) if is_plain else (posterior, rho)


def _of_levels(
    data: FitData, sample: Sample, posterior: Posterior, rho: float
) -> tuple[Posterior, float]:
    for _ in range(MOST_REFITS):
        again = data.autocorrelation(posterior.theta, posterior.weights, posterior.effects)
        change = np.log((1.0 - again) / (1.0 - rho)) / REFIT_LEVELS
        if abs(again - rho) <= REFIT and abs(change) <= 1.0:
            return posterior, again
        rho = again
        posterior = sample(data.whitened(rho), start=posterior.theta, weights=posterior.weights)
    return posterior, rho


def misfit(data: FitData, posterior: Posterior, rho: float) -> float:
    """Return (7.30): the smaller, the better are the rows explained."""
    square = data.square(posterior.theta, posterior.weights, posterior.effects, rho)
    return data.n_rows * float(np.log(square)) - data.n_alone * float(np.log1p(-(rho**2)))
