"""Regression on few lags of the features; rows are rounds in order."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from scipy.stats import norm, t
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import GroupLasso, GroupLassoResult
from lhb_engine.lasso.rank_one import rank_one
from lhb_engine.lasso.regularization import noise_adaptive
from lhb_engine.lasso.standard_errors import least_squares_refit
from lhb_engine.scikit_learn.rounds import (
    ChunkSums,
    Rounds,
    Rows,
    Spread,
    checked_lengths,
    missing_of,
)


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
    profiles : "each", "shared", or sequence of sequences of int
        "shared": phi_k = w_k theta; or so for the columns of each group, and others have their own
        lags. The lasso that has them all ("each") finds theta, and a second one w by what it says.
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

    _takes_chunks = True
    _settings: tuple[Any, ...]  # parameters with which `partial_fit` began
    coef_: Floats
    control_coef_: Floats
    intercept_: float

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
        profiles: Literal["each", "shared"] | Sequence[Sequence[int]] = "each",
        tol: float = 1e-6,
    ) -> None:
        self.n_lags = n_lags
        self.lam = lam
        self.controls = controls
        self.zero_start = zero_start
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.standard_errors = standard_errors
        self.profiles = profiles
        self.tol = tol

    def fit(self, X: Any, y: Any, lengths: Any = None) -> Self:
        """Fit the lasso, and with `standard_errors` the refit of its active lags.

        Parameters
        ----------
        X : (n_rounds, n_features) array
        y : (n_rounds,) array
            NaN where missing.
        lengths : sequence of int, optional
            Rounds of each trajectory, in the order of the rows; by default all rows are one.

        Raises
        ------
        ValueError
            Bad input or parameters, or fewer than two rows whose lags and reward are known.
        """
        rows = self._rows(X, y, lengths)
        self._fit_rows(rows)
        if hasattr(self, "_sums"):
            del self._sums
        return self

    @available_if(lambda self: self._takes_chunks and self.profiles == "each")  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, lengths: Any = None, *, goes_on: bool = True) -> Self:
        """Add rounds to those given before, and fit all of them.

        Time and memory do not depend on how many came before: their moments are kept
        (docs/model.md (10.1)), 8 (n_lags n_lagged)^2 bytes, and the last n_lags - 1 rounds. The
        result is that of `fit` on all rounds but for rounding and `tol`. The model is fitted as
        soon as two rows are known. After `fit`, which keeps no sums, it begins anew and warns.

        Parameters
        ----------
        X, y, lengths
            The next rounds, as in `fit`; one is enough.
        goes_on : bool
            Whether the first trajectory is the last one of the rounds before, so that its lags
            reach into these.

        Raises
        ------
        ValueError
            Bad input; n_lags, controls, zero_start or fit_intercept that changed. No round is
            added.
        """
        sums: ChunkSums | None = getattr(self, "_sums", None)
        if sums is None and self.__sklearn_is_fitted__():
            warnings.warn("fit keeps no sums: partial_fit begins anew", stacklevel=2)
        settings = self.n_lags, tuple(self.controls), self.zero_start, self.fit_intercept
        if sums is not None and settings != self._settings:
            raise ValueError("partial_fit goes on with the parameters that it began with")
        rounds = self._rounds(X, y, lengths, 1, sums is None)
        if sums is None:
            sums = ChunkSums.begun(rounds, self.n_lags, self.zero_start, self.fit_intercept)
        sums = sums.with_rounds(rounds, goes_on)
        if sums.moments.n_rows >= 2:
            self._fit_rows(sums.rows(self._scale(sums.spread)))
            self._mean, self._covariance = sums.spread.mean, sums.spread.covariance
            self.intercept_ = sums.intercept(self.intercept_, self.coef_, self.control_coef_)
        elif self.__sklearn_is_fitted__():
            del self.coef_  # of an earlier fit, without these rounds
        self._sums, self._settings = sums, settings
        return self

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

    def _rounds(self, X: Any, y: Any, lengths: Any, least: int, is_first: bool = True) -> Rounds:
        """Check the input."""
        y, missing = missing_of(y)
        how = {"dtype": np.float64, "y_numeric": True, "ensure_min_samples": least}
        X, y = validate_data(self, X, y, reset=is_first, **how)
        y = np.asarray(y, dtype=np.float64)
        if missing is not None:
            y = np.where(missing, np.nan, y)
        controls = list(self.controls)
        if len(set(controls)) < len(controls) or not set(controls) < set(range(X.shape[1])):
            raise ValueError("controls must be some of X's columns, each once, and not all of them")
        self._lagged = [i for i in range(X.shape[1]) if i not in controls]
        return Rounds(X[:, self._lagged], X[:, controls], y, checked_lengths(lengths, len(X)))

    def _rows(self, X: Any, y: Any, lengths: Any) -> Rows:
        """Check the input and lay out the rows of the fit."""
        rounds = self._rounds(X, y, lengths, 2)
        rows = rounds.rows(self.n_lags, self.zero_start)
        if len(rows.y) < 2:
            raise ValueError(
                f"{len(rows.y)} rows have a reward and all {self.n_lags} lags; a fit needs 2 "
                "(zero_start=True takes x as 0 before the first row)"
            )
        spread = Spread.of(rounds.lagged)
        self._mean, self._covariance = spread.mean, spread.covariance
        if self.profiles != "each":
            self._mix = self._shares(rounds)
            rounds = rounds._replace(lagged=rounds.lagged @ self._mix)
            rows, spread = rounds.rows(self.n_lags, self.zero_start), Spread.of(rounds.lagged)
        scale = self._scale(spread)
        return rows._replace(design=rows.design.scaled(1.0 / scale), scale=scale)

    def _shares(self, rounds: Rounds) -> Floats:
        """Return what each column has of each profile, (n_lagged, n_profiles), by the lasso."""
        n, number = len(self._lagged), {column: i for i, column in enumerate(self._lagged)}
        word = isinstance(self.profiles, str)
        groups = [self._lagged] if word else [[*group] for group in self.profiles]
        told = [column for group in groups for column in group]
        if (word and self.profiles != "shared") or not len(told) == len({*told} & {*number}):
            raise ValueError(
                'profiles are "each", "shared", or groups of columns of X, each once and no control'
            )
        plain = clone(self).set_params(profiles="each", controls=range(n, self.n_features_in_))
        plain.fit(np.column_stack([rounds.lagged, rounds.controls]), rounds.y, rounds.lengths)
        groups += [[column] for column in self._lagged if column not in told]
        shares = np.zeros((n, len(groups)))
        for profile, group in enumerate(groups):
            of = [number[column] for column in group]
            fit = rank_one(plain.coef_[:, of])
            shares[of, profile] = len(of) ** -0.5 if fit is None else fit.theta
        return shares

    def _columns(self, coef: Floats) -> Floats:
        """Return the coefficients of the lagged columns from those of what was fitted."""
        return coef if self.profiles == "each" else np.asarray(coef @ self._mix.T)

    def _scale(self, spread: Spread) -> Floats:
        """Return what each lagged feature is divided by."""
        if not self.standardize:
            return np.ones(len(spread.mean))
        return spread.scale(self.fit_intercept)

    def _lasso(self, rows: Rows) -> GroupLasso:
        return GroupLasso(
            rows.design, rows.y, fit_intercept=self.fit_intercept, controls=rows.controls
        )

    def _fit_rows(self, rows: Rows) -> None:
        """Fit, and set the fitted attributes."""
        lam = self.lam
        if lam is None:
            lam = noise_adaptive(
                rows.design,
                rows.y,
                fit_intercept=self.fit_intercept,
                controls=rows.controls,
                n=rows.n,
            ).lam
        # constant y has no noise, and any lam gives zero
        solved = 1.0 if self.lam is None and lam <= 0 else lam
        self._install(self._lasso(rows).solve(solved, tol=self.tol), lam, rows)

    def _install(self, result: GroupLassoResult, lam: float, rows: Rows) -> None:
        """Set the fitted attributes."""
        residual = rows.y - rows.design.matvec(result.phi) - rows.controls @ result.controls
        residual -= result.intercept * rows.design.intercept
        self.intercept_ = result.intercept
        self.coef_ = self._columns(result.phi / rows.scale)
        self.control_coef_ = result.controls
        self.lam_ = lam
        self.dual_gap_ = result.gap
        self.n_iter_ = max(1, result.n_iterations)
        self.n_rows_ = rows.n
        direction = rank_one(self.coef_)
        self.theta_ = np.zeros(len(self._lagged)) if direction is None else direction.theta
        self.lag_weights_ = np.zeros(self.n_lags) if direction is None else direction.weights
        freedom = rows.n - np.count_nonzero(result.phi) - len(self.controls) - self.fit_intercept
        square = float(residual @ residual) * (rows.n / len(residual))
        self.sigma_ = float(np.sqrt(square / freedom)) if freedom > 0 else np.inf
        if self.standard_errors:
            active = np.flatnonzero(block_norms(result.phi))
            coef, error, self._freedom = least_squares_refit(
                rows.design, rows.y, active, self.fit_intercept, rows.controls, rows.n
            )
            both = np.full((2, self.n_lags, len(rows.scale)), np.nan)
            both[:, active] = coef / rows.scale, error / rows.scale
            self.refit_coef_, self.refit_error_ = self._columns(both[0]), self._columns(both[1])

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


class LaggedGroupLassoCV(LaggedGroupLasso):
    """`LaggedGroupLasso` with lam chosen by cross-validation over folds of consecutive rounds.

    A held-out fold is predicted from the contexts of all rounds, those of its lags included:
    contexts are known before rewards are. Nothing is shuffled.

    Parameters
    ----------
    n_lags : int
    n_lams : int
        Points of the geometric path from lambda_max down.
    eps : float
        Smallest lam, in units of lambda_max.
    n_folds : int
        Number of held-out folds.
    controls, zero_start, fit_intercept, standardize, standard_errors, profiles, tol
        As in `LaggedGroupLasso`.

    Attributes
    ----------
    lams_ : (n_lams,) array
        The path.
    mse_path_ : (n_lams, n_folds) array
        Mean squared errors on the held-out folds.

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

    _takes_chunks = False  # held-out folds need rows

    def __init__(
        self,
        n_lags: int = 10,
        *,
        n_lams: int = 20,
        eps: float = 0.01,
        n_folds: int = 5,
        controls: Sequence[int] = (),
        zero_start: bool = False,
        fit_intercept: bool = True,
        standardize: bool = False,
        standard_errors: bool = False,
        profiles: Literal["each", "shared"] | Sequence[Sequence[int]] = "each",
        tol: float = 1e-6,
    ) -> None:
        super().__init__(
            n_lags,
            None,
            controls=controls,
            zero_start=zero_start,
            fit_intercept=fit_intercept,
            standardize=standardize,
            standard_errors=standard_errors,
            profiles=profiles,
            tol=tol,
        )
        self.n_lams = n_lams
        self.eps = eps
        self.n_folds = n_folds

    def fit(self, X: Any, y: Any, lengths: Any = None) -> Self:
        """Choose lam, then fit on all rounds; see `LaggedGroupLasso.fit`."""
        if self.n_folds < 2:
            raise ValueError("n_folds must be at least 2")
        rows = self._rows(X, y, lengths)
        whole = self._lasso(rows)
        top = whole.lambda_max if whole.lambda_max > 0 else 1.0
        self.lams_ = top * np.geomspace(1.0, self.eps, self.n_lams)
        n_rows = rows.design.n_rows
        folds = np.array_split(np.arange(n_rows), min(self.n_folds, n_rows))
        errors = [self._errors(rows, held) for held in folds]
        self.mse_path_ = np.array(errors).T
        best = int(self.mse_path_.mean(axis=1).argmin())
        results = list(whole.path(self.lams_[: best + 1].tolist(), tol=self.tol))
        self._install(results[-1], float(self.lams_[best]), rows)
        return self

    def _errors(self, rows: Rows, held: Ints) -> list[float]:
        """Mean squared error on the held-out rows along the path."""
        kept = np.setdiff1d(np.arange(rows.design.n_rows), held)
        train = self._lasso(
            Rows(rows.design.select(kept), rows.y[kept], rows.controls[kept], rows.scale, len(kept))
        )
        test = rows.design.select(held)

        def predicted(fit: GroupLassoResult) -> Floats:
            return test.matvec(fit.phi) + rows.controls[held] @ fit.controls + fit.intercept

        return [
            float(np.mean((rows.y[held] - predicted(fit)) ** 2))
            for fit in train.path(self.lams_.tolist(), tol=self.tol)
        ]
