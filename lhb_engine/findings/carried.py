"""What the prediction leaves of the latest rows, and columns carried over lags as scores are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import autocorrelation, innovations
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.prediction_check import Predictor

APART = 0.05  # of a column's square that nothing beside it explains
ROWS_A_COLUMN = 10
MOST_ROWS = 2048  # the latest
MOST_NUMBERS = 2**20  # of columns


@dataclass(frozen=True)
class CarriedErrors:
    """The errors of the latest rows, in their order, with what they keep of the last taken out."""

    rows: AlignedRounds
    weights: Floats  # (n_lags,)
    rho: float
    order: Ints  # (n_rows,): places

    @classmethod
    def of(
        cls, rows: AlignedRounds, errors: Floats, weights: Floats, n_columns: int
    ) -> "CarriedErrors | None":
        """Return the errors that so many columns are judged by; None where rows are too few."""
        if not weights.any() or rows.n_rows < ROWS_A_COLUMN * n_columns:
            return None
        latest = np.isin(np.arange(len(errors)), rows.in_order()[-MOST_ROWS:])
        rows = replace(rows, y=errors).only(latest)
        if len(rows.y) * n_columns > MOST_NUMBERS:
            return None
        return cls(rows, weights, autocorrelation(rows, rows.y), rows.in_order())

    @property
    def errors(self) -> Floats:
        """The errors, (n_rows,)."""
        return self._left(self.rows.y)

    @property
    def about(self) -> Floats:
        """The baseline and the covariates, (n_rows, 1 + n_covariates)."""
        return np.column_stack([self._left(one) for one in self.rows.beside.T])

    def past(self, columns: Sequence[Floats]) -> Floats:
        """Return columns, one number a place each, summed over lags, (n_rows, n_columns)."""
        return self._carried(columns, self.weights, 0)

    def future(self, columns: Sequence[Floats]) -> Floats:
        """Return columns summed over rounds to come: what these explain is chance."""
        return self._carried(columns, self.weights[::-1], len(self.weights))

    def _carried(self, columns: Sequence[Floats], by: Floats, skip: int) -> Floats:
        lagged = (np.convolve(np.append(one, 0.0), by)[skip:][: len(one)] for one in columns)
        return np.column_stack([self._left(one) for one in lagged])

    def _left(self, values: Floats) -> Floats:
        here = np.where(self.rows.number > 0, values, 0.0)
        return innovations(self.rows, here, self.rho)[self.order]


def score_weights(rows: AlignedRounds, known: Predictor) -> Floats:
    """Return what scores pay at each lag, (n_lags,)."""
    weights = known.lag_weights[: rows.n_lags]
    return weights if weights.ndim == 1 else weights[:, : rows.dim] @ known.theta[: rows.dim]


def clearness(beside: Floats, columns: Floats, target: Floats) -> Floats:
    """Return how clearly each column explains the target, in standard errors; 0 where unclear."""
    size = np.linalg.norm(beside, axis=0)
    basis, upper = np.linalg.qr(beside / np.where(size > 0.0, size, 1.0))
    basis = basis[:, np.abs(np.diag(upper)) > 1e-6]
    rest, errors = columns - basis @ (basis.T @ columns), target - basis @ (basis.T @ target)
    square, whole = (rest**2).sum(axis=0), (columns**2).sum(axis=0)
    noise = float(errors @ errors) / max(len(errors) - len(basis.T), 1)
    scores = rest.T @ errors / np.sqrt(np.maximum(noise * square, 1e-300))
    return np.where(square > APART * whole, scores, 0.0)
