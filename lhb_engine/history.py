"""What has happened: selected contexts and measurements, a trajectory at a time.

A `History` is immutable and holds views of arrays that its owner may go on appending to.
`History.over(window)` keeps what one fit needs: the window's measurements, and the contexts of
its rounds with the lags before them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FitWindow:
    """Which rounds a fit uses and when it is due. Rounds are counted over the whole session.

    Parameters
    ----------
    epoch : int
        Number of the epoch that ends with this fit, from 1.
    first, last : int
        First and last round whose measurements are rows.
    n_lags : int
        How many lags are fitted.
    due : int
        The round after which the fit happens (the epoch's last).
    """

    epoch: int
    first: int
    last: int
    n_lags: int
    due: int


@dataclass(frozen=True)
class Measurements:
    """Values over spans of rounds: `value[i]` is the sum of the rewards of `first[i]..last[i]`.

    An ordinary reward has first == last; a missing reward has no entry. Sorted by `first`.
    """

    first: Ints
    last: Ints
    value: Floats

    @classmethod
    def single(cls, rounds: Ints, value: Floats) -> "Measurements":
        """Measurements of one round each."""
        return cls(rounds, rounds, value)

    def __len__(self) -> int:
        return len(self.value)

    def between(self, first: int, last: int) -> "Measurements":
        """Those whose whole span lies within rounds first..last."""
        keep = (self.first >= first) & (self.last <= last)
        return Measurements(self.first[keep], self.last[keep], self.value[keep])


@dataclass(frozen=True)
class Trajectory:
    """Consecutive rounds of one trajectory.

    Parameters
    ----------
    contexts : (n_rounds, dim) array
        Selected contexts; row i belongs to round `first_round + i`; a round without action is 0.
    measurements : Measurements
        Numbered in the trajectory's own rounds.
    first_round : int
        Number of the first row, from 1.
    positions : (n_rounds,) array, optional
        Each round's number in the session as a whole; by default the round's own number.
    """

    contexts: Floats
    measurements: Measurements
    first_round: int = 1
    positions: Ints | None = None

    @property
    def numbering(self) -> Ints:
        """(n_rounds,) each round's number in the session as a whole."""
        if self.positions is not None:
            return self.positions
        return np.arange(self.first_round, self.first_round + len(self.contexts))

    @property
    def last_round(self) -> int:
        """Number of the last round held."""
        return self.first_round + len(self.contexts) - 1

    def over(self, window: FitWindow) -> "Trajectory | None":
        """The part that a fit over `window` needs, or None where no round falls in it."""
        numbering = self.numbering
        inside = (numbering >= window.first) & (numbering <= window.last)
        if not inside.any():
            return None
        rows = np.flatnonzero(inside)
        start, stop = max(0, int(rows[0]) - (window.n_lags - 1)), int(rows[-1]) + 1
        return Trajectory(
            contexts=np.ascontiguousarray(self.contexts[start:stop], dtype=np.float64),
            measurements=self.measurements.between(
                self.first_round + int(rows[0]), self.first_round + stop - 1
            ),
            first_round=self.first_round + start,
            positions=numbering[start:stop],
        )


@dataclass(frozen=True)
class History:
    """All trajectories of a session, or the part of them that one fit uses.

    Lags never reach across two trajectories; the schedule counts their rounds together.
    """

    dim: int
    trajectories: Mapping[str, Trajectory]
    window: FitWindow | None = None

    def over(self, window: FitWindow) -> "History":
        """What a fit over `window` needs, in fresh C-ordered arrays."""
        parts = {key: part.over(window) for key, part in self.trajectories.items()}
        return replace(
            self,
            trajectories={key: part for key, part in parts.items() if part is not None},
            window=window,
        )
