"""`LaggedGroupLasso`: regression on few lags of the features; rows are rounds in order."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.stats import norm, t
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import GroupLasso, GroupLassoResult
from lhb_engine.lasso.rank_one import rank_one
from lhb_engine.lasso.regularization import noise_adaptive
from lhb_engine.lasso.standard_errors import least_squares_refit


class Rows(NamedTuple):
    """The rows of a fit: scaled lagged design, values, unlagged columns, feature scales."""

    design: LaggedDesign
    y: Floats
    controls: Floats
    scale: Floats


class LaggedGroupLasso(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """y_t = sum_k <x_{t-k}, phi_k> + <z_t, b> + intercept, with few nonzero lags phi_k.

    Rows are consecutive rounds; shuffled rows are another problem. Where the model
    phi_k = w_k theta holds (docs/model.md (1.4)), `theta_` and `lag_weights_` are its parts.

    Parameters
    ----------
    n_lags : int
        Number of lags, from 0.
    lam : float or None
        Regularisation strength, positive; None: from the measured noise.
    controls : sequence of int
        Columns z of X that enter without lags and without penalty.
    zero_start : bool
        Whether x = 0 is true before a trajectory's first row. Otherwise its first n_lags - 1 rows
        supply lags only, and their y is not used.
    fit_intercept : bool
    standardize : bool
        Divide each lagged feature by its standard deviation; lam belongs to the scaled problem.
    standard_errors : bool
        Refit the active lags by least squares and keep standard errors, for `coef_interval`.
    tol : float
        Relative duality gap at which the solver stops.

    Attributes
    ----------
    coef_ : (n_lags, n_lagged) array
        phi, of the columns that are no controls.
    control_coef_ : (n_controls,) array
    intercept_ : float
    theta_ : (n_lagged,) array
        Unit vector; zero where coef_ is.
    lag_weights_ : (n_lags,) array
        Of either sign, summing to >= 0; the outer product with theta_ is nearest to coef_.
    sigma_ : float
        Standard deviation of the residuals, corrected for the nonzero coefficients; infinite
        where these are as many as rows.
    lam_, dual_gap_ : float
    n_iter_, n_rows_ : int
        Iterations of the solver; rows whose y was used.
    refit_coef_, refit_error_ : (n_lags, n_lagged) arrays
        Least-squares coefficients of the active lags and their standard errors, NaN elsewhere;
        only with `standard_errors`.

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
        controls: Sequence[int] = (),
        zero_start: bool = False,
        fit_intercept: bool = True,
        standardize: bool = False,
        standard_errors: bool = False,
        tol: float = 1e-6,
    ) -> None:
        self.n_lags = n_lags
        self.lam = lam
        self.controls = controls
        self.zero_start = zero_start
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.standard_errors = standard_errors
        self.tol = tol

    def fit(self, X: Any, y: Any, lengths: Any = None) -> Self:
        """Fit the lasso, and with `standard_errors` the refit of its active lags.

        Parameters
        ----------
        X : (n_rounds, n_features) array
        y : (n_rounds,) array
        lengths : sequence of int, optional
            Rounds of each trajectory, in the order of the rows; by default all rows are one.

        Raises
        ------
        ValueError
            Bad input or parameters, or fewer than two rows whose lags are all known.
        """
        rows = self._rows(X, y, lengths)
        lasso = self._lasso(rows)
        if self.lam is not None:
            lam = used = self.lam
        else:
            lam = noise_adaptive(
                rows.design,
                rows.y,
                fit_intercept=self.fit_intercept,
                controls=rows.controls,
            ).lam
            used = lam if lam > 0 else 1.0  # constant y has no noise; any lam gives zero
        self._install(lasso.solve(used, tol=self.tol), lam, rows)
        return self

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
        known = np.zeros((0, X.shape[1]))
        if past is not None and len(past):
            known = check_array(past, dtype=np.float64)
            if known.shape[1] != X.shape[1]:
                raise ValueError(f"past must have {X.shape[1]} columns")
        known = known[max(0, len(known) - (self.n_lags - 1)) :, self._lagged]
        return X, np.concatenate([np.tile(missing, (self.n_lags - 1 - len(known), 1)), known])

    def _rows(self, X: Any, y: Any, lengths: Any) -> Rows:
        """Check the input and lay out the rows of the fit."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        controls = list(self.controls)
        if len(set(controls)) < len(controls) or not set(controls) < set(range(X.shape[1])):
            raise ValueError("controls must be some of X's columns, each once, and not all of them")
        self._lagged = [i for i in range(X.shape[1]) if i not in controls]
        lagged = X[:, self._lagged]
        lengths = _lengths(lengths, len(X))
        design = LaggedDesign(np.split(lagged, np.cumsum(lengths)[:-1]), self.n_lags)
        if not self.zero_start:
            place = np.concatenate([np.arange(n) for n in lengths])
            used = np.flatnonzero(place >= self.n_lags - 1)
            if len(used) < 2:
                raise ValueError(
                    f"{len(used)} rows have all {self.n_lags} lags; a fit needs 2 "
                    "(zero_start=True takes x as 0 before the first row)"
                )
            design, y, X = design.select(used), y[used], X[used]
        scale = np.ones(lagged.shape[1])
        if self.standardize:
            spread = lagged.std(axis=0) if self.fit_intercept else np.sqrt((lagged**2).mean(axis=0))
            # a constant feature has no spread but rounding
            flat = spread <= 1e-12 * np.abs(lagged).max(axis=0)
            scale = np.where(flat, 1.0, spread)
        self._mean = lagged.mean(axis=0)
        self._covariance = np.atleast_2d(np.cov(lagged, rowvar=False, bias=True))
        return Rows(design.scaled(1.0 / scale), y, X[:, controls], scale)

    def _lasso(self, rows: Rows) -> GroupLasso:
        return GroupLasso(
            rows.design, rows.y, fit_intercept=self.fit_intercept, controls=rows.controls
        )

    def _install(self, result: GroupLassoResult, lam: float, rows: Rows) -> None:
        """Set the fitted attributes."""
        self.coef_ = result.phi / rows.scale
        self.control_coef_ = result.controls
        self.intercept_ = result.intercept
        self.lam_ = lam
        self.dual_gap_ = result.gap
        self.n_iter_ = max(1, result.n_iterations)
        self.n_rows_ = rows.design.n_rows
        found = rank_one(self.coef_)
        self.theta_ = np.zeros(len(rows.scale)) if found is None else found.theta
        self.lag_weights_ = np.zeros(self.n_lags) if found is None else found.weights
        residual = rows.y - rows.design.matvec(result.phi) - rows.controls @ result.controls
        residual -= result.intercept * rows.design.intercept
        n_fitted = np.count_nonzero(result.phi) + len(self.controls) + self.fit_intercept
        freedom = self.n_rows_ - n_fitted
        self.sigma_ = float(np.sqrt(residual @ residual / freedom)) if freedom > 0 else np.inf
        if self.standard_errors:
            active = np.flatnonzero(block_norms(result.phi))
            coef, error, self._freedom = least_squares_refit(
                rows.design, rows.y, active, self.fit_intercept, rows.controls
            )
            self.refit_coef_, self.refit_error_ = np.full((2, *self.coef_.shape), np.nan)
            self.refit_coef_[active] = coef / rows.scale
            self.refit_error_[active] = error / rows.scale


def _lengths(lengths: Any, n_rows: int) -> Ints:
    """Check trajectory lengths; None is one trajectory."""
    if lengths is None:
        return np.array([n_rows])
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise ValueError("lengths must be whole numbers, one for each trajectory")
    if lengths.sum() != n_rows:
        raise ValueError("lengths must sum to the number of rows")
    return np.asarray(lengths, dtype=np.int64)
