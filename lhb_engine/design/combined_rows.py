"""Columns of rows that combine rounds, without a sum over the rounds of every row.

Rows that combine rounds by one pattern (all weekly totals, all differences) share one filtered
context series: a row's entry at lag k is the series' value k rounds before the row's last round.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy

from lhb_engine.history import Floats, Ints

MOST_SERIES = 4  # series kept, which bounds memory to a small multiple of the contexts
WORTH = 8  # lags whose columns, by definition, cost at least what a series does


@dataclass(frozen=True)
class Pattern:
    """Rows sum_j weights[j] xi_{last - delays[j] - lag}, all within their own trajectory."""

    rows: Ints
    last: Ints
    delays: Ints
    weights: Floats

    @cached_property
    def runs(self) -> list[tuple[int, int, float]]:
        """(first delay, length, weight) of each run of consecutive delays of one weight."""
        order = np.argsort(self.delays)
        delays, weights = self.delays[order], self.weights[order]
        breaks = (np.diff(delays) != 1) | (np.diff(weights) != 0)
        begins = np.concatenate([[0], np.flatnonzero(breaks) + 1, [len(delays)]])
        return [(int(delays[a]), b - a, float(weights[a])) for a, b in pairwise(begins.tolist())]


class CombinedRows:
    """The rows of M T, with T the matrix of lagged contexts.

    `combine` is M, (n_rows, len(rounds)), on the rounds that M uses; `turned` (dim, n_rounds + 1)
    the contexts, transposed, behind a column of zeros; `places` each round's position in its
    trajectory, from 0.
    """

    def __init__(
        self,
        combine: "scipy.sparse.csr_array",
        turned: Floats,
        rounds: Ints,
        places: Ints,
        n_lags: int,
    ) -> None:
        self.combine = combine
        self.turned = turned
        self.rounds = rounds
        self.places = places
        self.n_lags = n_lags

    @property
    def square_sum(self) -> float:
        """Sum of the squares of all entries."""
        patterns, others = self._patterns
        total = sum(self._squares(row) for row in others.tolist())
        for pattern in patterns:
            if self._worth(pattern, self.n_lags):
                series = self._filtered(pattern)
                squares = np.cumsum(np.einsum("dt,dt->t", series, series))
                reach = np.minimum(self.n_lags, self.places[pattern.last] + 1)
                last = pattern.last + 1
                total += float((squares[last] - squares[last - reach]).sum())
            else:
                total += sum(self._squares(row) for row in pattern.rows.tolist())
        return total

    def columns(self, lags: Ints, out: Floats) -> None:
        """Write the columns of some lags into the rows of (len(lags) * dim, n_rows) `out`."""
        by_series, others = self._series
        dim = len(self.turned)
        for i, lag in enumerate(lags.tolist()):
            part = out[i * dim : (i + 1) * dim]
            for pattern, series in by_series:
                place = self.places[pattern.last]
                index = np.where(place >= lag, pattern.last + 1 - lag, 0)
                if len(pattern.rows) == out.shape[1]:
                    np.take(series, index, axis=1, out=part, mode="clip")
                else:
                    part[:, pattern.rows] = series.take(index, axis=1)
            if others is not None:
                rows, used, weights = others
                index = np.where(self.places[used] >= lag, used + 1 - lag, 0)
                part[:, rows] = (weights @ self.turned.T[index]).T

    @cached_property
    def _series(
        self,
    ) -> tuple[list[tuple[Pattern, Floats]], "tuple[Ints, Ints, scipy.sparse.csr_array] | None"]:
        """The commonest patterns with their series; and the other rows with their rounds and M."""
        commonest = sorted(self._patterns[0], key=lambda p: -len(p.rows))[:MOST_SERIES]
        patterns = [p for p in commonest if self._worth(p, WORTH)]
        series = [(p, self._filtered(p)) for p in patterns]
        rest = np.ones(self.combine.shape[0], dtype=bool)
        for pattern in patterns:
            rest[pattern.rows] = False
        rows = np.flatnonzero(rest)
        if len(rows) == 0:
            return series, None
        weights = self.combine[rows]
        used, narrow = np.unique(weights.indices, return_inverse=True)
        weights = scipy.sparse.csr_array(
            (weights.data, narrow, weights.indptr), (len(rows), len(used))
        )
        return series, (rows, self.rounds[used], weights)

    def _worth(self, pattern: Pattern, n_lags: int) -> bool:
        """Whether a series costs no more than the rows' columns at `n_lags` lags."""
        by_definition = len(pattern.rows) * len(pattern.delays) * n_lags
        return bool(len(pattern.runs) * self.turned.shape[1] <= by_definition)

    @cached_property
    def _patterns(self) -> tuple[list[Pattern], Ints]:
        """Patterns, and the rows that are none: empty, or of several trajectories."""
        patterns = []
        sizes = np.diff(self.combine.indptr)
        others = [np.flatnonzero(sizes == 0)]
        for size in np.unique(sizes[sizes > 0]).tolist():
            rows = np.flatnonzero(sizes == size)
            inside = self.combine.indptr[rows][:, None] + np.arange(size)
            used, weights = self.rounds[self.combine.indices[inside]], self.combine.data[inside]
            last = used.max(axis=1)
            delays = last[:, None] - used
            own = self.places[last] >= delays.max(axis=1)
            others.append(rows[~own])
            for group in _alike(np.concatenate([delays, weights], axis=1), np.flatnonzero(own)):
                one = group[0]
                patterns.append(Pattern(rows[group], last[group], delays[one], weights[one]))
        return patterns, np.concatenate(others)

    def _filtered(self, pattern: Pattern) -> Floats:
        """(dim, n_rounds + 1) sum_j weights[j] xi_(t - delays[j]), zero before each first round."""
        (_, n, weight), *others = pattern.runs  # the first begins at the row's last round
        out = self._window(n)
        out *= weight
        for delay, n, weight in others:
            self._add_later(out, weight * self._window(n), delay)
        return out

    def _window(self, n: int) -> Floats:
        """(dim, n_rounds + 1) sums over n rounds up to t, from sums over 1, 2, 4 ... of them.

        Not from cumulative sums: their rounding would be that of the largest context so far.
        """
        block, size = self.turned, 1
        while not n & size:
            block, size = self._doubled(block, size), 2 * size
        out, done = block.copy(), size
        while done < n:
            block, size = self._doubled(block, size), 2 * size
            if n & size:
                self._add_later(out, block, done)
                done += size
        return out

    def _doubled(self, block: Floats, size: int) -> Floats:
        out = block.copy()
        self._add_later(out, block, size)
        return out

    def _add_later(self, out: Floats, series: Floats, delay: int) -> None:
        """Add the series of each trajectory, `delay` rounds later, to `out`."""
        moved = series[:, 1 : series.shape[1] - delay]
        too_soon = self.places[delay:] < delay
        if too_soon.any():
            moved = np.where(too_soon, 0.0, moved)
        out[:, 1 + delay :] += moved

    def _squares(self, row: int) -> float:
        """Sum of squares of one row's entries, by its definition."""
        inside = slice(self.combine.indptr[row], self.combine.indptr[row + 1])
        entries = np.zeros((len(self.turned), self.n_lags))
        used = self.rounds[self.combine.indices[inside]]
        for t, weight in zip(used.tolist(), self.combine.data[inside].tolist(), strict=True):
            reach = min(self.n_lags, int(self.places[t]) + 1)
            entries[:, :reach] += weight * self.turned[:, t + 2 - reach : t + 2][:, ::-1]
        return float((entries**2).sum())


def _alike(pattern: Floats, rows: Ints) -> list[Ints]:
    """`rows` split into groups of one pattern each."""
    if len(rows) == 0 or (pattern[rows] == pattern[rows[0]]).all():
        return [rows] if len(rows) else []
    order = rows[np.lexsort(pattern[rows].T)]
    changes = (pattern[order[1:]] != pattern[order[:-1]]).any(axis=1)
    return np.split(order, np.flatnonzero(changes) + 1)
