"""Levels of their own: a random intercept for each trajectory (docs/model.md 7).

A trajectory's rows are y = X phi + Z b + c u + eps, where its level u is normal with standard
deviation tau sigma. Integrated out, u makes its rows correlated: two rounds of one trajectory have
the intraclass correlation rho = tau^2 / (1 + tau^2). It takes the place of the autocorrelation of
`coloured_noise`, and like it is read off errors.
"""

import numpy as np

from lhb_engine.history import Floats, Ints


def without_levels(values: Floats, owner: Ints, intercept: Floats, rho: float) -> Floats:
    """Return rows whose levels are taken out, with independent noise: docs/model.md (7.27).

    Parameters
    ----------
    values : (n,) or (n, m) array
        A column a variable.
    owner : (n,) array
        The trajectory of each row.
    intercept : (n,) array
        The column c; 0 where there is no row.
    rho : float
        Intraclass correlation.
    """
    found, place = np.unique(owner, return_inverse=True)
    place, n = place.reshape(-1), len(found)
    size = np.bincount(place, intercept**2, n).astype(np.float64)
    share = (1.0 - kept_share(rho, size)) / np.where(size > 0, size, 1.0)
    columns = values.reshape(len(values), -1)
    means = np.stack([np.bincount(place, intercept * column, n) for column in columns.T], axis=1)
    out = columns - intercept[:, None] * (share[:, None] * means)[place]
    return out.reshape(values.shape)


def kept_share(rho: float, sizes: Floats) -> Floats:
    """Return 1 / sqrt(1 + tau^2 n): how much of its mean a trajectory of n rounds keeps."""
    return np.asarray(np.sqrt((1.0 - rho) / (1.0 - rho + rho * sizes)))
