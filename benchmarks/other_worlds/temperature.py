"""Deaths by temperature (chicagoNMMAPS, 5114 days): heat kills at once, cold for weeks.

Both curves are of the logarithm of deaths by degrees below 15 and above 25, lags 0 to 10, beside
days of the week and a spline of time. The published way is a crossbasis of the package dlnm, few
numbers a curve, in a quasi-Poisson regression; ours is least squares of all lags, with the bands of
`LaggedGroupLasso`.
"""

from typing import Any

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.scikit_learn import LaggedGroupLasso

COLD, HOT = 15.0, 25.0
N_LAGS = 11
KNOTS_A_YEAR = 7
LAST_STRATA = [2, 6]  # lags from which the package's curves have another height


def beside_of(data: Any) -> Floats:
    """Return days of the week and the spline of time, (n_days, n_columns)."""
    from dlnm import ns

    days = np.column_stack([data["dow"] == day for day in sorted(data["dow"].unique())[1:]])
    spline = np.asarray(ns(data["time"].to_numpy(np.float64), df=KNOTS_A_YEAR * 14))
    return np.column_stack([days.astype(np.float64), spline])


def published(data: Any, beside: Floats) -> Floats:
    """Return the package's curves of cold and heat, a degree, (n_lags, 2)."""
    import statsmodels.api as sm
    from dlnm import crossbasis

    asked = {"fun": "thr", "thr_value": [COLD, HOT], "side": "d"}
    heights = {"fun": "strata", "breaks": LAST_STRATA}
    basis: Any = crossbasis(data["temp"], lag=N_LAGS - 1, argvar=asked, arglag=heights)
    columns = np.column_stack([np.asarray(basis), np.ones(len(data)), beside])
    known = ~np.isnan(columns).any(axis=1)
    family = sm.families.Poisson()
    fit = sm.GLM(data["death"].to_numpy()[known], columns[known], family=family).fit(scale="X2")
    n_heights = basis.shape[1] // 2
    by_lag = np.ones((N_LAGS, n_heights))
    for column, first in enumerate(LAST_STRATA, 1):
        by_lag[:, column] = np.arange(N_LAGS) >= first
        if column < len(LAST_STRATA):
            by_lag[LAST_STRATA[column] :, column] = 0.0
    return np.asarray(by_lag @ fit.params[: 2 * n_heights].reshape(2, n_heights).T)


def ours(data: Any, beside: Floats) -> tuple[Floats, Floats, Floats]:
    """Return our curves a degree, and the ends of their bands, (n_lags, 2) each."""
    degrees = data["temp"].to_numpy(np.float64)
    features = np.column_stack([np.maximum(COLD - degrees, 0.0), np.maximum(degrees - HOT, 0.0)])
    numbers = list(range(2, 2 + beside.shape[1]))
    model = LaggedGroupLasso(N_LAGS, 1e-9, controls=numbers, standard_errors=True)
    model.fit(np.column_stack([features, beside]), np.log(data["death"].to_numpy(np.float64)))
    return model.refit_coef_, *model.coef_interval()


def run(seeds: range) -> list[tuple[str, list[float]]]:
    """Return the rates of both ways, and the share of published points in our bands."""
    from dlnm import load_chicagoNMMAPS

    data: Any = load_chicagoNMMAPS()
    beside = beside_of(data)
    theirs, (own, low, high) = published(data, beside), ours(data, beside)
    rows = []
    for who, curves in (("dlnm", theirs), ("`LaggedGroupLasso`", own)):
        for column, what in enumerate(("cold", "heat")):
            rows.append((f"{who}, {what}", [float(np.exp(10 * curves[:, column].sum()))]))
    inside = (low <= theirs) & (theirs <= high)
    return [*rows, ("share of dlnm's points in our bands", [float(inside.mean())])]
