"""What is known of a round whatever is chosen, from its number alone: seasons and a trend."""

from dataclasses import dataclass, replace

import numpy as np

from lhb_engine.history import Floats, History

MOST_HARMONICS = 50


@dataclass(frozen=True)
class Seasonality:
    """A season as a sum of sines and cosines.

    Parameters
    ----------
    period : float
        Length of the season in rounds, above 1.
    harmonics : int
        Harmonic j repeats j times within the period; from 1 to half the period, and at most 50.

    Raises
    ------
    ValueError
        The period or the number of harmonics is out of range.
    """

    period: float
    harmonics: int = 1

    def __post_init__(self) -> None:
        period, n = self.period, self.harmonics
        if isinstance(period, bool) or not isinstance(period, int | float) or not 2 <= period < 1e9:
            raise ValueError("a season's period is a number of rounds, at least 2")
        if type(n) is not int or not 1 <= n <= min(period / 2, MOST_HARMONICS):
            raise ValueError(
                f"a season has from 1 to period / 2 harmonics, {MOST_HARMONICS} at most"
            )

    def columns(self, rounds: Floats) -> Floats:
        """Return sine and cosine of each harmonic, (n_rounds, 2 * harmonics)."""
        j = np.arange(1, self.harmonics + 1)
        angles = 2.0 * np.pi * j * (rounds[:, None] % self.period) / self.period
        both = np.stack([np.sin(angles), np.cos(angles)], axis=2)
        return both.reshape(len(rounds), -1)


@dataclass(frozen=True)
class TimeCovariates:
    """Covariates that follow from the number of a round.

    Parameters
    ----------
    seasonality : tuple of Seasonality
    trend : bool
        Whether rewards may grow or fall by a constant amount a round.
    """

    seasonality: tuple[Seasonality, ...] = ()
    trend: bool = False

    @property
    def groups(self) -> tuple[int, ...]:
        """Numbers of columns of the groups that matter together or not at all."""
        seasons = sum(season.harmonics for season in self.seasonality)
        return (2,) * seasons + (1,) * self.trend

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each group."""
        seasons = (
            f"season {season.period:g}, harmonic {j}"
            for season in self.seasonality
            for j in range(1, season.harmonics + 1)
        )
        return (*seasons, *(("trend",) if self.trend else ()))

    def columns(self, rounds: Floats) -> Floats:
        """Return the covariates of rounds by their numbers, (n_rounds,) -> (n_rounds, n)."""
        seasons = [season.columns(rounds) for season in self.seasonality]
        trend = [rounds[:, None]] if self.trend else []
        return np.concatenate([np.zeros((len(rounds), 0)), *seasons, *trend], axis=1)

    def told(self, history: History) -> History:
        """Return a history with these covariates after those that it has."""
        if not self.groups:
            return history
        parts = {}
        for key, part in history.trajectories.items():
            rounds = part.first_round + np.arange(len(part.contexts), dtype=np.float64)
            given = [] if part.covariates is None else [part.covariates]
            beside = np.concatenate([*given, self.columns(rounds)], axis=1)
            parts[key] = replace(part, covariates=beside)
        return replace(history, trajectories=parts, groups=history.groups + self.groups)
