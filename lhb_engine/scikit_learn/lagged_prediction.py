"""What a fitted model of lagged effects predicts, and how far off that may be."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import norm, t
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats


class LaggedPrediction(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predictions from the fitted attributes of `LaggedGroupLasso`, which documents them."""

    n_lags: int
    controls: Sequence[int]
    zero_start: bool
    coef_: Floats
    control_coef_: Floats
    intercept_: float
    sigma_: float
    refit_coef_: Floats
    refit_error_: Floats
    _lagged: list[int]  # columns of X that are no controls
    _mean: Floats  # of the lagged features
    _covariance: Floats
    _freedom: int  # of the refit

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def predict(self, X: Any, past: Any = None) -> Floats:
        """Predict the rewards of consecutive rounds.

        Parameters
        ----------
        X : (n_rounds, n_features) array
        past : (n_past, n_features) array, optional
            The rows before X. A lag that reaches further back sees the mean row of the fit, or
            zeros with `zero_start`.

        Returns
        -------
        (n_rounds,) array
        """
        X, before = self._checked(X, past)
        lagged = np.concatenate([before, X[:, self._lagged]])
        signal = LaggedDesign(lagged, self.n_lags).matvec(self.coef_)[len(before) :]
        return np.asarray(signal + X[:, list(self.controls)] @ self.control_coef_ + self.intercept_)

    def predict_interval(
        self, X: Any, past: Any = None, level: float = 0.95
    ) -> tuple[Floats, Floats]:
        """Predict intervals that hold a new reward with probability `level`.

        They add the noise and what lags before the known rows may hold; the errors of the
        coefficients are not in them. Noise is taken as normal and independent.

        Parameters
        ----------
        X, past
            As in `predict`.
        level : float

        Returns
        -------
        low, high : (n_rounds,) arrays
        """
        centre = self.predict(X, past)
        spread = np.full(len(centre), self.sigma_**2)
        if not self.zero_start:
            n_past = 0 if past is None else len(past)
            unseen = np.einsum("kd,de,ke->k", self.coef_, self._covariance, self.coef_)
            beyond = np.cumsum(unseen[::-1])[::-1]  # of lags k, k + 1, ...
            reach = np.arange(1, len(centre) + 1) + n_past
            inside = reach < self.n_lags
            spread[inside] += beyond[reach[inside]]
        half = norm.ppf(0.5 + level / 2) * np.sqrt(spread)
        return centre - half, centre + half

    def coef_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Confidence intervals of the active lags' coefficients, from the least-squares refit.

        They take the active lags as given: where the lasso selected a borderline lag on the same
        rewards, they are too narrow.

        Returns
        -------
        low, high : (n_lags, n_lagged) arrays
            NaN for lags that are not active, and where rows are too few.
        """
        check_is_fitted(self, "refit_coef_")
        half = t.ppf(0.5 + level / 2, self._freedom) * self.refit_error_
        return self.refit_coef_ - half, self.refit_coef_ + half

    def _checked(self, X: Any, past: Any) -> tuple[Floats, Floats]:
        """X, and the n_lags - 1 rows of lagged features before it."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        missing = np.zeros(len(self._lagged)) if self.zero_start else self._mean
        before = np.zeros((0, X.shape[1]))
        if past is not None and len(past):
            before = check_array(past, dtype=np.float64)
            if before.shape[1] != X.shape[1]:
                raise ValueError(f"past must have {X.shape[1]} columns")
        before = before[max(0, len(before) - (self.n_lags - 1)) :, self._lagged]
        return X, np.concatenate([np.tile(missing, (self.n_lags - 1 - len(before), 1)), before])
