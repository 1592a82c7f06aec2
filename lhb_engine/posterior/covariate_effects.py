"""The effects b of a fit's covariates, integrated out of the chains' other draws (docs/model.md 7).

Covariates move the reward whatever is chosen: the constant, a season, a trend. Each group of them
has a spike at zero or a normal slab. Given the groups that a chain includes, its b is normal, and
the other draws use products of columns from which the covariates' part is subtracted (7.23).
"""

import numpy as np
from scipy.special import expit

from lhb_engine.history import Floats, Ints

ROWS_A_COLUMN = 4  # below which least squares would explain too much
CONDITION = 1e-9  # smallest eigenvalue of Z'Z that counts, over the largest
_FLOOR = 1e-10  # lower bound of variances, in units in which rewards have mean square 1


class CovariateEffects:
    """Which groups of covariates each chain includes, and how wide their prior is.

    `unit` (q, q) is Z'Z of the rows, the first column of Z that of the baseline; `square` the mean
    square of the rewards; `groups` the numbers of columns after the baseline. `included` (n_chains,
    n_groups) is 1 where the chain includes the group, else 0.
    """

    def __init__(
        self, unit: Floats, square: float, n_rows: int, groups: tuple[int, ...], n_chains: int
    ) -> None:
        self.unit, self._n_rows = unit, n_rows
        # prior variances of b: an effect as large as the rewards
        size = np.maximum(np.diag(unit) / n_rows, _FLOOR)
        size[0] = min(1.0, size[0])  # no narrower where rows are spans of rounds
        self.prior_variance = square / size
        self.included: Floats = np.zeros((n_chains, 1 + len(groups)))
        self._chosen = range(1 + len(groups))  # groups that may be left out
        self._group_of = np.repeat(np.arange(1 + len(groups)), (1, *groups))

    def have_baseline(self) -> None:
        """Include the baseline in all chains, for good."""
        self.included[:, 0] = 1.0
        self._chosen = self._chosen[1:]

    def explained(self, total: Floats) -> float:
        """Return how much of y'y the covariates explain by least squares, given Z'y, (q,).

        With fewer than four rows a column, the baseline alone.
        """
        q = len(total) if len(total) * ROWS_A_COLUMN <= self._n_rows else 1
        size = np.sqrt(np.maximum(np.diag(self.unit)[:q], _FLOOR))
        values, axes = np.linalg.eigh(self.unit[:q, :q] / np.outer(size, size))
        known = values > CONDITION * values[-1]
        along = (axes.T @ (total[:q] / size))[known]
        return float(along**2 @ (1.0 / values[known]))

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        self.included = self.included[chosen]

    def draw(self, level: Floats, noise2: Floats, rng: np.random.Generator) -> None:
        """Draw which groups are included, one after another, with b integrated out.

        `level` (n_chains, q) is Z'e of the error without any effect of covariates, `noise2`
        (n_chains,) the variance of eps.
        """
        chance = rng.random(self.included.T.shape)
        now = self._log_evidence(level, noise2)
        for group in self._chosen:
            was = self.included[:, group].copy()
            self.included[:, group] = 1.0 - was
            other = self._log_evidence(level, noise2)
            on, off = np.where(was, now, other), np.where(was, other, now)
            drawn = chance[group] < expit(on - off)
            self.included[:, group] = drawn
            now = np.where(drawn, on, off)

    def root(self, noise2: Floats, of: Ints | slice = slice(None)) -> Floats:
        """Return L of (7.23) for some chains, (n, q, q); zero where nothing is included."""
        return self._root(noise2, of)[0]

    def effects(self, level: Floats, noise2: Floats) -> Floats:
        """Return the posterior mean of b, (n_chains, q), given Z'e; 0 for what is not included."""
        root = self.root(noise2)
        return np.asarray(root @ (level[:, None, :] @ root).transpose(0, 2, 1))[:, :, 0]

    def log_prior_cost(self, noise2: Floats, of: Ints | slice = slice(None)) -> Floats:
        """Return what some chains' evidence pays for the width of the priors of b, (n,)."""
        return self._root(noise2, of)[1]

    def _log_evidence(self, level: Floats, noise2: Floats) -> Floats:
        """Return the log evidence of the included groups, (n_chains,)."""
        root, width = self._root(noise2, slice(None))
        reduced = (level[:, None, :] @ root)[:, 0]
        return np.asarray(0.5 * np.vecdot(reduced, reduced) / noise2 - width)

    def _root(self, noise2: Floats, of: Ints | slice) -> tuple[Floats, Floats]:
        on = self.included[of][:, self._group_of]
        ridge = noise2[of, None] / self.prior_variance
        if on.shape[1] == 1:  # the baseline alone, most often: the same numbers without LAPACK
            lower = np.sqrt(self.unit[0] * (on * on) + np.where(on, ridge, 1.0))
            width = np.log(lower[:, 0]) - 0.5 * np.where(on, np.log(ridge), 0.0)[:, 0]
            return (1.0 / lower * on)[:, :, None], width
        precision = self.unit * (on[:, :, None] * on[:, None, :])
        precision += np.eye(len(self.prior_variance)) * np.where(on, ridge, 1.0)[:, :, None]
        lower = np.linalg.cholesky(precision)
        width = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        width -= 0.5 * np.where(on, np.log(ridge), 0.0).sum(axis=1)
        return np.linalg.inv(lower).transpose(0, 2, 1) * on[:, :, None], width
