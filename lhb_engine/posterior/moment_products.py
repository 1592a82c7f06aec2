"""What a Gibbs sweep needs of the data, from moments (docs/model.md (10.5), (10.6)).

A sweep costs the same at any number of rows. It asks for the same products as `RowProducts`, so the
chains draw the same numbers but for rounding.
"""

from collections.abc import Iterator

import numpy as np

from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.context_span import ContextSpan
from lhb_engine.posterior.row_products import Solve


class MomentProducts:
    """Moments of rows, the first of whose covariates is the baseline's; see `RowProducts`."""

    def __init__(self, moments: RowMoments) -> None:
        self.n_rows, self.n_lags, self.dim = moments.n_rows, moments.n_lags, moments.dim
        self.square = moments.square
        self.total, self.unit = moments.covariate_target, moments.covariates
        self.groups = moments.groups
        self.spread = float(np.trace(moments.gram[: self.dim, : self.dim]))
        self.span = ContextSpan(np.zeros((0, self.dim)), None)
        self._target = moments.target
        self._cross = moments.cross
        # features a <= b: the lags' products of both, each (n_lags, n_lags)
        self._one, self._other = np.triu_indices(self.dim)
        self._twice = np.where(self._one == self._other, 1.0, 2.0)
        blocks = moments.gram.reshape(self.n_lags, self.dim, self.n_lags, self.dim)
        blocks = blocks.transpose(1, 3, 0, 2)
        pairs = (blocks[self._one, self._other] + blocks[self._other, self._one]) / 2
        self._pairs = pairs.reshape(len(self._one), -1)
        self._gram: Floats = np.zeros(0)  # of the columns at the present theta
        self._right: Floats = np.zeros(0)
        self._along: Floats = np.zeros(0)
        self._now: Floats = np.zeros(0)

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index: nothing is kept for a chain between sweeps."""

    def level(self, w: Floats) -> Floats:
        """Return Z'e of each chain, (n_chains, q), at the theta given last."""
        return np.asarray(self.total - (w[:, None, :] @ self._along)[:, 0])

    def columns(self, theta: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
        """Return s_k'Z, s_k's_k and s_k'e of each lag's column; see `RowProducts`."""
        both = theta[:, self._one] * theta[:, self._other] * self._twice
        self._gram = (both @ self._pairs).reshape(len(theta), self.n_lags, self.n_lags)
        self._right = theta @ self._target.T
        self._along = np.tensordot(theta, self._cross, ([1], [1]))
        self._now = self._right - (self._gram @ w[:, :, None])[:, :, 0]
        square = np.diagonal(self._gram, axis1=1, axis2=2)
        return self._along, square, self._now.copy()

    def blocks(self, order: Ints) -> Iterator[tuple[slice, Floats]]:
        """Yield all steps as one part; see `RowProducts`."""
        chain = np.arange(len(order))[:, None]
        n_steps = order.shape[1]
        products = np.empty((len(order), n_steps, 1 + n_steps))
        products[:, :, 0] = self._now[chain, order]
        products[:, :, 1:] = self._gram[chain[:, :, None], order[:, :, None], order[:, None, :]]
        yield slice(0, n_steps), products

    def move(self, change: Floats) -> None:
        """Take note of changed weights: the one part was the last."""

    def theta_drawn(self, w: Floats, noise: Floats | None, solve: Solve) -> tuple[Floats, Floats]:
        """Draw theta given the lag weights; see `RowProducts`. `noise` is none."""
        assert noise is None
        both = (w[:, :, None] * w[:, None, :]).reshape(len(w), -1) @ self._pairs.T
        gram = np.empty((len(w), self.dim, self.dim))
        gram[:, self._one, self._other] = both
        gram[:, self._other, self._one] = both
        right, along = w @ self._target, np.tensordot(w, self._cross, 1)
        every, total = slice(0, len(w)), np.tile(self.total, (len(w), 1))
        theta = solve(every, gram.copy(), right.copy(), along, total)
        left = self.square - 2.0 * np.vecdot(theta, right)
        left += np.vecdot(theta, (gram @ theta[:, :, None])[:, :, 0])
        self._along = np.tensordot(theta, self._cross, ([1], [1]))
        return theta, np.asarray(np.maximum(left, 0.0))

    def n_parts(self, n_chains: int, most: int) -> int:
        """Return 1: `active` takes all chains at once."""
        return 1

    def active(self, of: Ints, order: Ints) -> tuple[Floats, Floats, Floats]:
        """Return products of the columns of some lags; see `RowProducts`."""
        gram = self._gram[of[:, None, None], order[:, :, None], order[:, None, :]]
        return gram, self._right[of[:, None], order], self._along[of[:, None], order]
