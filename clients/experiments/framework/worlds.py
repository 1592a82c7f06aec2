"""The settings of the regret experiments' worlds, at full and at toy size."""

from collections.abc import Mapping, Sequence

from clients.experiments.framework.experiment import Case, Scale
from clients.simulator import SimulationSettings

DIM = 5


def world(
    scale: Scale, rounds: int, horizon: int, weights: str, sparsity: int
) -> SimulationSettings:
    """Return the settings of a world with d = 5 and the scale's noise and number of arms."""
    return SimulationSettings(
        algorithms=(),
        rounds=rounds,
        horizon=horizon,
        dim=DIM,
        arms=scale.arms,
        noise=scale.noise,
        weights=weights,
        sparsity=sparsity,
    )


def data_rich(scale: Scale, weights: str, sparsity: int) -> SimulationSettings:
    """Return a world with more rounds than lags: T = 2000, h = 100."""
    rounds, horizon = (60, 12) if scale.toy else (2000, 100)
    return world(scale, rounds, horizon, weights, sparsity)


def data_poor(scale: Scale, weights: str) -> SimulationSettings:
    """Return a world with fewer rounds than lags: T = 999, h = 1000, s = 10."""
    rounds, horizon, sparsity = (60, 61, 4) if scale.toy else (999, 1000, 10)
    return world(scale, rounds, horizon, weights, sparsity)


def one_at_a_time(scale: Scale, varied: Mapping[str, Sequence[float]]) -> list[Case]:
    """List the cases that vary one quantity at a time, on every seed.

    Parameters
    ----------
    scale : Scale
    varied : mapping of str to sequence of float
        The values of each quantity. All others keep the experiment's base values.
    """
    return [
        {"varied": name, "value": value, "seed": seed}
        for name, values in varied.items()
        for value in values
        for seed in range(scale.seeds)
    ]
