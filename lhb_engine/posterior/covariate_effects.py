"""The effects b of a fit's covariates, integrated out of the chains' other draws (docs/model.md 7).

Covariates move the reward whatever is chosen: the constant, a season, a trend. Each group of them
has a spike at zero or a normal slab. Given the groups that a chain includes, its b is normal, and
the other draws use products of columns from which the covariates' part is subtracted (7.23).
A group of more than two columns waits until rows suffice, and its columns are about their means.
"""

import numpy as np
from scipy.special import logit

from lhb_engine.history import Flags, Floats, Ints

ROWS_A_COLUMN = 4  # below which least squares would explain too much
FEW = 2  # columns of a group that never waits
CONDITION = 1e-9  # smallest eigenvalue of Z'Z that counts, over the largest
CHANGES = 1e-9  # a covariate's variance over its mean square; less is none
_FLOOR = 1e-10  # lower bound of variances, in units in which rewards have mean square 1


def changing(unit: Floats) -> Flags:
    """Return which columns of Z change, (q,), from Z'Z; the first is that of the baseline."""
    about = np.diag(unit) - unit[0] ** 2 / max(unit[0, 0], 1e-300)
    flags = np.asarray(about > CHANGES * np.diag(unit))
    flags[0] = True
    return flags


class CovariateEffects:
    """Which groups of covariates each chain includes, and how wide their prior is.

    `unit` (q, q) is Z'Z of the rows, the first column of Z that of the baseline; `square` the mean
    square of the rewards; `groups` the numbers of columns after the baseline. `included` (n_chains,
    n_groups) is 1 where the chain includes the group, else 0.
    """

    def __init__(
        self, unit: Floats, square: float, n_rows: int, groups: tuple[int, ...], n_chains: int
    ) -> None:
        group_of = np.repeat(np.arange(1 + len(groups)), (1, *groups))
        waits = np.bincount(group_of)[group_of] > FEW
        self._taken = changing(unit)
        if n_rows < ROWS_A_COLUMN * len(unit):
            self._taken &= ~waits
        # Z `about` are the columns of mean square 1, and `unit` their products. So the prior has
        # one variance: an effect as large as the rewards
        self.about, self._n_rows, self._square = np.eye(len(unit)), n_rows, square
        self.about[0, waits] = -unit[0, waits] / max(unit[0, 0], 1e-300)
        size = np.maximum(np.diag(self.about.T @ unit @ self.about) / n_rows, _FLOOR)
        size[0] = min(1.0, size[0])  # no narrower where rows are spans of rounds
        self.about /= np.sqrt(size)
        self.unit = self.about.T @ unit @ self.about
        self.included: Floats = np.zeros((n_chains, 1 + len(groups)))
        self._group_of = group_of
        self._chosen = np.unique(np.append(0, group_of[self._taken])).tolist()
        self._has_baseline = False
        self._kept: tuple[bytes, Floats, Floats] | None = None  # the last L and widths
        # by what is included: its place in the spectra, (n, q) and (n, q, q)
        self._places: dict[bytes, int] = {}
        self._sizes, self._turned = np.zeros((1, len(unit))), np.zeros((1, *unit.shape))

    def have_baseline(self) -> None:
        """Include the baseline in all chains, for good."""
        self.included[:, 0], self._has_baseline = 1.0, True

    def variance(self, total: Floats) -> float:
        """Return the variance that least squares on the covariates leave of y, given Z'y, (q,).

        With fewer than four rows a column, it is on the baseline alone.
        """
        taken = np.flatnonzero(self._taken)
        q = taken if len(taken) * ROWS_A_COLUMN <= self._n_rows else taken[:1]
        unit, total = self.unit[np.ix_(q, q)], (total @ self.about)[q]
        explained = float(total @ np.linalg.pinv(unit, CONDITION, hermitian=True) @ total)
        return max(self._square - explained / self._n_rows, _FLOOR)

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        self.included = self.included[chosen]

    def draw(self, rest: Floats, noise2: Floats, rng: np.random.Generator) -> None:
        """Draw which groups are included, one after another, with b integrated out.

        `rest` (n_chains, q) is Z'e of the error without any effect of covariates, `noise2`
        (n_chains,) the variance of eps.
        """
        odds = logit(rng.random((len(self._chosen), len(self.included))))
        now = self._log_evidence(rest, noise2)
        for group, least in zip(self._chosen, odds, strict=True):
            if group == 0 and self._has_baseline:
                continue
            was = self.included[:, group].copy()
            self.included[:, group] = 1.0 - was
            other = self._log_evidence(rest, noise2)
            drawn = least < (other - now) * (1.0 - 2.0 * was)
            self.included[:, group] = drawn
            if group != self._chosen[-1]:
                now = np.where(drawn == was, now, other)

    def root(self, noise2: Floats, of: Ints | slice = slice(None)) -> Floats:
        """Return L of (7.23) for some chains, (n, q, rank), 0 beyond what a chain includes."""
        return self._root(noise2)[0][of]

    def effects(self, rest: Floats, noise2: Floats) -> Floats:
        """Return the posterior mean of b, (n_chains, q), given Z'e; 0 for what is not included."""
        root = self.root(noise2)
        return np.asarray(root @ (rest[:, None, :] @ root).transpose(0, 2, 1))[:, :, 0]

    def log_prior_cost(self, noise2: Floats, of: Ints | slice = slice(None)) -> Floats:
        """Return what some chains' evidence pays for the width of the priors of b, (n,)."""
        return self._root(noise2)[1][of]

    def _log_evidence(self, rest: Floats, noise2: Floats) -> Floats:
        """Return the log evidence of the included groups, (n_chains,)."""
        sizes, axes = self._axes()
        share = self._square / noise2
        wider = 1.0 + sizes * share[:, None]
        reduced = (rest[:, None, :] @ axes)[:, 0]
        explained = np.vecdot(reduced, reduced / wider) * (share / noise2)
        return np.asarray(0.5 * (explained - np.log(wider).sum(axis=1)))

    def _root(self, noise2: Floats) -> tuple[Floats, Floats]:
        """Return L and the width of the priors, of all chains."""
        key = noise2.tobytes() + self.included.tobytes()
        if self._kept is None or self._kept[0] != key:
            sizes, axes = self._axes()
            rank, ridge = max(1, int((sizes > 0.0).sum(axis=1).max())), noise2 / self._square
            wider = 1.0 + sizes / ridge[:, None]
            root = axes[:, :, :rank] / np.sqrt(wider[:, :rank] * ridge[:, None])[:, None]
            self._kept = key, root, 0.5 * np.log(wider).sum(axis=1)
        return self._kept[1:]

    def _axes(self) -> tuple[Floats, Floats]:
        """Return the eigenvalues of Z'Z of what chains include, (n_chains, q), and axes (q, q).

        Eigenvalues and axes are 0 beyond a chain's columns. L takes no more, whatever the noise.
        """
        included = np.ascontiguousarray(self.included)
        keys = included.view(f"V{included[0].nbytes}")[:, 0].tolist()
        for key in set(keys).difference(self._places):
            used = (np.frombuffer(key)[self._group_of] > 0.0) & self._taken
            values, axes = np.linalg.eigh(self.unit[np.ix_(used, used)])
            place = self._places[key] = len(self._places)
            if place == len(self._sizes):
                self._sizes = np.concatenate([self._sizes, np.zeros_like(self._sizes)])
                self._turned = np.concatenate([self._turned, np.zeros_like(self._turned)])
            self._sizes[place, : len(values)] = np.maximum(values[::-1], np.finfo(float).tiny)
            self._turned[place, :, : len(values)] = self.about[:, used] @ axes[:, ::-1]
        at = [self._places[key] for key in keys]
        return self._sizes.take(at, 0), self._turned.take(at, 0)
