"""What moves the reward of a round whatever is chosen: values, time, and shared contexts."""

from dataclasses import dataclass, replace

import numpy as np

from lhb_engine.history import BeforeVoids, Floats, History, Parts

MOST_HARMONICS = 50
MOST_NAMES = 32
KNOWN = np.ones(1).tobytes()  # before a mean, as `with_means` adds it
LARGEST = 1e100  # of a mean that is taken into account: its square has to be a number
SHARED = "what all arms share"


@dataclass(frozen=True)
class Seasonality:
    """A season as a sum of sines and cosines.

    The period, above 1, is in rounds. Harmonic j repeats j times within the period; there are from
    1 to half the period of them, and at most 50. Raises ValueError if either is out of range.
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


def with_means(selected: Floats, contexts: Floats) -> Floats:
    """Return selected contexts, each followed by 1 and its round's mean context.

    Shapes are (n, dim), (n, K, dim) -> (n, 2 dim + 1), or without n. Of one arm alone, as in a log
    of chosen arms, the mean is not known: 0 in place of the 1 and the mean.
    """
    n_arms = contexts.shape[-2]
    has_mean = np.full((*selected.shape[:-1], 1), float(n_arms > 1))
    means = np.add.reduce(contexts, axis=-2) / n_arms * has_mean
    return np.concatenate([selected, has_mean, means], axis=-1)


@dataclass(frozen=True)
class Covariates:
    """Covariates that come with a round, by name, and those that follow from its number.

    A name is a group. With a `trend` rewards may grow or fall by a constant amount a round. With
    `means`, the number of features, the last group is the mean context of a round's arms, after
    a 1 where that is known.
    """

    seasonality: tuple[Seasonality, ...] = ()
    trend: bool = False
    names: tuple[str, ...] = ()
    means: int = 0

    @property
    def groups(self) -> tuple[int, ...]:
        """Numbers of columns of the groups that matter together or not at all."""
        return (1,) * len(self.names) + self.time_groups

    @property
    def n_means(self) -> int:
        """How many numbers `with_means` adds: the size of the last group."""
        return 1 + self.means if self.means else 0

    @property
    def time_groups(self) -> tuple[int, ...]:
        """The sizes of the groups of columns that time gives, which come after the named ones."""
        seasons = sum(season.harmonics for season in self.seasonality)
        return (2,) * seasons + (1,) * self.trend + (self.n_means,) * (self.means > 0)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each group."""
        seasons = (
            f"season {season.period:g}, harmonic {j}"
            for season in self.seasonality
            for j in range(1, season.harmonics + 1)
        )
        shared = (SHARED,) * (self.means > 0)
        return (*self.names, *seasons, *(("trend",) if self.trend else ()), *shared)

    def columns(self, rounds: Floats) -> Floats:
        """Return what follows from the numbers of rounds, (n_rounds,) -> (n_rounds, n)."""
        seasons = [season.columns(rounds) for season in self.seasonality]
        trend = [rounds[:, None]] if self.trend else []
        return np.concatenate([np.zeros((len(rounds), 0)), *seasons, *trend], axis=1)

    def told(self, history: History) -> History:
        """Return a history with what follows from the number of a round after what it has.

        Where it has no covariates, named ones are 0. What `with_means` adds to contexts becomes the
        last covariates; where nothing is added these are 0. Raises ValueError if it has others.
        """
        if not self.groups:
            return history
        sizes = history.groups or (1,) * len(self.names)
        if self.names and sizes != (1,) * len(self.names):
            raise ValueError(f"the history has {len(sizes)} covariates, not {len(self.names)}")
        parts, n = Parts.of(history.trajectories), sum(sizes)
        named, measured = parts.covariates, parts.measurements
        named = np.zeros((len(parts.contexts), n)) if named is None else named
        of_time = self.columns(parts.rounds.astype(np.float64))

        def columns(contexts: Floats) -> Floats:
            means = np.zeros((len(named), self.n_means))
            if self.means and contexts.shape[1] > self.means:
                means = contexts[:, self.means :]
            means = np.where(np.abs(means) < LARGEST, means, 0.0)
            return np.concatenate([named, of_time, means], axis=1)

        before = parts.before_voids
        if before is not None:
            beside = columns(before.contexts)
            before = BeforeVoids(before.position, before.contexts[:, : self.means or None], beside)
        if measured.covariates is not None:  # what time tells of a span is the sum of its rounds'
            own = np.full((len(measured), sum(self.time_groups)), np.nan)
            beside = np.concatenate([measured.covariates, own], axis=1)
            measured = replace(measured, covariates=beside)
        told = replace(
            parts,
            contexts=parts.contexts[:, : self.means or None],
            covariates=columns(parts.contexts),
            measurements=measured,
            before_voids=before,
        )
        return replace(history, trajectories=told, groups=sizes + self.time_groups)
