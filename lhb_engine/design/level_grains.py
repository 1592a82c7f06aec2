"""Sums of levels, added grain by grain as moments are (docs/model.md 10).

A level's rows may be in several grains. A grain adds what its rows change in the sums of the levels
that they belong to.
"""

from collections.abc import Iterator

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.level_sums import LevelSums
from lhb_engine.design.moment_sums import Columns, by_grain, grains
from lhb_engine.design.moments import Moments
from lhb_engine.history import Floats, Ints


def shares(sizes: Floats) -> Floats:
    """Return the weights by which levels are shared out between nodes: docs/model.md (10.10).

    Parameters
    ----------
    sizes : (n_levels,) array
        Measured rounds of each; where there are none, all weights are 0.

    Returns
    -------
    (n_levels, n_nodes) array
        Column j is that of the node 2^j.
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


def level_grains(rows: AlignedRounds, places: Ints) -> Iterator[tuple[int, LevelSums]]:
    """Yield the number of each grain that has rows, and what it adds to the sums.

    Parameters
    ----------
    rows : AlignedRounds
        With all earlier rows of the levels of those at `places`.
    places : (n_chosen,) array
        Places of all rows of some grains, one after the other.
    """
    level, own = rows.level, np.flatnonzero(rows.number > 0)
    own = own[np.isin(level[own], level[places])]
    own = own[rows.position[own] <= rows.position[places].max(initial=0)]
    known = _Levels(rows, own, np.unique(level[own], return_inverse=True)[1].reshape(-1))
    wanted = grains(rows, places)
    following = next(wanted, None)
    for grain, here in by_grain(rows, own).items():
        if following is None or grain < following[0]:
            known.add(here)
        else:
            yield grain, known.change(here, following[1])
            following = next(wanted, None)


class _Levels:
    """The sums of levels, while rows are added in order of arrival."""

    def __init__(self, rows: AlignedRounds, own: Ints, which: Ints) -> None:
        self._rows, self._own, self._which = rows, own, which
        self._columns = Columns.of(rows)
        n = int(which.max(initial=-1)) + 1
        width = rows.n_lags * rows.contexts.shape[1] + self._columns.values.shape[1]
        self._sums, self._sizes = np.zeros((n, width)), np.zeros(n)
        self._seen = np.zeros(n, np.int64)  # last round of a trajectory that a level has a row of

    def add(self, here: Ints) -> tuple[Ints, Ints]:
        """Add rows; return their levels and, of each, the place of a row."""
        here = here[np.lexsort((self._rows.round[self._own[here]], self._which[here]))]
        places = self._own[here]
        numbers, starts = np.unique(self._which[here], return_index=True)
        c, round = self._rows.intercept[places], self._rows.round[places]
        values = self._columns.rows(places) * c[:, None]
        self._sums[numbers] += np.add.reduceat(values, starts, axis=0)
        self._sizes[numbers] += np.add.reduceat(c**2, starts)
        self._seen[numbers] = np.maximum(self._seen[numbers], np.maximum.reduceat(round, starts))
        return numbers, places[starts]

    def change(self, here: Ints, moments: Moments) -> LevelSums:
        """Add rows with these moments; return what they change."""
        touched = np.unique(self._which[here])
        sums, sizes = self._sums[touched], self._sizes[touched]
        numbers, places = self.add(here)
        n_lags = min(self._rows.n_lags, int(self._seen[numbers].max()))
        n_lagged = n_lags * moments.dim
        columns = np.append(
            np.arange(n_lagged), np.arange(moments.n_covariates + 1) - moments.n_covariates - 1
        )
        after, counts = _shared_out(self._sums[numbers][:, columns], self._sizes[numbers])
        before, fewer = _shared_out(sums[:, columns], sizes)
        after[: len(before)] -= before
        counts[: len(fewer)] -= fewer
        begun = int(np.count_nonzero((sizes == 0.0) & (self._rows.stretch[places] == 0)))
        own = moments.widened(n_lags)
        sums = np.concatenate([own.sums[:1], after])
        shape = own.n_rows, n_lags, own.dim, own.groups
        return LevelSums(sums, *shape, counts=counts, begun=begun)


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
