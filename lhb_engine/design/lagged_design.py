"""The lagged design X = M T as a linear operator, without a dense matrix (docs/model.md (1.5)).

T stacks the trajectories' block-Toeplitz matrices: row t is [xi_t, xi_{t-1}, ..., xi_{t-h+1}],
with xi_j = 0 before the trajectory's first round. M is sparse and has one row for each
measurement. `T v` is a convolution and `T' r` a correlation: both are computed by the FFTs of
short segments (`overlap_save`).
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from lhb_engine.design.overlap_save import Bank, ShortTrajectories, SingleRows, plan_banks
from lhb_engine.history import Floats, Ints

MOST_PAIRS = 2**22  # of rounds in one row, which are held at once
LEAST_RUN = 16  # mean run of consecutive rounds from which a recursion over lags is faster


class LaggedDesign:
    """Rows of lagged contexts, as an operator on phi of shape (n_lags, dim).

    Parameters
    ----------
    contexts : (n_rounds, dim) array or a sequence of them
        Selected contexts, one array for each trajectory. Lags never reach across two trajectories.
    n_lags : int
        Number of lags h, at least 1.

    Attributes
    ----------
    n_rows : int
        Number of rounds at first; number of measurements after `measure`.
    intercept : (n_rows,) array
        Intercept column M @ ones: what a baseline of 1 per round adds to each row.

    Raises
    ------
    ValueError
        Contexts that are not finite, not two-dimensional, or of different widths.
    """

    def __init__(self, contexts: Floats | Sequence[Floats], n_lags: int) -> None:
        parts = [contexts] if isinstance(contexts, np.ndarray) else list(contexts)
        if n_lags < 1:
            raise ValueError("n_lags must be at least 1")
        if not parts or any(part.ndim != 2 or part.shape[1] < 1 for part in parts):
            raise ValueError("contexts must be (n_rounds, dim) arrays")
        if len({part.shape[1] for part in parts}) > 1:
            raise ValueError("all trajectories must have the same dim")
        self.n_lags = int(n_lags)
        self.dim = int(parts[0].shape[1])
        self.lengths: Ints = np.array([len(part) for part in parts], dtype=np.int64)
        # row 0 is zero: lags that reach before a trajectory's first round point to it
        self._contexts = np.ascontiguousarray(
            np.concatenate([np.zeros((1, self.dim)), *parts], dtype=np.float64)
        )
        if not np.isfinite(self._contexts).all():
            raise ValueError("contexts must be finite")
        self._starts: Ints = np.concatenate([[0], np.cumsum(self.lengths)])[:-1]
        self.n_rows = self.n_rounds = int(self.lengths.sum())
        self._rounds: Ints = np.arange(self.n_rounds)  # rounds whose rows of T are needed
        self._combine: scipy.sparse.csr_array | None = None  # M on these rounds; None: the identity

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_lags * dim), of the matrix that `toarray` would give."""
        return self.n_rows, self.n_lags * self.dim

    @property
    def contexts(self) -> Floats:
        """(n_rounds, dim) contexts of all trajectories, one after the other."""
        return self._contexts[1:]

    def scaled(self, factors: Floats) -> "LaggedDesign":
        """Return the design whose features are multiplied by `factors`, a (dim,) array."""
        other = self._with(self._rounds, self._combine, self.n_rows)
        other._contexts = self._contexts * factors
        return other

    def select(self, rows: Ints) -> "LaggedDesign":
        """Return the design of some of these rows.

        Parameters
        ----------
        rows : (n_selected,) array of int

        Raises
        ------
        ValueError
            A round that is selected twice.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if self._combine is not None:
            return self._with(self._rounds, self._combine[rows], len(rows))
        rounds = self._rounds[rows]
        if len(rounds) > 1 and (np.diff(rounds) <= 0).any() and len(set(rounds)) < len(rounds):
            raise ValueError("a row may be selected once only")
        return self._with(rounds, None, len(rounds))

    def measure(self, measurement: Any) -> "LaggedDesign":
        """Return the design whose row i is the combination `measurement[i]` of these rows.

        Parameters
        ----------
        measurement : (n_measurements, n_rows) scipy sparse array or matrix
            M. A missing round is in no row; a span over m rounds is a row of 1/sqrt(m); a
            difference is a row of +1 and -1.

        Raises
        ------
        ValueError
            Another number of columns, or entries that are not finite.
        """
        rows = scipy.sparse.csr_array(measurement, dtype=np.float64)
        if rows.shape[1] != self.n_rows:
            raise ValueError(f"measurement must have {self.n_rows} columns")
        if not np.isfinite(rows.data).all():
            raise ValueError("measurement must be finite")
        are_single = len(rows.data) == len(np.unique(rows.indices)) == rows.shape[0]
        if are_single and (np.diff(rows.indptr) == 1).all() and (rows.data == 1).all():
            return self.select(rows.indices.astype(np.int64))
        combine = rows if self._combine is None else scipy.sparse.csr_array(rows @ self._combine)
        combine.sum_duplicates()
        used = np.unique(combine.indices).astype(np.int64)
        narrow = np.searchsorted(used, combine.indices)
        shape = (int(rows.shape[0]), len(used))
        combine = scipy.sparse.csr_array((combine.data, narrow, combine.indptr), shape=shape)
        return self._with(self._rounds[used], combine, shape[0])

    def _with(
        self, rounds: Ints, combine: "scipy.sparse.csr_array | None", n_rows: int
    ) -> "LaggedDesign":
        other = LaggedDesign.__new__(LaggedDesign)
        for name in ("n_lags", "dim", "lengths", "_contexts", "_starts", "n_rounds"):
            setattr(other, name, getattr(self, name))
        other._rounds, other._combine, other.n_rows = rounds, combine, n_rows
        return other

    def matvec(self, phi: Floats) -> Floats:
        """Multiply: X phi, (n_lags, dim) -> (n_rows,)."""
        values = np.zeros(len(self._rounds))
        for bank in self._banks:
            bank.convolve(phi, values)
        return values if self._combine is None else self._combine @ values

    def rmatvec(self, v: Floats) -> Floats:
        """Multiply by the transpose: X' v, (n_rows,) -> (n_lags, dim)."""
        values = v if self._combine is None else self._transposed @ v
        out = np.zeros((self.n_lags, self.dim))
        for bank in self._banks:
            bank.correlate(values, out)
        return out

    def blocks(self, lags: Ints) -> Floats:
        """Return the dense columns of some lags, an (n_rows, len(lags), dim) array."""
        lags = np.asarray(lags, dtype=np.int64)
        if self._combine is not None:
            out = np.empty((len(lags) * self.dim, self.n_rows))
            self.columns(lags, out)
            return np.ascontiguousarray(out.T).reshape(self.n_rows, len(lags), self.dim)
        index = np.subtract.outer(self._rounds + 1, lags)
        index[self._places[:, None] < lags] = 0
        return np.take(self._contexts, index, axis=0)

    def columns(self, lags: Ints, out: Floats) -> None:
        """Write the dense columns of some lags into the rows of (len(lags) * dim, n_rows) `out`."""
        if self._combine is not None:
            for i, lag in enumerate(np.asarray(lags).tolist()):
                out[i * self.dim : (i + 1) * self.dim] = self._combined(lag).T
            return
        if self.n_rows == 0:
            return
        first, n = int(self._rounds[0]) + 1, self.n_rows
        in_a_run = (
            self._places[-1] - self._places[0] == n - 1 and (np.diff(self._rounds) == 1).all()
        )
        reach = int(self._places[0]) if in_a_run else -1
        for i, lag in enumerate(np.asarray(lags).tolist()):
            part = out[i * self.dim : (i + 1) * self.dim]
            if lag <= reach:
                part[:] = self._turned[:, first - lag : first - lag + n]
            else:
                index = np.where(self._places >= lag, self._rounds + 1 - lag, 0)
                np.take(self._turned, index, axis=1, out=part, mode="clip")

    def toarray(self) -> Floats:
        """Return the dense (n_rows, n_lags * dim) matrix, for tests and small problems."""
        return self.blocks(np.arange(self.n_lags)).reshape(self.shape)

    def gram(self) -> Floats | None:
        """Compute X'X where rows are runs of single rounds.

        Block (k + 1, l + 1) sums over the rounds of block (k, l), each one round earlier. So it
        is that block plus the products at the round before each run, less those at its last
        round. The first lag's correlations give all others by this recursion.

        Returns
        -------
        (n_lags * dim, n_lags * dim) array or None
            Only the upper triangle is set. None where rows combine rounds or runs are short.
        """
        breaks = np.flatnonzero((np.diff(self._rounds, prepend=-2) != 1) | (self._places == 0))
        if self._combine is not None or len(breaks) * LEAST_RUN > self.n_rows:
            return None
        entering = self._rounds[breaks][self._places[breaks] > 0] - 1
        leaving = self._rounds[np.append(breaks[1:], len(self._rounds)) - 1]
        ends = self._with(np.concatenate([entering, leaving]), None, 0).blocks(
            np.arange(self.n_lags)
        )
        flat, dim = ends.reshape(len(ends), -1)[:, : -self.dim], self.dim
        sign = np.repeat([1.0, -1.0], [len(entering), len(leaving)])
        change = (flat.T * sign) @ flat
        out = np.empty((len(change) + dim, len(change) + dim))
        for feature, column in enumerate(self._turned[:, self._rounds + 1]):
            out[feature] = self.rmatvec(column).ravel()
        for k in range(0, len(change), dim):
            here, there = slice(k, k + dim), slice(k + dim, k + 2 * dim)
            np.add(out[here, k:-dim], change[here, k:], out=out[there, k + dim :])
        return out

    @cached_property
    def intercept(self) -> Floats:
        """(n_rows,) intercept column M @ ones."""
        ones = np.ones(len(self._rounds))
        return ones if self._combine is None else self._combine @ ones

    @cached_property
    def square_sum(self) -> float:
        """Sum of the squares of all entries of X.

        Rows that combine rounds have products of these, which lie as far apart at all lags: sums
        over lags are differences of cumulative sums. With very long totals lags are summed singly.
        """
        if self._combine is None:
            squares = np.einsum("td,td->t", self.contexts, self.contexts)
            total = np.concatenate([[0.0], np.cumsum(squares)])
            reach = np.minimum(self.n_lags, self._places + 1)
            return float((total[self._rounds + 1] - total[self._rounds + 1 - reach]).sum())
        sizes = np.diff(self._combine.indptr).astype(np.float64)
        if sizes @ sizes > MOST_PAIRS:
            return sum(float(np.sum(self._combined(lag) ** 2)) for lag in range(self.n_lags))
        pairs = scipy.sparse.tril(self._transposed @ self._combine, format="coo")
        late, early = self._rounds[pairs.row], self._rounds[pairs.col]
        reach = np.minimum(self._places[pairs.row], self._places[pairs.col])
        reach = np.minimum(reach + 1, self.n_lags)
        weights = np.where(late > early, 2.0, 1.0) * pairs.data
        delays, place = np.unique(late - early, return_inverse=True)
        parts = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
        square = 0.0
        for delay, of in zip(delays.tolist(), parts, strict=False):  # without pairs a part is left
            earlier = self.contexts[: self.n_rounds - delay]
            products = np.einsum("td,td->t", self.contexts[delay:], earlier)
            total = np.concatenate([np.zeros(1 + delay), np.cumsum(products)])
            ends = total[late[of] + 1] - total[late[of] + 1 - reach[of]]
            square += float(weights[of] @ ends)
        return square

    @cached_property
    def square_bound(self) -> float:
        """An upper bound of `square_sum` that is cheaper to compute."""
        largest = float(np.einsum("td,td->t", self.contexts, self.contexts).max(initial=0.0))
        rows = float(self.n_rows)
        if self._combine is not None:
            most = int(np.diff(self._combine.indptr).max(initial=0))
            rows = most * float(self._combine.data @ self._combine.data)
        return rows * self.n_lags * largest

    def _combined(self, lag: int) -> Floats:
        """Return the columns of one lag, of rows that combine rounds, (n_rows, dim)."""
        assert self._combine is not None
        m = self._combine
        index = np.where(self._places >= lag, self._rounds + 1 - lag, 0)[m.indices]
        shape = m.shape[0], len(self._contexts)
        return np.asarray(scipy.sparse.csr_array((m.data, index, m.indptr), shape) @ self._contexts)

    @cached_property
    def _places(self) -> Ints:
        """Position of each needed round in its trajectory, from 0."""
        return self._rounds - np.repeat(self._starts, self.lengths)[self._rounds]

    @cached_property
    def _turned(self) -> Floats:
        """(dim, n_rounds + 1) contexts, transposed."""
        return np.ascontiguousarray(self._contexts.T)

    @cached_property
    def _transposed(self) -> "scipy.sparse.csr_array":
        assert self._combine is not None
        return self._combine.T.tocsr()

    @cached_property
    def _banks(self) -> list[Bank | ShortTrajectories] | list[SingleRows]:
        firsts = self._rounds - self._places
        if self.n_rounds >= self.n_lags * len(firsts) > 0 and (np.diff(np.sort(firsts)) > 0).all():
            every = self._with(self._rounds, None, len(firsts)).blocks(np.arange(self.n_lags))
            return [SingleRows(every.reshape(len(firsts), -1))]
        row_of = np.full(self.n_rounds, -1)
        row_of[self._rounds] = np.arange(len(self._rounds))
        return plan_banks(self._turned[:, 1:], self._starts, self.lengths, row_of, self.n_lags)
