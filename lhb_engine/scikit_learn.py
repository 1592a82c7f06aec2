"""The scikit-learn face: rows are rounds in order of time."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.group_lasso import GroupLasso, GroupLassoResult
from lhb_engine.lasso.rank_one import rank_one
from lhb_engine.lasso.regularization import noise_adaptive


class LaggedGroupLasso(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """y_t = sum_k <x_{t-k}, phi_k> + intercept, with few nonzero lags phi_k.

    Rows are consecutive rounds, x = 0 before the first; shuffled rows are another problem. Where
    the model phi_k = w_k theta holds, `theta_` and `lag_weights_` are its parts.

    Parameters
    ----------
    n_lags : int
        Number of lags, from 0.
    lam : float or None
        Regularisation strength; None: from the measured noise.
    fit_intercept : bool
    standardize : bool
        Divide each feature by its spread within the fit; lam is then that of the scaled problem.
    tol : float
        Relative duality gap at which the solver stops.

    Attributes
    ----------
    coef_ : (n_lags, n_features) array
    intercept_ : float
    theta_ : (n_features,) unit vector, zero where coef_ is
    lag_weights_ : (n_lags,) array that sums to >= 0; lag_weights_ x theta_ is nearest to coef_
    lam_, dual_gap_ : float
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 3))
    >>> y = np.convolve(X @ [0.6, 0.0, -0.8], [0, 0, 1, 0, 0.5])[:300] + 2
    >>> model = LaggedGroupLasso(n_lags=8, lam=0.001).fit(X, y)
    >>> np.flatnonzero(model.lag_weights_)
    array([2, 4])
    >>> model.theta_.round(2) + 0.0
    array([ 0.6,  0. , -0.8])
    """

    def __init__(
        self,
        n_lags: int = 10,
        lam: float | None = None,
        *,
        fit_intercept: bool = True,
        standardize: bool = False,
        tol: float = 1e-6,
    ) -> None:
        self.n_lags = n_lags
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.tol = tol

    def fit(self, X: Any, y: Any, lengths: Any = None) -> Self:
        """Fit.

        Parameters
        ----------
        X : (n_rounds, n_features) array
        y : (n_rounds,) array
        lengths : sequence of int, optional
            Rounds of each trajectory, in the order of the rows; by default all rows are one.
        """
        design, y, scale = self._prepared(X, y, lengths)
        lasso = GroupLasso(design, y, fit_intercept=self.fit_intercept)
        if self.lam is not None:
            lam = used = self.lam
        else:
            lam = noise_adaptive(design, y, fit_intercept=self.fit_intercept).lam
            used = lam if lam > 0 else 1.0  # constant y has no noise; any lam gives zero
        self._install(lasso.solve(used, tol=self.tol), lam, scale)
        return self

    def predict(self, X: Any) -> Floats:
        """Predicted rewards of a new trajectory, (n_rounds,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return LaggedDesign(X, self.n_lags).matvec(self.coef_) + self.intercept_

    def _prepared(self, X: Any, y: Any, lengths: Any) -> tuple[LaggedDesign, Floats, Floats]:
        """Design, values and feature scales of checked input."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        parts = [X]
        if lengths is not None:
            lengths = np.asarray(lengths)
            if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
                raise ValueError("lengths must be whole numbers, one a trajectory")
            if lengths.sum() != len(X):
                raise ValueError("lengths must sum to the number of rows")
            parts = np.split(X, np.cumsum(lengths)[:-1])
        scale = np.ones(X.shape[1])
        if self.standardize:
            spread = X.std(axis=0) if self.fit_intercept else np.sqrt((X**2).mean(axis=0))
            # a feature that never changes has no spread but rounding
            flat = spread <= 1e-12 * np.abs(X).max(axis=0)
            scale = np.where(flat, 1.0, spread)
        return LaggedDesign(parts, self.n_lags).scaled(1.0 / scale), y, scale

    def _install(self, result: GroupLassoResult, lam: float, scale: Floats) -> None:
        """Set the fitted attributes."""
        self.coef_ = result.phi / scale
        self.intercept_ = result.intercept
        self.lam_ = lam
        self.dual_gap_ = result.gap
        self.n_iter_ = max(1, result.n_iterations)
        found = rank_one(self.coef_)
        self.theta_ = np.zeros(len(scale)) if found is None else found.theta
        self.lag_weights_ = np.zeros(self.n_lags) if found is None else found.weights


class LaggedGroupLassoCV(LaggedGroupLasso):
    """`LaggedGroupLasso` with lam chosen by cross-validation over blocks of consecutive rounds.

    A held-out block is predicted from the contexts of all rounds, its lags included: contexts are
    known when rewards are not. Nothing is shuffled.

    Parameters
    ----------
    n_lags : int
    n_lams : int
        Points on a geometric path from lambda_max down.
    eps : float
        Smallest lam over lambda_max.
    n_folds : int
        Blocks.
    fit_intercept, standardize, tol
        As in `LaggedGroupLasso`.

    Attributes
    ----------
    lams_ : (n_lams,) array
    mse_path_ : (n_lams, n_folds) array

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 3))
    >>> y = np.convolve(X @ [0.6, 0.0, -0.8], [0, 0, 1])[:300] + 0.1 * rng.standard_normal(300)
    >>> model = LaggedGroupLassoCV(n_lags=8, n_folds=3).fit(X, y)
    >>> int(model.lag_weights_.argmax())
    2
    """

    def __init__(
        self,
        n_lags: int = 10,
        *,
        n_lams: int = 20,
        eps: float = 0.01,
        n_folds: int = 5,
        fit_intercept: bool = True,
        standardize: bool = False,
        tol: float = 1e-6,
    ) -> None:
        super().__init__(
            n_lags, None, fit_intercept=fit_intercept, standardize=standardize, tol=tol
        )
        self.n_lams = n_lams
        self.eps = eps
        self.n_folds = n_folds

    def fit(self, X: Any, y: Any, lengths: Any = None) -> Self:
        """Choose lam, then fit on all rounds; see `LaggedGroupLasso.fit`."""
        if self.n_folds < 2:
            raise ValueError("n_folds must be at least 2")
        design, y, scale = self._prepared(X, y, lengths)
        whole = GroupLasso(design, y, fit_intercept=self.fit_intercept)
        top = whole.lambda_max if whole.lambda_max > 0 else 1.0
        self.lams_ = top * np.geomspace(1.0, self.eps, self.n_lams)
        folds = np.array_split(np.arange(design.n_rows), min(self.n_folds, design.n_rows))
        errors = [self._errors(design, y, held) for held in folds]
        self.mse_path_ = np.array(errors).T
        best = int(self.mse_path_.mean(axis=1).argmin())
        results = list(whole.path(self.lams_[: best + 1].tolist(), tol=self.tol))
        self._install(results[-1], float(self.lams_[best]), scale)
        return self

    def _errors(self, design: LaggedDesign, y: Floats, held: Ints) -> list[float]:
        """Mean squared error on the held-out rows along the path."""
        kept = np.setdiff1d(np.arange(design.n_rows), held)
        train = GroupLasso(design.select(kept), y[kept], fit_intercept=self.fit_intercept)
        test = design.select(held)
        return [
            float(np.mean((y[held] - test.matvec(fit.phi) - fit.intercept) ** 2))
            for fit in train.path(self.lams_.tolist(), tol=self.tol)
        ]
