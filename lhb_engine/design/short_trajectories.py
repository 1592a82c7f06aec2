"""Convolution of trajectories of a few rounds, by one matrix product instead of FFTs.

The product gives <xi_t, phi_k> for all rounds t and lags k; a row of T phi is the sum of one of
its diagonals. Up to 16 rounds this is less work than FFTs of twice the length.
"""

from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats, Ints


@dataclass(frozen=True)
class ShortTrajectories:
    """Short trajectories of about one length, with the two operations of a `Bank`.

    Parameters
    ----------
    contexts : (dim, n_places * n_trajectories) array
        All first rounds, then all second rounds, and so on; zero where a trajectory has ended.
    n_places, n_lags : int
        Rounds of the longest trajectory; number of lags that can reach them.
    rows, places : (n,) arrays
        Row `rows[i]` is computed at column `places[i]` of `contexts`.
    """

    contexts: Floats
    n_places: int
    n_lags: int
    rows: Ints
    places: Ints

    def convolve(self, phi: Floats, out: Floats) -> None:
        """Write T phi for these rounds' rows into (n_rows,) `out`."""
        each = (phi[: self.n_lags] @ self.contexts).reshape(self.n_lags, self.n_places, -1)
        sums = each[0]
        for lag in range(1, self.n_lags):
            sums[lag:] += each[lag, :-lag]
        out[self.rows] = sums.ravel()[self.places]

    def correlate(self, values: Floats, out: Floats) -> None:
        """Add these rounds' share of T' values to (n_lags, dim) `out`."""
        n = self.contexts.shape[1]
        n_trajectories = n // self.n_places
        signal = np.zeros(n)
        signal[self.places] = values[self.rows]
        for lag in range(self.n_lags):
            later = lag * n_trajectories
            out[lag] += self.contexts[:, : n - later] @ signal[later:]


def stack(
    contexts: Floats, parts: list[tuple[int, int]], row_of: Ints, n_lags: int
) -> ShortTrajectories:
    """Stack trajectories, each from its first round to its last row.

    Parameters
    ----------
    contexts : (dim, n_rounds) array
        All trajectories, one after the other.
    parts : list of (start, stop)
        First round in `contexts`, and number of rounds.
    row_of : (n_rounds,) array
        Row of each round; -1 where it has none.
    n_lags : int
    """
    start, stop = np.array(parts).T
    place = np.arange(stop.max())[:, None]
    index, inside = start + place, place < stop
    stacked = np.where(inside, contexts.take(index, axis=1, mode="clip"), 0.0)
    row = np.where(inside, row_of.take(index, mode="clip"), -1).ravel()
    places = np.flatnonzero(row >= 0)
    n_places = len(place)
    return ShortTrajectories(
        stacked.reshape(len(contexts), -1), n_places, min(n_lags, n_places), row[places], places
    )
