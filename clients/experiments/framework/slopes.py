"""Growth exponents: slopes on log axes, one a seed, so that their spread is the error."""

import numpy as np

from clients.experiments.framework.table import Table
from lhb_engine.history import Floats


def slope_by_seed(table: Table, x: str, y: str) -> Floats:
    """Least-squares slope of log y on log x within each seed, (n_seeds,)."""
    slopes = []
    for _, rows in table.by("seed"):
        at, value = rows.column(x), np.maximum(rows.column(y), 1e-12)
        slopes.append(float(np.polyfit(np.log(at), np.log(value), 1)[0]))
    return np.array(slopes)


def log_fit_by_seed(table: Table, x: str, y: str) -> Floats:
    """b of y = a + b log x within each seed, (n_seeds,)."""
    return np.array(
        [
            float(np.polyfit(np.log(rows.column(x)), rows.column(y), 1)[0])
            for _, rows in table.by("seed")
        ]
    )
