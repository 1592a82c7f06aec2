"""What a Gibbs sweep needs of the data: products of columns, from rows or from moments.

From rows (docs/model.md 7), given theta, column k of the design of w is the signal <xi_t, theta>
shifted by k rounds. Columns are views of that signal: no design matrix is stored for all lags. The
error is kept up to date while lag weights are drawn. From moments (docs/model.md (10.5), (10.6)) a
sweep costs the same at any number of rows. The chains draw the same numbers but for rounding.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy
from scipy.linalg import qr

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints


class ShiftedContexts:
    """Contexts (n_places, dim) shifted by 0..n_lags-1 rounds, zero before the first round.

    For a short sequence all its shifts are stored as a dense matrix, and each operation is a matrix
    product. For a long one, of more than `most` numbers (1 MB), its FFT is stored: it is faster.
    """

    def __init__(self, contexts: Floats, n_lags: int, most: int = 2**17) -> None:
        self._n, self._dim = contexts.shape
        self._n_lags = n_lags
        self._dense: Floats | None = None
        self._n_fft = int(scipy.fft.next_fast_len(self._n + n_lags, real=True))
        if self._n * self._dim * n_lags <= most:
            padded = np.concatenate([np.zeros((self._dim, n_lags - 1)), contexts.T], axis=1)
            lags = np.lib.stride_tricks.sliding_window_view(padded, self._n, axis=1)[:, ::-1]
            self._dense = np.ascontiguousarray(lags.transpose(1, 0, 2)).reshape(n_lags, -1)
        else:
            self._transform = np.asarray(scipy.fft.rfft(contexts.T, self._n_fft))

    def filtered(self, w: Floats) -> Floats:
        """Return the filtered contexts g_t = sum_k w_k x_{t-k} of docs/model.md (6.5).

        (n_chains, n_lags) -> (n_chains, dim, n_places).
        """
        if self._dense is not None:
            return np.asarray((w @ self._dense).reshape(len(w), self._dim, self._n))
        product = scipy.fft.rfft(w, self._n_fft)[:, None, :] * self._transform
        return np.asarray(scipy.fft.irfft(product, self._n_fft)[:, :, : self._n])

    def correlated(self, error: Floats, theta: Floats) -> Floats:
        """Return sum_t e_t <x_{t-k}, theta> for every chain and lag k, (n_chains, n_lags).

        `error` is (n_chains, n_places), `theta` (n_chains, dim).
        """
        if self._dense is not None:
            every = self._dense.reshape(-1, self._n) @ error.T
            every = every.reshape(self._n_lags, self._dim, -1) * theta.T
            return np.asarray(every.sum(axis=1).T)
        return self._against(error, theta @ self._transform)

    def squares(self, mask: Floats, signal: Floats) -> Floats:
        """Return sum_t m_t s_{t-k}^2 for every chain and lag k, (n_chains, n_lags).

        `mask` is (n_places,), `signal` (n_chains, n_places).
        """
        return self._against(mask, scipy.fft.rfft(signal**2, self._n_fft))

    def _against(self, values: Floats, transform: np.ndarray) -> Floats:
        """Return the correlations of `values` with the sequence of FFT `transform`, by lag."""
        product = scipy.fft.rfft(values, self._n_fft) * np.conj(transform)
        return np.asarray(scipy.fft.irfft(product, self._n_fft)[..., : self._n_lags])


_PART = 2**20  # floats: columns, or filtered contexts, held at a time
_AT_ONCE = 2**22  # floats: most columns held at a time by `active`

Solve = Callable[[slice, Floats, Floats, Floats, Floats], Floats]


class RowProducts:
    """Rows, with the signals and errors of several chains.

    `square` is y'y; `total` (q,) and `unit` (q, q) are Z'y and Z'Z, with Z the column c of the
    baseline and the covariates; `spread` sums the squares of the rows' contexts; theta is given in
    the coordinates of `span`. `error` (n_chains, n_places) is y less the chain's prediction without
    its baseline.
    """

    def __init__(self, rows: AlignedRounds, n_chains: int) -> None:
        self.n_rows, self.n_lags, self.dim = rows.n_rows, rows.n_lags, rows.contexts.shape[1]
        self.span = ContextSpan.of(rows.contexts)
        self.rows = replace(rows, contexts=self.span.coordinates)
        self._n = len(rows.y)
        self._mask = (rows.intercept > 0).astype(np.float64)
        self._full = bool(self._mask.all())
        self.square = float(rows.y @ rows.y)
        self._beside, self.groups = rows.beside, rows.groups
        self.total, self.unit = rows.y @ self._beside, self._beside.T @ self._beside
        self.spread = float(self._mask @ np.vecdot(rows.contexts, rows.contexts))
        self._lags = ShiftedContexts(self.rows.contexts, rows.n_lags)
        rank = self.rows.contexts.shape[1]
        columns = (np.tile(column, (rank, 1)) for column in self._beside.T)
        self._along = [self._lags.correlated(column, np.eye(rank)) for column in columns]
        padded = np.zeros((n_chains, rows.n_lags - 1 + 2 * self._n))
        self._signal = padded[:, rows.n_lags - 1 : rows.n_lags - 1 + self._n]
        self.error = padded[:, -self._n :]
        self._windows = np.lib.stride_tricks.sliding_window_view(padded, self._n, axis=1)
        self._columns: Floats = np.zeros(0)  # those of the present part
        self._predicted(np.zeros((n_chains, self._n)))

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        self.error[:] = self.error[chosen]

    def rest(self, w: Floats) -> Floats:
        """Return Z'e of each chain, (n_chains, q)."""
        return np.asarray(self.error @ self._beside)

    def columns(self, theta: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
        """Return products of each lag's column s_k with Z, itself and the error.

        s_k'Z is (n_chains, n_lags, q), s_k's_k and s_k'e are (n_chains, n_lags). The products of
        `step` are of the columns of this theta until it is given anew.
        """
        signal = self._signal
        signal[:] = theta @ self.rows.contexts.T
        if self._full:
            square = np.cumsum(signal**2, axis=1)[:, ::-1][:, : self.n_lags]
        else:
            square = self._lags.squares(self._mask, signal)
        along = np.stack([theta @ products for products in self._along], axis=-1)
        return along, square, self._lags.correlated(self.error, theta)

    def parts(self, order: Ints) -> Iterator[tuple[slice, Floats]]:
        """Yield parts of the steps in which lag weights are drawn, with their products.

        Between two of them `move` is called with the changes of the weights. `order` (n_chains,
        n_steps) is the lag that each chain draws in each step; products (n_chains, n_part, 1 +
        n_part) are of each step's column with the error, and with the columns of all steps of the
        part.
        """
        chain = np.arange(len(order))[:, None]
        places = self.n_lags - 1 - order
        error_too = np.full((len(order), 1), self._windows.shape[1] - 1)
        size = max(4, math.isqrt(_PART // (len(order) * self._n)))
        for start in range(0, order.shape[1], size):
            part = slice(start, start + size)
            at = np.concatenate([error_too, places[:, part]], axis=1)
            self._columns = self._windows[chain, at]
            if not self._full:
                self._columns *= self._mask
            yield part, self._columns[:, 1:] @ self._columns.transpose(0, 2, 1)

    def move(self, change: Floats) -> None:
        """Take changes of the present part's weights, (n_chains, n_part), out of the error."""
        self.error -= (change[:, None, :] @ self._columns[:, 1:])[:, 0]

    def fresh_noise(self, noise2: Floats, rng: np.random.Generator) -> Floats | None:
        """Return noise for y of these variances, (n_chains, n_places); None if rows >= features."""
        if self.n_rows >= self.dim:
            return None
        return np.asarray(np.sqrt(noise2)[:, None] * rng.standard_normal(self.error.shape))

    def theta_drawn(self, w: Floats, noise: Floats | None, solve: Solve) -> tuple[Floats, Floats]:
        """Draw theta given the lag weights, take its prediction out of the error, and return e'e.

        `noise` (n_chains, n_places) is added to y. `solve` maps a slice of the chains with their
        G'G, G'y, G'Z and Z'y, G as in (7.6), to theta.
        """
        y = np.broadcast_to(self.rows.y, self.error.shape) if noise is None else self.rows.y + noise
        at_once = max(1, _PART // self.rows.contexts.size)
        thetas, predicted = [], []
        for start in range(0, len(w), at_once):
            part = slice(start, start + at_once)
            filtered = self._lags.filtered(w[part])
            if not self._full:
                filtered *= self._mask
            theta = solve(
                part,
                filtered @ filtered.transpose(0, 2, 1),
                (filtered @ y[part, :, None])[:, :, 0],
                filtered @ self._beside,
                y[part] @ self._beside,
            )
            thetas.append(theta)
            predicted.append((theta[:, None, :] @ filtered)[:, 0, :])
        self._predicted(np.concatenate(predicted))
        return np.concatenate(thetas), np.asarray(np.vecdot(self.error, self.error))

    def n_parts(self, n_chains: int, most: int) -> int:
        """Return in how many parts `active` is to be asked for `most` lags of each chain."""
        return math.ceil(n_chains * most * self._n / _AT_ONCE)

    def active(self, of: Ints, order: Ints) -> tuple[Floats, Floats, Floats]:
        """Return products of the columns of some lags, at the theta given last.

        Chains are `of` (n,), their lags `order` (n, n_some); the products are with each other, with
        y, and with Z.
        """
        columns = self._windows[of[:, None], self.n_lags - 1 - order]
        kept = columns if self._full else columns * self._mask
        gram = kept @ columns.transpose(0, 2, 1)
        return gram, kept @ self.rows.y, kept @ self._beside

    def _predicted(self, predicted: Floats) -> None:
        np.subtract(self.rows.y, predicted, out=self.error)
        self.error *= self._mask


@dataclass(frozen=True)
class ContextSpan:
    """Contexts in coordinates of their span, or as they are if it may be the whole space.

    `coordinates` are (n_places, rank); `rank` is the number of contexts that are not zero, or
    `dim`. `basis` (dim, rank) has orthonormal columns; None stands for the unit matrix.

    Rewards depend on theta through its products with contexts alone, and theta's prior (7.2) is the
    same in every orthonormal basis. So the part of theta outside the span keeps its prior, and the
    part inside has the posterior of a theta with as many numbers as the span has dimensions.
    """

    coordinates: Floats
    basis: Floats | None

    @classmethod
    def of(cls, contexts: Floats) -> Self:
        """Return the span of (n_places, dim) contexts."""
        places = np.flatnonzero(contexts.any(axis=1))
        if not 0 < len(places) < contexts.shape[1]:
            return cls(contexts, None)
        basis, upper = qr(contexts[places].T, overwrite_a=True, mode="economic", check_finite=False)
        coordinates = np.zeros((len(contexts), len(places)))
        coordinates[places] = upper.T
        return cls(coordinates, np.asarray(basis, np.float64))

    def inside(self, vectors: Floats) -> Floats:
        """Return the coordinates of vectors' parts inside the span, (n, dim) -> (n, rank)."""
        return vectors.copy() if self.basis is None else vectors @ self.basis

    def whole(self, inside: Floats, outside: Floats) -> Floats:
        """Return vectors (n, dim) with given parts inside and outside the span.

        `inside` (n, rank) are coordinates; of the vectors `outside` (n, dim) parts outside the span
        count.
        """
        if self.basis is None:
            return inside
        return np.asarray(outside + (inside - outside @ self.basis) @ self.basis.T)


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
        self._by_lag = moments.cross.reshape(self.n_lags, -1)
        self._by_feature = moments.cross.transpose(1, 0, 2).reshape(self.dim, -1)
        # features a <= b: the lags' products of both, each (n_lags, n_lags)
        self._one, self._other = np.triu_indices(self.dim)
        self._twice = np.where(self._one == self._other, 1.0, 2.0)
        blocks = moments.gram.reshape(self.n_lags, self.dim, self.n_lags, self.dim)
        blocks = blocks.transpose(1, 3, 0, 2)
        pairs = (blocks[self._one, self._other] + blocks[self._other, self._one]) / 2
        self._pairs = pairs.reshape(len(self._one), -1)
        self.gram: Floats = np.asarray(np.zeros(0))  # of the columns at the present theta
        self.right = self.along = self._now = self.gram
        self._apart = self.n_lags**2  # numbers from a chain's products to the next one's

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index: nothing is kept for a chain between sweeps."""

    def rest(self, w: Floats) -> Floats:
        """Return Z'e of each chain, (n_chains, q), at the theta given last."""
        return np.asarray(self.total - (w[:, None, :] @ self.along)[:, 0])

    def columns(self, theta: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
        """Return s_k'Z, s_k's_k and s_k'e of each lag's column; see `RowProducts`."""
        both = theta[:, self._one] * theta[:, self._other] * self._twice
        self.gram = (both @ self._pairs).reshape(len(theta), self.n_lags, self.n_lags)
        self.right = theta @ self._target.T
        self.along = (theta @ self._by_feature).reshape(len(theta), self.n_lags, -1)
        self._now = self.right - (self.gram @ w[:, :, None])[:, :, 0]
        square = np.diagonal(self.gram, axis1=1, axis2=2)
        return self.along, square, self._now.copy()

    def parts(self, order: Ints) -> Iterator[tuple[slice, Floats]]:
        """Yield all steps as one part; see `RowProducts`."""
        chain = np.arange(len(order))[:, None]
        n_steps = order.shape[1]
        products = np.empty((len(order), n_steps, 1 + n_steps))
        products[:, :, 0] = self._now[chain, order]
        rows = self._apart * chain + self.n_lags * order  # places in `gram`
        products[:, :, 1:] = self.gram.take(rows[:, :, None] + order[:, None, :])
        yield slice(0, n_steps), products

    def move(self, change: Floats) -> None:
        """Take note of changed weights: the one part was the last."""

    def fresh_noise(self, noise2: Floats, rng: np.random.Generator) -> None:
        """Return None: moments have no place for noise."""

    def theta_drawn(self, w: Floats, noise: Floats | None, solve: Solve) -> tuple[Floats, Floats]:
        """Draw theta given the lag weights; see `RowProducts`. `noise` is none."""
        both = (w[:, :, None] * w[:, None, :]).reshape(len(w), -1) @ self._pairs.T
        gram = np.empty((len(w), self.dim, self.dim))
        gram[:, self._one, self._other] = both
        gram[:, self._other, self._one] = both
        right, along = w @ self._target, (w @ self._by_lag).reshape(len(w), self.dim, -1)
        every, total = slice(0, len(w)), np.tile(self.total, (len(w), 1))
        theta = solve(every, gram.copy(), right.copy(), along, total)
        left = self.square - 2.0 * np.vecdot(theta, right)
        left += np.vecdot(theta, (gram @ theta[:, :, None])[:, :, 0])
        self.along = (theta @ self._by_feature).reshape(len(theta), self.n_lags, -1)
        return theta, np.asarray(np.maximum(left, 0.0))

    def n_parts(self, n_chains: int, most: int) -> int:
        """Return 1: `active` takes all chains at once."""
        return 1

    def active(self, of: Ints, order: Ints) -> tuple[Floats, Floats, Floats]:
        """Return products of the columns of some lags; see `RowProducts`."""
        gram = self.gram[of[:, None, None], order[:, :, None], order[:, None, :]]
        return gram, self.right[of[:, None], order], self.along[of[:, None], order]
