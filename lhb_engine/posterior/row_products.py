"""What a Gibbs sweep needs of the data, from rows (docs/model.md 7).

Given theta, column k of the design of w is the signal <xi_t, theta> shifted by k rounds. Columns
are views of that signal: no design matrix is stored for all lags. The error is kept up to date
while lag weights are drawn.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.lag_shifts import ShiftedContexts
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.context_span import ContextSpan

_BLOCK = 2**20  # floats: columns, or filtered contexts, held at a time
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
        self._columns: Floats = np.zeros(0)  # those of the present block
        self._predicted(np.zeros((n_chains, self._n)))

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        self.error[:] = self.error[chosen]

    def level(self, w: Floats) -> Floats:
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

    def blocks(self, order: Ints) -> Iterator[tuple[slice, Floats]]:
        """Yield parts of the steps in which lag weights are drawn, with their products.

        Between two of them `move` is called with the changes of the weights. `order` (n_chains,
        n_steps) is the lag that each chain draws in each step; products (n_chains, n_part, 1 +
        n_part) are of each step's column with the error, and with the columns of all steps of the
        part.
        """
        chain = np.arange(len(order))[:, None]
        places = self.n_lags - 1 - order
        error_too = np.full((len(order), 1), self._windows.shape[1] - 1)
        size = max(4, math.isqrt(_BLOCK // (len(order) * self._n)))
        for start in range(0, order.shape[1], size):
            part = slice(start, start + size)
            at = np.concatenate([error_too, places[:, part]], axis=1)
            self._columns = self._windows[chain, at]
            if not self._full:
                self._columns *= self._mask
            yield part, self._columns[:, 1:] @ self._columns.transpose(0, 2, 1)

    def move(self, change: Floats) -> None:
        """Take changes of the present block's weights, (n_chains, n_part), out of the error."""
        self.error -= (change[:, None, :] @ self._columns[:, 1:])[:, 0]

    def theta_drawn(self, w: Floats, noise: Floats | None, solve: Solve) -> tuple[Floats, Floats]:
        """Draw theta given the lag weights, take its prediction out of the error, and return e'e.

        `noise` (n_chains, n_places) is added to y. `solve` maps a slice of the chains with their
        G'G, G'y, G'Z and Z'y, G as in (7.6), to theta.
        """
        y = np.broadcast_to(self.rows.y, self.error.shape) if noise is None else self.rows.y + noise
        at_once = max(1, _BLOCK // self.rows.contexts.size)
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
