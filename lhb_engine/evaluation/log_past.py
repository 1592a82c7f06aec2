"""What a replay remembers of one trajectory of a log."""

import numpy as np

from lhb_engine.history import FitWindow, Floats, Ints, Measurements, Trajectory


class LogPast:
    """The rounds of a trajectory that fits, predictions and weights still need.

    Parameters
    ----------
    dim : int
    reach : int
        Largest lag that weights look back.
    n_covariates : int

    Attributes
    ----------
    n_rounds : int
        Rounds of the trajectory so far.
    first_kept : int
        Number of the first round that is still here.
    """

    def __init__(self, dim: int, reach: int, n_covariates: int = 0) -> None:
        self.n_rounds = 0
        self.first_kept = 1
        self._selected = [np.empty((0, dim))]
        self._rewards = [np.empty(0)]
        self._positions = [np.empty(0, dtype=np.int64)]
        self._told = [np.empty((0, n_covariates))]
        # of the rounds before the next one: nothing was chosen before the first, by any policy
        self._ratios: Floats = np.ones(reach)
        self._changes: Floats = np.zeros((reach, dim))

    def __len__(self) -> int:
        return sum(map(len, self._rewards))

    def add(
        self, selected: Floats, rewards: Floats, positions: Ints, covariates: Floats | None = None
    ) -> None:
        """Add the next rounds; positions are their numbers in the log."""
        if covariates is None:
            covariates = np.zeros((len(rewards), self._told[0].shape[1]))
        self._told.append(np.array(covariates, dtype=np.float64))
        self._selected.append(np.array(selected, dtype=np.float64))
        self._rewards.append(np.array(rewards, dtype=np.float64))
        self._positions.append(positions)
        self.n_rounds += len(rewards)

    def lagged(self, ratios: Floats, changes: Floats, lags: tuple[int, ...]) -> tuple[Floats, ...]:
        """Return what the next rounds' rewards hang on, and remember it for those after them.

        Parameters
        ----------
        ratios : (n,) array
            Of the rounds just added: the policy's probability of the arm over the log's.
        changes : (n, dim) array
            Of these rounds: the context that the policy expects to choose, less the chosen one.
        lags : tuple of int

        Returns
        -------
        ratios : (n, n_lags) array
            Of the rounds at each lag before.
        changes : (n, n_lags, dim) array
        """
        n, reach = len(ratios), len(self._ratios)
        all_ratios = np.concatenate([self._ratios, ratios])
        all_changes = np.concatenate([self._changes, changes])
        kept = len(all_ratios) - reach
        self._ratios, self._changes = all_ratios[kept:], all_changes[kept:]
        places = np.arange(reach, reach + n)[:, None] - np.array(lags, dtype=np.int64)[None, :]
        return all_ratios[places], all_changes[places]

    def tail(self, n: int) -> Floats:
        """Return the last n selected contexts, or all where there are fewer."""
        return _last(self._selected, n)

    def told(self, n: int) -> Floats:
        """Return the covariates of the last n rounds."""
        return _last(self._told, n)

    def trajectory(self) -> Trajectory:
        """Return the rounds that are still here, with their rewards."""
        self._join()
        places = np.flatnonzero(np.isfinite(self._rewards[0]))
        measured = Measurements.single(places + self.first_kept, self._rewards[0][places])
        place = self.first_kept, self._positions[0]
        covariates = self._told[0] if self._told[0].shape[1] else None
        return Trajectory(self._selected[0], measured, *place, covariates=covariates)

    def forget(self, window: FitWindow | None, horizon: int) -> None:
        """Drop what neither the next fit nor a prediction needs."""
        self._join()
        cut = len(self) - horizon
        if window is not None:
            inside = int(np.searchsorted(self._positions[0], window.first))
            cut = min(cut, inside - (window.n_lags - 1))
        if cut > 0:
            self._selected = [self._selected[0][cut:].copy()]
            self._rewards = [self._rewards[0][cut:].copy()]
            self._positions = [self._positions[0][cut:].copy()]
            self._told = [self._told[0][cut:].copy()]
            self.first_kept += cut

    def _join(self) -> None:
        if len(self._rewards) > 1:
            self._selected = [np.concatenate(self._selected)]
            self._rewards = [np.concatenate(self._rewards)]
            self._positions = [np.concatenate(self._positions)]
            self._told = [np.concatenate(self._told)]


def _last(parts: list[Floats], n: int) -> Floats:
    """Return the last n rows of some arrays, one after the other."""
    rows: list[Floats] = []
    for part in reversed(parts):
        rows.insert(0, part)
        if sum(map(len, rows)) >= n:
            break
    joined = np.concatenate(rows)
    return joined[max(0, len(joined) - n) :]
