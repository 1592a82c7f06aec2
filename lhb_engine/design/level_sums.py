"""Moments and levels in sums that can be kept, of one size however many rows there were.

What a level of n measured rounds takes out of the moments, docs/model.md (10.9), is a smooth
function of n. So levels are shared out between a few nodes n = 1, 2, 4, ..., by (10.10). How far
levels differ follows from these sums too, by the restricted likelihood (7.28).
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
import scipy

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.levels import kept_share
from lhb_engine.design.moment_sums import AT_ONCE, Columns, session_moments
from lhb_engine.design.moments import (
    Header,
    Moments,
    RowMoments,
    Spread,
    SquareSums,
    Statistics,
    from_triangles,
    to_triangles,
)
from lhb_engine.history import Floats, Ints

# tau that are compared: 0, and from below what 10^4 rounds could show to where levels are free
SPREADS = np.append(0.0, np.geomspace(0.01, 1000.0, 401))
WITHIN = 1.92  # nats below the largest likelihood: the 95% interval of one parameter
_EQUAL = 1e-9  # nats that do not count
HEADER = Header(b"LHBL", 1, "sums of levels", n_counts=3)  # n_rows, n_nodes, begun
INEXACT = 0.05  # by which share the nodes may move the spread, at levels of a few rounds


Change = tuple[int, AlignedRounds, Columns, Ints]  # 1 or -1, rows, their columns, and places


class LevelErrors(NamedTuple):
    """What errors e of a prediction are, level by level; levels of one size together.

    Each array is (n_sizes,): measured rounds n of a level, the number of such levels, and their
    sums of n, of E = sum c e, and of E^2 / n.
    """

    sizes: Floats
    counts: Floats
    rounds: Floats
    totals: Floats
    squares: Floats


def _best(cost: Floats) -> int:
    """Return the place of the first of the least costs."""
    return int(np.argmax(cost <= cost.min() + _EQUAL))


def _costs(moments: "Levelled", coefficients: Floats, spreads: Floats) -> tuple[Floats, Floats]:
    """Return (7.28) of each tau, in nats, and the noise's standard deviation there."""
    error = np.append(-coefficients, 1.0)
    square = float(error @ moments.rows.matrix @ error)
    square = max(square, float(np.finfo(float).tiny))
    of_levels = moments.errors(error)
    kept = 1.0 / (1.0 + spreads[:, None] ** 2 * of_levels.sizes)
    precision = kept @ of_levels.rounds
    left = square - (1.0 - kept) @ of_levels.squares - (kept @ of_levels.totals) ** 2 / precision
    left = np.maximum(left, 1e-12 * square)
    free = max(moments.rows.n_rows - 1, 1)
    cost = 0.5 * (free * np.log(left) - np.log(kept) @ of_levels.counts + np.log(precision))
    return cost, np.sqrt(left / free)


class Levelled(Statistics):
    """What is known of rows whose trajectories have levels of their own."""

    begun: int  # levels that are a trajectory's first
    inexact: ClassVar[float] = 0.0  # by which share of itself the spread may be off
    has_levels: ClassVar[bool] = True

    @abstractmethod
    def errors(self, of: Floats) -> LevelErrors:
        """Return what is known of errors, which are the product of a row with `of`, (p,)."""

    def correlation(self, by: Floats) -> float:
        """Return the intraclass correlation rho of the largest likelihood, of those of `SPREADS`.

        Rows are predicted by `by` (p - 1,): phi (lag by lag), the baseline, other covariates.
        """
        cost, _ = _costs(self, by, SPREADS)
        tau = float(SPREADS[_best(cost)])
        return tau**2 / (1.0 + tau**2)

    def spread(self, by: Floats) -> Spread:
        """Return how far levels differ in what `by` leaves, by docs/model.md (7.28).

        The interval is that of all pairs of tau and noise whose likelihood is large enough. Levels
        of one trajectory may be one, so it is that of as many levels as there are trajectories.
        With many it is narrower than the steps of `SPREADS`, so tau is taken from finer ones near
        the largest.
        """
        cost, _ = _costs(self, by, SPREADS)
        n_levels = float(self.errors(np.append(-by, 1.0)).counts.sum())
        within = WITHIN * max(n_levels / max(self.begun, 1), 1.0)
        near = np.flatnonzero(cost <= cost.min() + within)
        first, last = max(near[0] - 1, 0), min(near[-1] + 1, len(SPREADS) - 1)
        finer = np.geomspace(SPREADS[max(first, 1)], SPREADS[max(last, 1)], len(SPREADS))
        spreads = finer if first else np.append(0.0, finer)
        cost, noise = _costs(self, by, spreads)
        best = _best(cost)
        # beside tau, noise of 1 / w times the variance may be, where w - log w = 1 + 2 left / free
        left = np.maximum(cost.min() + within - cost, 0.0)
        edge = -np.exp(-1.0 - 2.0 * left / max(self.rows.n_rows - 1, 1))
        near = cost <= cost.min() + within
        low = spreads * noise / np.sqrt(-scipy.special.lambertw(edge, -1).real)
        high = spreads * noise / np.sqrt(-scipy.special.lambertw(edge).real)
        value = float(spreads[best] * noise[best])
        low_end, high_end = float(low[near].min()), float(high[near].max())
        bounds = low_end * (1.0 - self.inexact), high_end * (1.0 + self.inexact)
        return Spread(float(spreads[best]), value, *bounds)


@dataclass(frozen=True)
class RowLevels(Levelled):
    """The moments of rows, and the sums of each level.

    `sums` (n_levels, p) add c r over each level's rows r, with p as in `RowMoments`; `sizes`
    (n_levels,) add c^2: measured rounds.
    """

    n_rows: int
    n_lags: int
    moments: RowMoments
    sums: Floats
    sizes: Floats
    begun: int

    @property
    def rows(self) -> RowMoments:
        """The moments of the rows alone."""
        return self.moments

    def whitened(self, rho: float, other: float | None = None) -> RowMoments:
        """Return the moments with levels integrated out, by docs/model.md (10.9)."""
        share = (1.0 - kept_share(rho, self.sizes) ** 2) / self.sizes
        weighted = self.sums * share[:, None]
        matrix = self.rows.matrix - weighted.T @ self.sums
        return replace(self.rows, matrix=(matrix + matrix.T) / 2)

    def errors(self, of: Floats) -> LevelErrors:
        """Return what is known of errors, which are the product of a row with `of`, (p,)."""
        totals = self.sums @ of
        sizes, place = np.unique(np.rint(self.sizes), return_inverse=True)
        place = place.reshape(-1)
        counts = np.bincount(place).astype(np.float64)
        squares = np.bincount(place, totals**2) / sizes
        sums = np.bincount(place, totals).astype(np.float64)
        return LevelErrors(sizes, counts, sizes * counts, sums, squares)


def level_moments(rows: AlignedRounds, places: Ints | None = None) -> RowLevels:
    """Add up rows, all or those at some places, and those of each level."""
    if places is None:
        places = np.flatnonzero(rows.number > 0)
    columns, level = Columns.of(rows), rows.level
    order = places[np.argsort(level[places], kind="stable")]
    numbers, starts = np.unique(level[order], return_index=True)
    sums = np.zeros((len(numbers), rows.n_lags * rows.contexts.shape[1] + columns.values.shape[1]))
    step = max(1, AT_ONCE // sums.shape[1])
    of_row = np.repeat(np.arange(len(numbers)), np.diff(np.append(starts, len(order))))
    for start in range(0, len(order), step):
        here = order[start : start + step]
        both = columns.rows(here) * rows.intercept[here, None]
        at = of_row[start : start + step]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        sums[at[first]] += np.add.reduceat(both, first, axis=0)
    sizes = np.add.reduceat(rows.intercept[order] ** 2, starts)
    begun = int(np.count_nonzero(rows.stretch[order[starts]] == 0))
    own = session_moments(rows, places=places).rows
    return RowLevels(own.n_rows, own.n_lags, own, sums, sizes, begun)


@dataclass(frozen=True)
class LevelSums(SquareSums, Levelled):
    """The moments of rows, and their levels, shared out.

    `sums` (1 + n_nodes, p, p) are R'R of the rows, and the matrix S_j of (10.10) of each node 2^j;
    `counts` (n_nodes,) each node's share of the number of levels.
    """

    adds_up: ClassVar[tuple[str, ...]] = ("sums", "n_rows", "counts", "begun")
    counts: Floats = field(kw_only=True)
    begun: int = field(kw_only=True)
    inexact: ClassVar[float] = INEXACT

    @classmethod
    def zero(cls, n_lags: int, dim: int, groups: tuple[int, ...] = ()) -> Self:
        """Return the sums of no rows."""
        p = n_lags * dim + sum(groups) + 2
        return cls(np.zeros((1, p, p)), 0, n_lags, dim, groups, counts=np.zeros(0), begun=0)

    @property
    def _nodes(self) -> Floats:
        return np.asarray(2.0 ** np.arange(len(self.counts)))

    def whitened(self, rho: float, other: float | None = None) -> RowMoments:
        """Return the moments with levels integrated out, by docs/model.md (10.10)."""
        share = 1.0 - kept_share(rho, self._nodes) ** 2
        matrix = self.sums[0] - np.tensordot(share, self.sums[1:], 1)
        return RowMoments(matrix, self.n_rows, self.n_lags, self.dim, self.groups)

    def errors(self, of: Floats) -> LevelErrors:
        """Return what is known of errors, which are the product of a row with `of`, (p,)."""
        constant = self.n_lags * self.dim
        totals, rounds = self.sums[1:, constant] @ of, self.sums[1:, constant, constant]
        return LevelErrors(self._nodes, self.counts, rounds, totals, (self.sums[1:] @ of) @ of)

    def _with(self, other: Self, sign: int) -> Self:
        n = max(len(self.counts), len(other.counts))
        return super(LevelSums, self._with_nodes(n))._with(other._with_nodes(n), sign)

    def _with_nodes(self, n: int) -> Self:
        more = n - len(self.counts)
        sums = np.pad(self.sums, ((0, more), (0, 0), (0, 0)))
        return replace(self, sums=sums, counts=np.pad(self.counts, (0, more)))

    @property
    def are_finite(self) -> bool:
        """Whether all of them are numbers."""
        return super().are_finite and bool(np.isfinite(self.counts).all())

    def to_bytes(self) -> bytes:
        """Return a header, the counts and the upper triangles of the sums, as float64."""
        shape = (self.n_lags, self.dim, self.n_covariates)
        header = HEADER.to_bytes(*shape, self.n_rows, len(self.counts), self.begun)
        return header + self.counts.astype("<f8").tobytes() + to_triangles(self.sums)

    @classmethod
    def from_bytes(cls, data: bytes, groups: tuple[int, ...] = ()) -> Self:
        """Return the sums that `to_bytes` wrote, equal to the bit; the bytes leave groups out.

        Raises ValueError: the bytes are no such sums, of another version, of other covariates, or
        not of the length that they say.
        """
        n_lags, dim, (n_rows, n_nodes, begun), rest = HEADER.read(data, groups)
        counts, triangles = np.split(np.frombuffer(rest, np.uint8), [8 * n_nodes])
        sums = from_triangles(triangles.tobytes(), 1 + n_nodes, n_lags * dim + sum(groups) + 2)
        sizes = counts.view("<f8").astype(np.float64)
        return cls(sums, n_rows, n_lags, dim, groups, counts=sizes, begun=begun)


def shares(sizes: Floats) -> Floats:
    """Return the weights by which levels are shared out between nodes: docs/model.md (10.10).

    (n_levels,) measured rounds -> (n_levels, n_nodes), column j for the node 2^j; 0 without rounds.
    """
    size, place = np.unique(np.maximum(np.rint(sizes), 1.0), return_inverse=True)
    below = np.frexp(size)[1] - 1  # 2^below <= size
    first = np.maximum(below - 1, 0)
    at = first[:, None] + np.arange(4)
    middle = 2.0 ** (below[:, None] + 0.5)

    def functions(n: Floats) -> Floats:
        return np.stack([1.0 / n, np.ones_like(n), n, n / (n + middle)], axis=1)

    weights = np.linalg.solve(functions(2.0**at), functions(size[:, None]))[:, :, 0]
    is_node = size == 2.0**below
    weights[is_node] = at[is_node] == below[is_node, None]
    out = np.zeros((len(size), int(at.max(initial=0)) + 1))
    np.put_along_axis(out, at, weights, axis=1)
    return np.asarray(out[place.reshape(-1)] * (sizes > 0.5)[:, None])


class Levels:
    """The sums of levels, while rows come in and go out in order of arrival."""

    def __init__(self, rows: AlignedRounds, places: Ints) -> None:
        level, stretch = rows.level[places], rows.stretch[places]
        numbers, which = np.unique(level, return_inverse=True)
        self._which = np.zeros(len(rows.y), np.int64)
        self._which[places] = which.reshape(-1)
        self._begins = np.zeros(len(numbers), bool)  # a trajectory's first level
        self._begins[self._which[places]] = stretch == 0
        width = rows.n_lags * rows.contexts.shape[1] + rows.covariates.shape[1] + 2
        self._sums, self._sizes = np.zeros((len(numbers), width)), np.zeros(len(numbers))
        # last round of a trajectory that a level has a row of
        self._seen = np.zeros(len(numbers), np.int64)

    def add(self, changes: list[Change]) -> None:
        """Let rows in, and others out."""
        for sign, rows, columns, places in changes:
            places = places[np.lexsort((rows.round[places], self._which[places]))]
            numbers, starts = np.unique(self._which[places], return_index=True)
            c, round = rows.intercept[places], rows.round[places]
            values = columns.rows(places) * c[:, None]
            self._sums[numbers] += sign * np.add.reduceat(values, starts, axis=0)
            self._sizes[numbers] += sign * np.add.reduceat(c**2, starts)
            latest = np.maximum.reduceat(round, starts)
            self._seen[numbers] = np.maximum(self._seen[numbers], latest)

    def changed(self, changes: list[Change], moments: Moments) -> LevelSums:
        """Let rows in, and others out, with these moments together; return what they change."""
        touched = np.unique(self._which[np.concatenate([places for *_, places in changes])])
        sums, sizes = self._sums[touched], self._sizes[touched]
        self.add(changes)
        n_lags = min(changes[0][1].n_lags, int(self._seen[touched].max()))
        n_lagged = n_lags * moments.dim
        columns = np.append(
            np.arange(n_lagged), np.arange(moments.n_covariates + 1) - moments.n_covariates - 1
        )
        after, counts = _shared_out(self._sums[touched][:, columns], self._sizes[touched])
        before, fewer = _shared_out(sums[:, columns], sizes)
        begun = (self._sizes[touched] > 0.5).astype(np.int64) - (sizes > 0.5)
        own, shape = moments.widened(n_lags).sums[:1], (n_lags, moments.dim, moments.groups)
        n_begun = int(begun[self._begins[touched]].sum())
        new = LevelSums(
            np.concatenate([own, after]), moments.n_rows, *shape, counts=counts, begun=n_begun
        )
        old = np.concatenate([np.zeros_like(own), before])
        return new - LevelSums(old, 0, *shape, counts=fewer, begun=0)


def _shared_out(sums: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the matrices S_j of some levels, (n_nodes, p, p), and their numbers, (n_nodes,)."""
    share = shares(sizes)
    out = np.zeros((share.shape[1], sums.shape[1], sums.shape[1]))
    for j, weight in enumerate(share.T):
        some = weight != 0.0
        each = sums[some]
        product = (each * (weight[some] / np.rint(sizes[some]))[:, None]).T @ each
        out[j] = (product + product.T) / 2
    return out, share.sum(axis=0)
