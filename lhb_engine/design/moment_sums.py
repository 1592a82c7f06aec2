"""Sums of moments over the rows of `AlignedRounds` (docs/model.md 10).

A row that follows another is multiplied out together with that other row: they share all lags but
the first and the last. Runs of consecutive single rounds need one row of blocks only. All other
blocks follow from it, since block (k + 1, l + 1) sums over the rounds of block (k, l), each one
round earlier: docs/model.md (10.4). Other rows are multiplied out in full.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.lagged_design import LEAST_RUN, LaggedDesign
from lhb_engine.design.moments import Moments, RowMoments
from lhb_engine.history import Floats, Ints

_NONE = np.zeros(0, np.int64)
AT_ONCE = 2**21  # floats of rows that are multiplied out at a time


def session_moments(rows: AlignedRounds, places: Ints | None = None) -> Moments:
    """Add up the moments of rows, all or those at some places, in order of arrival.

    A grain is so many measurements with consecutive positions, from the first one on. Each grain is
    summed for itself, and the sums are added in order. So the bits depend on the rows alone, not on
    who added which of them, or when. A pair counts if the later of its two measurements is among
    them.
    """
    total = None
    for _, part in grains(rows, places):
        total = part if total is None else total + part
    if total is None:
        return Moments.zero(rows.n_lags, rows.contexts.shape[1], rows.groups)
    return total.widened(rows.n_lags)


def grains(rows: AlignedRounds, places: Ints | None = None) -> Iterator[tuple[int, Moments]]:
    """Yield the number of each grain that has rows, and their moments at the lags they see."""
    chosen = rows.number > 0
    if places is not None:
        chosen = np.zeros(len(chosen), bool)
        chosen[places] = True
    columns = Columns.of(rows)
    later, counted = _pairs(rows)
    later, counted = later[chosen[counted]], counted[chosen[counted]]
    own, pairs = np.flatnonzero(chosen), by_grain(rows, counted)
    for grain, here in by_grain(rows, own).items():
        yield grain, _moments(rows, columns, own[here], later[pairs.get(grain, _NONE)])


def by_grain(rows: AlignedRounds, places: Ints) -> dict[int, Ints]:
    """Return the indices of those places that belong to each grain, in ascending order."""
    grain = (rows.position[places] - 1) // rows.grain
    order = np.argsort(grain, kind="stable")
    numbers, starts = np.unique(grain[order], return_index=True)
    stops = np.append(starts[1:], len(order))
    return {g: order[a:b] for g, a, b in zip(numbers.tolist(), starts, stops, strict=False)}


def moments_of(rows: AlignedRounds, places: Ints, *, either: bool = False) -> Moments:
    """Return the moments of some rows in one sum, at the lags that these see.

    Pairs are those that `session_moments` counts, and the other row of a pair need not be chosen.
    Or they are all pairs of which `either` row is one of these.
    """
    later, counted = _pairs(rows)
    is_in = np.isin(counted, places)
    if either:
        is_in = np.isin(later, places) | np.isin(rows.before[later], places)
    return _moments(rows, Columns.of(rows), places, later[is_in])


def _pairs(rows: AlignedRounds) -> tuple[Ints, Ints]:
    """Return the later row of each pair, and that of its two rows which was measured later."""
    later = rows.followers()
    before = rows.before[later]
    return later, np.where(rows.position[before] > rows.position[later], before, later)


class Columns(NamedTuple):
    """What rows are multiplied out from, at every place; made once for all partial sums.

    `padded` (n_lags + n_places, dim) are contexts after zeros, `values` covariates and y.
    """

    padded: Floats
    values: Floats

    @classmethod
    def of(cls, rows: AlignedRounds) -> "Columns":
        """Return the columns of some rows."""
        zeros = np.zeros((rows.n_lags, rows.contexts.shape[1]))
        return cls(np.concatenate([zeros, rows.contexts]), np.column_stack([rows.beside, rows.y]))

    def rows(self, places: Ints) -> Floats:
        """Return the rows [X, Z, y] at some places, (n_chosen, p)."""
        lagged = _lagged(self.padded, places, len(self.padded) - len(self.values))
        return np.concatenate([lagged, self.values[places]], axis=1)


def _moments(rows: AlignedRounds, columns: Columns, places: Ints, pairs: Ints) -> Moments:
    """Return the moments of the rows at `places`, and of pairs by the places of their later rows.

    The moments are at the lags that these rows see, which do not depend on what else was read.
    """
    seen = max(int(rows.round[places].max(initial=1)), int(rows.round[pairs].max(initial=1)))
    n_lags, dim = min(rows.n_lags, seen), rows.contexts.shape[1]
    padded, values = columns.padded[rows.n_lags - n_lags :], columns.values
    places, is_own = np.sort(places), np.isin(pairs, places)
    sums = Moments.zero(n_lags, dim, rows.groups).sums
    span = pairs - rows.before[pairs]
    for size in np.unique(span).tolist():
        for own in (True, False):
            later = pairs[(span == size) & (is_own == own)]
            if len(later):
                now, last, both = _followers(padded, values, later, n_lags, size)
                sums[0] += now if own else 0.0
                sums[1] += both + both.T
                sums[2] += now + last
    alone = np.setdiff1d(places, pairs)
    if len(alone):
        alone = alone[np.argsort(rows.position[alone], kind="stable")]
        lags = np.arange(n_lags)
        sums[0] += _multiplied(padded, [values], [alone], alone, n_lags, lags)
    return Moments(sums, len(places), n_lags, dim, rows.groups, n_pairs=len(pairs))


def _followers(
    padded: Floats, values: Floats, later: Ints, n_lags: int, span: int
) -> tuple[Floats, Floats, Floats]:
    """Return the sums of r_t r_t', of r_{t-1} r_{t-1}' and of r_t r_{t-1}'.

    Rows t are at places `later`, rows t - 1 `span` places before. The lags of a row t - 1 are those
    of row t, `span` lags later.
    """
    dim, n_values = padded.shape[1], values.shape[1]
    lags = np.append(np.arange(n_lags), np.arange(max(span, n_lags), span + n_lags))
    n_runs = 1 + int(np.count_nonzero(np.diff(later) != 1))
    if span == 1 and n_runs * LEAST_RUN <= len(later):
        products = _of_runs(padded, values, later, n_lags)
    else:
        products = _multiplied(padded, [values, values], [later, later - span], later, n_lags, lags)
    columns = np.arange(len(lags) * dim).reshape(len(lags), dim)
    end = len(lags) * dim
    now = np.append(columns[:n_lags], end + np.arange(n_values))
    last = np.append(columns[np.searchsorted(lags, span) :], end + n_values + np.arange(n_values))
    return (products[np.ix_(now, now)], products[np.ix_(last, last)], products[np.ix_(now, last)])


def _multiplied(
    padded: Floats, values: list[Floats], at: list[Ints], places: Ints, n_lags: int, lags: Ints
) -> Floats:
    """Return R'R of the rows R = [contexts at `lags`, values at `at`], multiplied out in parts."""
    width = len(lags) * padded.shape[1] + sum(v.shape[1] for v in values)
    total = np.zeros((width, width))
    step = max(1, AT_ONCE // width)
    for start in range(0, len(places), step):
        part = slice(start, start + step)
        index = places[part, None] + n_lags - lags
        lagged = padded.take(index, axis=0, mode="clip")  # zeros before the first place
        beside = [v[a[part]] for v, a in zip(values, at, strict=True)]
        rows = np.concatenate([lagged.reshape(len(index), -1), *beside], axis=1)
        total += rows.T @ rows
    return total


def _of_runs(padded: Floats, values: Floats, later: Ints, n_lags: int) -> Floats:
    """Return what `_multiplied` does, for lags 0 to n_lags of runs of consecutive places."""
    dim, n_values, m = padded.shape[1], values.shape[1], (n_lags + 1) * padded.shape[1]
    left = np.concatenate([padded[later + n_lags], values[later], values[later - 1]], axis=1)
    first = np.empty((n_lags + 1, left.shape[1], dim))
    for lag in range(n_lags + 1):
        np.matmul(left.T, padded[later + (n_lags - lag)], out=first[lag])
    breaks = np.flatnonzero(np.diff(later) != 1)
    entering = _lagged(padded, later[np.concatenate([[0], breaks + 1])] - 1, n_lags)
    leaving = _lagged(padded, later[np.append(breaks, len(later) - 1)], n_lags)
    change = entering.T @ entering - leaving.T @ leaving
    out = np.empty((m + 2 * n_values, m + 2 * n_values))
    out[:dim, :m] = first[:, :dim].transpose(1, 0, 2).reshape(dim, m)
    out[:dim, :dim] = left[:, :dim].T @ left[:, :dim]
    for k in range(0, m, dim):
        here, there = slice(k, k + dim), slice(k + dim, m)
        out[there, here] = out[here, there].T
        if k + dim < m:
            np.add(out[here, k : m - dim], change[here, k:], out=out[k + dim : k + 2 * dim, there])
    out[m:, :m] = first[:, dim:].transpose(1, 0, 2).reshape(-1, m)
    out[:m, m:] = out[m:, :m].T
    out[m:, m:] = left[:, dim:].T @ left[:, dim:]
    return out


def _lagged(padded: Floats, places: Ints, n_lags: int) -> Floats:
    """Return the lagged contexts at some places, (n, n_lags * dim)."""
    index = places[:, None] + n_lags - np.arange(n_lags)
    return np.asarray(padded[index].reshape(len(places), n_lags * padded.shape[1]))


def design_moments(design: LaggedDesign, y: Floats, covariates: Floats) -> RowMoments:
    """Return the moments of any rows of a lagged design, differences of measurements included."""
    values = np.concatenate([covariates, y[:, None]], axis=1)
    n_lagged = design.n_lags * design.dim
    out = np.zeros((n_lagged + values.shape[1], n_lagged + values.shape[1]))
    gram = design.gram()
    if gram is None:
        every, step = np.arange(design.n_lags), max(1, AT_ONCE // len(out))
        for start in range(0, design.n_rows, step):
            part = np.arange(start, min(start + step, design.n_rows))
            lagged = design.select(part).blocks(every).reshape(len(part), n_lagged)
            rows = np.concatenate([lagged, values[part]], axis=1)
            out += rows.T @ rows
    else:
        upper = np.triu(gram)
        out[:n_lagged, :n_lagged] = upper + np.triu(gram, 1).T
        for i, value in enumerate(values.T, n_lagged):
            out[i, :n_lagged] = out[:n_lagged, i] = design.rmatvec(value).ravel()
        out[n_lagged:, n_lagged:] = values.T @ values
    return RowMoments(out, design.n_rows, design.n_lags, design.dim)
