"""The squares of a combined design's entries, without its entries.

Rows that combine rounds in one pattern (all weekly totals, all differences) share one filtered
context series; the squares over a row's lags are a difference of its cumulative sums.
"""

import numpy as np
from scipy import sparse

from lhb_engine.history import Floats, Ints


def combined_square_sum(
    combine: sparse.csr_array, contexts: Floats, rounds: Ints, places: Ints, n_lags: int
) -> float:
    """Sum of squares of all entries of M T.

    Parameters
    ----------
    combine : (n_rows, len(rounds)) sparse array
        M, on the rounds it uses.
    contexts : (n_rounds, dim) array
    rounds : array
        The used rounds.
    places : (n_rounds,) array
        Every round's place in its trajectory, from 0.
    n_lags : int
    """
    total = 0.0
    sizes = np.diff(combine.indptr)
    for size in np.unique(sizes[sizes > 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        inside = combine.indptr[rows][:, None] + np.arange(size)
        used, weights = rounds[combine.indices[inside]], combine.data[inside]
        last = used.max(axis=1)
        delays = last[:, None] - used
        own = places[last] >= delays.max(axis=1)  # the others have rounds of several trajectories
        for row in np.flatnonzero(~own):
            total += _squares(contexts, places, used[row], weights[row], n_lags)
        for group in _alike(np.concatenate([delays, weights], axis=1), np.flatnonzero(own)):
            found, delay, weight = last[group], delays[group[0]], weights[group[0]]
            if len(found) * n_lags < len(contexts):
                for at in found:
                    total += _squares(contexts, places, at - delay, weight, n_lags)
            else:
                squares = _filtered_squares(contexts, places, delay, weight)
                reach = np.minimum(n_lags, places[found] + 1)
                total += float((squares[found + 1] - squares[found + 1 - reach]).sum())
    return total


def _alike(pattern: Floats, rows: Ints) -> list[Ints]:
    """`rows` split into groups of one pattern each."""
    order = rows[np.lexsort(pattern[rows].T)]
    changes = (pattern[order[1:]] != pattern[order[:-1]]).any(axis=1)
    return np.split(order, np.flatnonzero(changes) + 1) if len(order) else []


def _squares(contexts: Floats, places: Ints, used: Ints, weights: Floats, n_lags: int) -> float:
    """Sum of squares of one row's entries, by its definition."""
    row = np.zeros((n_lags, contexts.shape[1]))
    for t, weight in zip(used.tolist(), weights.tolist(), strict=True):
        reach = min(n_lags, int(places[t]) + 1)
        row[:reach] += weight * contexts[t - reach + 1 : t + 1][::-1]
    return float((row**2).sum())


def _filtered_squares(contexts: Floats, places: Ints, delays: Ints, weights: Floats) -> Floats:
    """(n_rounds + 1,) cumulative squares of sum_j weights[j] xi_(t - delays[j])."""
    filtered = np.zeros_like(contexts)
    for delay, weight in zip(delays.tolist(), weights.tolist(), strict=True):
        reached = weight * (places[delay:] >= delay)
        filtered[delay:] += reached[:, None] * contexts[: len(contexts) - delay]
    return np.concatenate([[0.0], np.cumsum(np.einsum("td,td->t", filtered, filtered))])
