"""The runs of the regret experiments: the agents with their options, and regret curves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clients.experiments.framework.experiment import Case, Scale
from clients.experiments.framework.table import Row
from clients.simulator import Player, SimulationSettings

N_POINTS = 40  # points of a regret curve in the CSV


@dataclass(frozen=True)
class Contender:
    """An algorithm with options, under the name that figures give it.

    `options` is a dict, or a function of the world's settings where the agent is told the truth.
    """

    algorithm: str
    options: Mapping[str, Any] | Callable[[SimulationSettings], Mapping[str, Any]] = field(
        default_factory=dict
    )

    def told(self, settings: SimulationSettings) -> dict[str, Any]:
        """Return the options for a world with these settings."""
        options = self.options(settings) if callable(self.options) else self.options
        return dict(options)


def sparsity_of(settings: SimulationSettings) -> int:
    """Return the true number of nonzero lag weights."""
    return 1 if settings.weights == "single" else settings.sparsity


# All were tuned alike, on the worlds and seeds of `tuning`: options that none of the others tried
# beats there by more than the noise. SA-GD is told the true s, as in the
# paper, and runs until it has converged.
BEST_C = 0.003
CONVERGED = {"tol": 1e-6, "n_steps": 20_000}
THEORY = {"reg": "theory", "c": BEST_C}
PAPER = "ad_lasso, paper's lambda"
CONTENDERS: dict[str, Contender] = {
    "ad_lasso": Contender("ad_lasso"),
    PAPER: Contender("ad_lasso", THEORY),
    "sa_gd": Contender("sa_gd", lambda world: {"s": sparsity_of(world), **CONVERGED}),
    "sa_gd, 10 steps": Contender(
        "sa_gd", lambda world: {"s": sparsity_of(world), "tol": 0.0, "n_steps": 10}
    ),
    "sw_mp": Contender("sw_mp"),
    "ucb_mp": Contender("ucb_mp"),
    "oracle_w": Contender("oracle_w"),
    "uniform": Contender("uniform"),
}


def play(
    contender: Contender,
    settings: SimulationSettings,
    seed: int,
    player: Player,
    rounds: Sequence[int] | None = None,
) -> list[Row]:
    """Return the regret curve of one run, a row a point: at `rounds`, or at 40 even steps."""
    settings = _for(contender, settings)
    run = player(settings, contender.algorithm, seed, lambda n: None)
    at = rounds or np.unique(np.linspace(1, settings.rounds, N_POINTS).round().astype(int))
    learned = sum(estimate.status == "ok" for estimate in run.estimates)
    zero = sum(estimate.status == "zero" for estimate in run.estimates)
    return [
        {"round": int(t), "regret": float(run.regret[t - 1]), "n_ok": learned, "n_zero": zero}
        for t in at
    ]


def _for(contender: Contender, settings: SimulationSettings) -> SimulationSettings:
    options = {contender.algorithm: contender.told(settings)}
    return replace(settings, algorithms=(contender.algorithm,), options=options)


def cases_of(panel_names: Sequence[str], labels: Sequence[str], scale: Scale) -> list[Case]:
    """Return a case for every contender, panel and seed."""
    return [
        {"panel": panel, "label": label, "seed": seed}
        for panel in panel_names
        for label in labels
        for seed in range(scale.seeds)
    ]
