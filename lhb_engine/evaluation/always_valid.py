"""A bound that Brownian motion crosses at no time at all, with a given probability.

An interval of a fixed sample is looked at once. Looked at every day, it excludes the truth sooner
or later. The bound here holds at all times together, so one may look, and stop, whenever one likes.
"""

from math import log, sqrt

import numpy as np

from lhb_engine.history import Floats

# Prior weights of the bound's slopes, and the slopes over that of the planned end. The first is
# best at the end; the others keep the bound from growing without need long before and after.
SLOPES = ((0.7, 1.0), (0.12, 3.0), (0.06, 9.0), (0.08, 1.0 / 3.0), (0.04, 1.0 / 9.0))
STEPS = 50  # of Newton's method; it needs 5 to 12
TOLERANCE = 1e-12  # of the log of M


def always_valid_quantile(share: Floats, level: float = 0.95) -> Floats:
    """Return z of docs/model.md (13.3): the quantile in place of 1.96 where one looks at any time.

    Parameters
    ----------
    share : (n,) array
        Information so far over that at the planned end, above 0. It may pass 1.
    level : float
        Probability with which all intervals together hold the truth.

    Returns
    -------
    (n,) array
        Half the width of the interval, in standard errors: 2.8 at the planned end for 95%.

    Notes
    -----
    M_f(x) = sum_k p_k cosh(l_k x) exp(-l_k^2 f / 2) is a martingale where x is Brownian motion at
    time f, and begins at 1. By Ville's inequality it ever reaches 1 / (1 - level) with probability
    1 - level at most. The bound is the x at which it does; z is x over the root of f.
    """
    share = np.asarray(share, dtype=np.float64)
    if not (share > 0).all():
        raise ValueError("share: must be above 0")
    best = sqrt(2.0 * log(2.0 / (1.0 - level)))
    prior, slopes = np.array(SLOPES).T
    slopes = slopes * best

    scaled = np.sqrt(share)[:, None] * slopes
    paid = np.log(prior / 2.0) - 0.5 * scaled**2 + log(1.0 - level)
    # The first slope's own bound lies above. Newton's steps from there stay above, for the log of M
    # is convex in z.
    z = 1.0 + 0.5 * best * np.sqrt(share) + (best + 2.0) / np.sqrt(share)
    for _ in range(STEPS):
        x = z[:, None] * scaled
        terms = paid + x + np.log1p(np.exp(-2.0 * x))  # cosh x = exp(x) (1 + exp(-2x)) / 2
        excess = np.logaddexp.reduce(terms, axis=1)
        slope = (np.exp(terms - excess[:, None]) * scaled * np.tanh(x)).sum(axis=1)
        z = z - excess / slope
        if (excess <= TOLERANCE).all():
            break
    return z
