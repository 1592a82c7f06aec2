"""Rounds of a log, as they are read."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats, Ints

NO_ARM = -1  # of a round without action


@dataclass(frozen=True)
class Block:
    """Logged rounds in the order in which they were played.

    Attributes
    ----------
    selected : (n, dim) array
        Selected contexts; zero for a round without action.
    rewards : (n,) array
        NaN where missing.
    contexts : (n, K, dim) array or None
        Contexts of all arms; None where they were not logged.
    arms : (n,) array or None
        The arms taken; `NO_ARM` in a round without action.
    propensities : (n,) array or None
        The logging policy's probabilities of these arms; NaN where they are not known.
    trajectories : (n,) array of object or None
        Key of each round's trajectory; None: all are of the one without a key.
    covariates : (n, n_covariates) array or None
        What else moves the rewards; None: nothing is told.
    """

    selected: Floats
    rewards: Floats
    contexts: Floats | None = None
    arms: Ints | None = None
    propensities: Floats | None = None
    trajectories: np.ndarray | None = None
    covariates: Floats | None = None

    def __len__(self) -> int:
        return len(self.selected)

    def part(self, start: int, stop: int) -> "Block":
        """Return rounds start..stop-1."""
        return self.rows(slice(start, stop))

    def rows(self, which: slice | Ints) -> "Block":
        """Return some of the rounds."""
        optional = self.contexts, self.arms, self.propensities, self.trajectories, self.covariates
        return Block(
            self.selected[which],
            self.rewards[which],
            *(None if a is None else a[which] for a in optional),  # type: ignore[arg-type]
        )

    def by_trajectory(self) -> Iterator[tuple[str, Ints]]:
        """Yield each trajectory's key with its rows, in order of their first rounds here."""
        if self.trajectories is None:
            yield "", np.arange(len(self))
            return
        rows: dict[str, list[int]] = {}
        for i, key in enumerate(self.trajectories.tolist()):
            rows.setdefault(key, []).append(i)
        for key, places in rows.items():
            yield key, np.array(places)
