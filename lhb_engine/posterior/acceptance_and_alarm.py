"""Out-of-sample checks of an installed estimate: acceptance (7.11) and the alarm (7.12).

Equation numbers are those of docs/model.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.design.moments import Statistics
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.predictor import Predictor, residuals

FEWEST = 20  # rows, for the alarm
WORSE = 1.25  # mean squared error over noise variance: no alarm up to here
SURE = 5.0  # standard errors of that ratio under normal noise
DOUBT = 2.0  # factor of D in (7.12): draws understate the posterior's error
FALLS = 1.0  # standard errors by which rewards fall with what was expected
FEWEST_BETTER = 4  # rows, to refuse a new one
LEAST_BETTER = 1e-3  # of the noise's variance, below which errors count as equal
ONE = 1e-6  # of a mean difference: with a smaller standard error all rows are one row, repeated


def alarm_limit(n_rows: int) -> float:
    """Return the mean squared error, over the noise variance, that noise alone may reach (7.12)."""
    return max(WORSE, 1.0 + SURE * float(np.sqrt(2.0 / n_rows)))


class HeldOut(ABC):
    """What later rows say of the installed estimate `old`."""

    old: Predictor

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of later rows."""

    @property
    @abstractmethod
    def has_levels(self) -> bool:
        """Whether trajectories have levels."""

    @cached_property
    def mean_square(self) -> float:
        """Mean square of the installed estimate's errors."""
        return max(float(self.products(self.old)[0, 0]), 0.0)

    def comparable(self, one: Predictor, other: Predictor) -> Predictor:
        """Return a prediction as it is compared with another: with levels by the same spread.

        Without its determinant in the likelihood, a larger spread always fits better.
        """
        if not self.has_levels:
            return one
        return replace(one, autocorrelation=other.autocorrelation)

    @abstractmethod
    def products(self, *predictors: Predictor) -> Floats:
        """Return the mean products of the one-step errors of predictions on them, (n, n)."""

    @abstractmethod
    def excess(self, new: Predictor) -> tuple[float, float]:
        """Return the mean of e_new^2 - e_old^2 on them, and its standard error."""

    @cached_property
    def still_rises(self) -> bool:
        """Whether rewards, about their mean, do not fall with what was expected (7.34)."""
        flat = replace(self.old, theta=np.zeros_like(self.old.theta))
        products = self.products(self.old, flat, replace(flat, intercept=flat.intercept + 1.0))
        # of errors: the flat one's less the old one's are its scores; less one more, a constant
        by = np.array([[-1, 1, 0], [0, 1, 0], [0, 1, -1]])
        products = by @ products @ by.T
        about = products[:2, :2] - np.outer(products[:2, 2], products[:2, 2]) / products[2, 2]
        variance = max(about[0, 0], 0.0) * max(about[1, 1], self.old.noise**2) / self.n_rows
        return bool(about[0, 1] >= -FALLS * np.sqrt(variance))

    @abstractmethod
    def doubt(self, thetas: Floats, weights: Floats) -> float:
        """Return D of (7.12), in units of the noise variance; see `check`."""

    def check(self, draws: Callable[[], tuple[Floats, Floats]]) -> dict[str, Any]:
        """Test the installed estimate on the later rows, by docs/model.md (7.12).

        Returns `held_out_rows`; `held_out_error`, the mean squared error over the noise variance;
        and `alarm`, true only for a settled estimate; nothing if there are fewer than 20 rows.
        `draws`, called only if noise alone does not explain the errors, returns posterior draws of
        theta and lag weights.
        """
        if self.n_rows < FEWEST or self.old.noise <= 0:
            return {}
        ratio = self.mean_square / self.old.noise**2
        limit = alarm_limit(self.n_rows)
        alarm = self.old.settled and ratio > limit
        if alarm:
            alarm = ratio > limit + DOUBT * self.doubt(*draws())
        return {"held_out_rows": self.n_rows, "held_out_error": ratio, "alarm": bool(alarm)}

    def is_better_than(self, new: Predictor, by: float) -> bool:
        """Whether the old squared errors are below those of `new`, by docs/model.md (7.11).

        `new` was fitted on these rows and the old one was not: the comparison favours `new`. `by`
        counts standard errors of the mean difference. One row that is repeated says nothing.
        """
        if self.n_rows < FEWEST_BETTER:
            return False
        excess, error = self.excess(new)
        least = max(by * error, LEAST_BETTER * self.old.noise**2)
        return bool(excess > least and error > ONE * excess)


@dataclass(frozen=True)
class LaterRows(HeldOut):
    """The rows, at `places`, after those that the installed estimate was fitted on."""

    old: Predictor
    rows: AlignedRounds
    places: Ints
    # the rows less what own responses add by another prediction; None: there are none
    less: Callable[[Predictor], AlignedRounds] | None = None

    @classmethod
    def after(cls, old: Predictor, rows: AlignedRounds) -> "LaterRows | None":
        """Return the rows after those of the installed estimate, or None if there are none."""
        later = np.flatnonzero(rows.number > old.last_round)
        return cls(old, rows, later) if len(later) else None

    @property
    def n_rows(self) -> int:
        """Number of later rows."""
        return len(self.places)

    @property
    def has_levels(self) -> bool:
        """Whether trajectories have levels."""
        return bool(self.rows.levels)

    def products(self, *predictors: Predictor) -> Floats:
        """Return the mean products of the one-step errors of predictions, (n, n)."""
        errors = [one.errors(self.rows)[self.places] for one in predictors]
        return np.array([[np.mean(ours * others) for others in errors] for ours in errors])

    def excess(self, new: Predictor) -> tuple[float, float]:
        """Return the mean of e_new^2 - e_old^2 and its standard error."""
        rows = self.rows if self.less is None else self.less(new)
        errors = self.comparable(self.old, new).errors(self.rows)[self.places]
        excess = new.errors(rows)[self.places] ** 2 - errors**2
        return float(excess.mean()), float(excess.std(ddof=1)) / float(np.sqrt(len(excess)))

    def doubt(self, thetas: Floats, weights: Floats) -> float:
        """Return D of (7.12), in units of the noise variance.

        D is the largest mean squared distance of a draw's predictions from the mean prediction.
        """
        rows, rho = self.rows, self.old.autocorrelation
        nothing = np.zeros(rows.beside.shape[1])
        errors = np.array(
            [
                innovations(rows, residuals(rows, theta, w, nothing), rho)[self.places]
                for theta, w in zip(thetas, weights, strict=True)
            ]
        )
        change = (errors - errors.mean(axis=0)) / self.old.noise
        return float((change**2).mean(axis=1).max())


@dataclass(frozen=True)
class LaterMoments(HeldOut):
    """The moments of the rows after those that the installed estimate was fitted on.

    The moments are of the later rows, and of their pairs with the rows before them.
    """

    old: Predictor
    moments: Statistics

    @property
    def n_rows(self) -> int:
        """Number of later rows."""
        return self.moments.n_rows

    @property
    def has_levels(self) -> bool:
        """Whether trajectories have levels."""
        return self.moments.has_levels

    def excess(self, new: Predictor) -> tuple[float, float]:
        """Return the mean of e_new^2 - e_old^2 and its standard error, by docs/model.md (10.8)."""
        installed, least = self.comparable(self.old, new), float(np.finfo(float).tiny)
        (ours, both), (_, old) = self.products(new, installed).tolist()
        square = 2.0 * (ours**2 + old**2 - 2.0 * both**2) / self.n_rows
        return ours - max(old, 0.0), float(np.sqrt(max(square, least)))

    def products(self, *predictors: Predictor) -> Floats:
        """Return the mean products of the one-step errors of predictions, (n, n)."""
        by = [self.moments.coefficients(p.theta, p.lag_weights, p.beside) for p in predictors]
        products = np.empty((len(predictors), len(predictors)))
        for i, one in enumerate(predictors):
            for j, other in enumerate(predictors[: i + 1]):
                rows = self.moments.whitened(one.autocorrelation, other.autocorrelation)
                product = rows.residual_products(np.array([by[j], by[i]]))[0, 1]
                products[i, j] = products[j, i] = float(product) / self.n_rows
        return products

    def doubt(self, thetas: Floats, weights: Floats) -> float:
        """Return D of (7.12), in units of the noise variance."""
        nothing = np.zeros(self.moments.n_covariates)
        pairs = zip(thetas, weights, strict=True)
        by = np.array([self.moments.coefficients(theta, w, nothing) for theta, w in pairs])
        change = by - by.mean(axis=0)
        rows = self.moments.whitened(self.old.autocorrelation)
        phi = change[:, : rows.n_lagged]
        squares = np.vecdot(phi @ rows.gram, phi)
        return max(float(squares.max()), 0.0) / self.n_rows / self.old.noise**2
