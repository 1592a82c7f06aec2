"""Growth exponents: log-log slopes within each seed, whose spread gives the error."""

import numpy as np

from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.table import Table
from lhb_engine.history import Floats


def exponent(table: Table, x: str, y: str) -> SeedMean:
    """Return the exponent of y in x: the mean over the seeds of `slope_by_seed`."""
    return SeedMean(slope_by_seed(table, x, y))


def slope_by_seed(table: Table, x: str, y: str) -> Floats:
    """Return the least-squares slope of log y on log x within each seed, (n_seeds,)."""
    slopes = []
    for _, rows in table.by("seed"):
        at, value = rows.column(x), np.maximum(rows.column(y), 1e-12)
        slopes.append(float(np.polyfit(np.log(at), np.log(value), 1)[0]))
    return np.array(slopes)
