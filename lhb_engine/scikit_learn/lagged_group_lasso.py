"""`LaggedGroupLasso`: regression on few lags of the features; rows are rounds in order."""

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import GroupLasso, GroupLassoResult
from lhb_engine.lasso.rank_one import rank_one
from lhb_engine.lasso.regularization import noise_adaptive, noise_adaptive_of_moments
from lhb_engine.lasso.standard_errors import gram_refit, least_squares_refit
from lhb_engine.scikit_learn.chunk_sums import ChunkSums
from lhb_engine.scikit_learn.lagged_prediction import LaggedPrediction
from lhb_engine.scikit_learn.rounds import Rounds, Rows, Spread, checked_lengths, missing_of


class LaggedGroupLasso(LaggedPrediction):
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

    _takes_chunks = True
    _settings: tuple[Any, ...]  # parameters with which `partial_fit` began

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
            NaN where missing.
        lengths : sequence of int, optional
            Rounds of each trajectory, in the order of the rows; by default all rows are one.

        Raises
        ------
        ValueError
            Bad input or parameters, or fewer than two rows whose lags and reward are known.
        """
        rows = self._rows(X, y, lengths)
        lasso = self._lasso(rows)
        lam = self.lam
        if lam is None:
            intercept, controls = self.fit_intercept, rows.controls
            lam = noise_adaptive(
                rows.design, rows.y, fit_intercept=intercept, controls=controls
            ).lam
        self._install_rows(lasso.solve(self._solved(lam), tol=self.tol), lam, rows)
        return self

    @available_if(lambda self: self._takes_chunks)  # type: ignore[untyped-decorator]
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
            self._install_sums(sums)
        elif self.__sklearn_is_fitted__():
            del self.coef_  # of an earlier fit, without these rounds
        self._sums, self._settings = sums, settings
        return self

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
        scale = self._scale(spread)
        return rows._replace(design=rows.design.scaled(1.0 / scale), scale=scale)

    def _scale(self, spread: Spread) -> Floats:
        """Return what each lagged feature is divided by."""
        if not self.standardize:
            return np.ones(len(spread.mean))
        return spread.scale(self.fit_intercept)

    def _lasso(self, rows: Rows) -> GroupLasso:
        return GroupLasso(
            rows.design, rows.y, fit_intercept=self.fit_intercept, controls=rows.controls
        )

    def _solved(self, lam: float) -> float:
        """Return what is solved for: constant y has no noise, and any lam gives zero."""
        return 1.0 if self.lam is None and lam <= 0 else lam

    def _install_rows(self, result: GroupLassoResult, lam: float, rows: Rows) -> None:
        """Set the fitted attributes from rows."""
        residual = rows.y - rows.design.matvec(result.phi) - rows.controls @ result.controls
        residual -= result.intercept * rows.design.intercept
        self.intercept_ = result.intercept
        self._install(result, lam, rows.scale, len(rows.y), float(residual @ residual))
        if self.standard_errors:
            active = np.flatnonzero(block_norms(result.phi))
            refit = least_squares_refit(
                rows.design, rows.y, active, self.fit_intercept, rows.controls
            )
            self._install_refit(active, refit, rows.scale)
        if hasattr(self, "_sums"):
            del self._sums

    def _install_sums(self, sums: ChunkSums) -> None:
        """Fit moments, and set the fitted attributes."""
        scale = self._scale(sums.spread)
        lasso = sums.lasso(scale)
        lam = noise_adaptive_of_moments(lasso).lam if self.lam is None else self.lam
        result = lasso.solve(self._solved(lam), tol=self.tol)
        self._mean, self._covariance = sums.spread.mean, sums.spread.covariance
        self._install(result, lam, scale, lasso.n, lasso.residual_square(result.phi))
        self.intercept_ = sums.intercept(result.intercept, self.coef_, result.controls)
        if self.standard_errors:
            active = np.flatnonzero(block_norms(result.phi))
            self._install_refit(active, gram_refit(lasso, active), scale)

    def _install(
        self, result: GroupLassoResult, lam: float, scale: Floats, n_rows: int, square: float
    ) -> None:
        """Set the fitted attributes but the intercept; `square` is the sum of squared residuals."""
        self.coef_ = result.phi / scale
        self.control_coef_ = result.controls
        self.lam_ = lam
        self.dual_gap_ = result.gap
        self.n_iter_ = max(1, result.n_iterations)
        self.n_rows_ = n_rows
        direction = rank_one(self.coef_)
        self.theta_ = np.zeros(len(scale)) if direction is None else direction.theta
        self.lag_weights_ = np.zeros(self.n_lags) if direction is None else direction.weights
        freedom = n_rows - np.count_nonzero(result.phi) - len(self.controls) - self.fit_intercept
        self.sigma_ = float(np.sqrt(square / freedom)) if freedom > 0 else np.inf

    def _install_refit(
        self, active: Ints, refit: tuple[Floats, Floats, int], scale: Floats
    ) -> None:
        coef, error, self._freedom = refit
        self.refit_coef_, self.refit_error_ = np.full((2, *self.coef_.shape), np.nan)
        self.refit_coef_[active] = coef / scale
        self.refit_error_[active] = error / scale
