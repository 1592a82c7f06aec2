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
    groups: dict[bytes, tuple[Ints, Floats, list[int]]] = {}
    total = 0.0
    for row in range(combine.shape[0]):
        inside = slice(combine.indptr[row], combine.indptr[row + 1])
        used, weights = rounds[combine.indices[inside]], combine.data[inside]
        if len(used) == 0:
            continue
        last = int(used.max())
        delays = last - used
        if int(places[last]) - int(delays.max()) < 0:  # rounds of several trajectories
            total += _squares(contexts, places, used, weights, n_lags)
            continue
        key = delays.tobytes() + weights.tobytes()
        groups.setdefault(key, (delays, weights, []))[2].append(last)
    for delays, weights, found in groups.values():
        if len(found) * n_lags < len(contexts):
            for last in found:
                total += _squares(contexts, places, last - delays, weights, n_lags)
        else:
            squares = _filtered_squares(contexts, places, delays, weights)
            stop = np.array(found) + 1
            reach = np.minimum(n_lags, places[found] + 1)
            total += float((squares[stop] - squares[stop - reach]).sum())
    return total


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
        reached = np.flatnonzero(places >= delay)
        filtered[reached] += weight * contexts[reached - delay]
    return np.concatenate([[0.0], np.cumsum((filtered**2).sum(axis=1))])
