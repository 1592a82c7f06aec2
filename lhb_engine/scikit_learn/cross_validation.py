"""`LaggedGroupLasso` with lam chosen by cross-validation."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.group_lasso import GroupLassoResult
from lhb_engine.scikit_learn.lagged_group_lasso import LaggedGroupLasso
from lhb_engine.scikit_learn.rounds import Rows


class LaggedGroupLassoCV(LaggedGroupLasso):
    """`LaggedGroupLasso` with lam chosen by cross-validation over blocks of consecutive rounds.

    A held-out block is predicted from the contexts of all rounds, those of its lags included:
    contexts are known before rewards are. Nothing is shuffled.

    Parameters
    ----------
    n_lags : int
    n_lams : int
        Points of the geometric path from lambda_max down.
    eps : float
        Smallest lam, in units of lambda_max.
    n_folds : int
        Number of held-out blocks.
    controls, zero_start, fit_intercept, standardize, standard_errors, tol
        As in `LaggedGroupLasso`.

    Attributes
    ----------
    lams_ : (n_lams,) array
        The path.
    mse_path_ : (n_lams, n_folds) array
        Mean squared errors on the held-out blocks.

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

    _takes_chunks = False  # held-out blocks need rows

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
        self._install_rows(results[-1], float(self.lams_[best]), rows)
        return self

    def _errors(self, rows: Rows, held: Ints) -> list[float]:
        """Mean squared error on the held-out rows along the path."""
        kept = np.setdiff1d(np.arange(rows.design.n_rows), held)
        train = self._lasso(
            Rows(rows.design.select(kept), rows.y[kept], rows.controls[kept], rows.scale)
        )
        test = rows.design.select(held)

        def predicted(fit: GroupLassoResult) -> Floats:
            return test.matvec(fit.phi) + rows.controls[held] @ fit.controls + fit.intercept

        return [
            float(np.mean((rows.y[held] - predicted(fit)) ** 2))
            for fit in train.path(self.lams_.tolist(), tol=self.tol)
        ]
