"""Regret against the position of a single delay (q(w) of the first regret theorem)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.plot_style import band
from clients.experiments.framework.regret_runs import Contender, play
from clients.experiments.framework.slopes import slope_by_seed
from clients.experiments.framework.table import Row, Table, mean_of, paired
from clients.experiments.framework.worlds import world
from clients.simulator import Player, SimulationSettings
from lhb_engine.simulation.environment import LongHorizonEnvironment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTENDERS = {
    "doubling_lasso, L=8": Contender("doubling_lasso", {"L": 8}),
    "oracle_w": Contender("oracle_w", {"L": 8}),
    "uniform": Contender("uniform"),
}
AGENT = "doubling_lasso, L=8"


@dataclass(frozen=True)
class DelayedSettings(SimulationSettings):
    """Worlds whose one nonzero lag weight is at `delay`."""

    delay: int = 0

    def world(self, seed: int) -> LongHorizonEnvironment:
        """The drawn world with its one lag moved."""
        drawn = super().world(seed)
        weights = np.zeros(self.horizon)
        weights[self.delay] = 1.0
        return LongHorizonEnvironment(
            drawn.theta, weights, n_arms=self.arms, noise=self.noise, seed=seed
        )


def delays(scale: Scale) -> tuple[int, ...]:
    """Positions of the delay, from the first lag to the last."""
    return (0, 10, 59) if scale.toy else (0, 10, 30, 60, 100, 200, 300, 500, 999)


def settings_at(delay: int, scale: Scale) -> DelayedSettings:
    """The data-poor regime with one delay."""
    rounds, horizon = (59, 60) if scale.toy else (999, 1000)
    settings = world(scale, rounds, horizon, "single", 1)
    return DelayedSettings(**vars(settings), delay=delay)


def cases(scale: Scale) -> list[Case]:
    """Every delay."""
    return [
        {"delay": delay, "label": label, "seed": seed}
        for delay in delays(scale)
        for label in CONTENDERS
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """The final regret of one run."""
    settings = settings_at(case["delay"], scale)
    return play(CONTENDERS[case["label"]], settings, case["seed"], player)[-1:]


def draw(table: Table, figure: "Figure") -> None:
    """Final regret against the delay."""
    axes = figure.subplots()
    for place, (label, rows) in enumerate(table.by("label")):
        band(axes, rows, "delay", "regret", label, place)
    axes.set(xlabel="lag of the one nonzero weight", ylabel="final regret", ylim=(0, None))
    axes.legend()


def judge(table: Table) -> list[Claim]:
    """Linear in the delay, and nothing learned at the last lag."""
    mine = table.where(label=AGENT)
    positive = Table(row for row in mine if row["delay"] > 0)
    slope = mean_of(slope_by_seed(positive, "delay", "regret"))
    uniform = table.where(label="uniform")
    last = max(table.column("delay"))
    short = paired(mine.where(delay=last), uniform.where(delay=last), "regret")
    return [
        Claim(
            "Regret is O(delay)",
            f"slope of log regret on log delay (at most 1 asked): {slope}",
            "holds" if slope.value <= 1 + 2 * slope.error else "does not hold here",
        ),
        Claim(
            "Regret is O(T), nothing can be learned, where the delay is h",
            f"uniform's regret less the agent's at lag {last:.0f}: {short}",
            "holds" if short.value <= 2 * short.error else "does not hold here",
        ),
    ]


EXPERIMENT = Experiment(
    name="delay",
    title="Regret against the position of a single delay",
    source="Theorem on the data-poor regime, q(w)",
    choices="h=1000, T=999, d=5, Doubling Lasso with L=8 (its first fit is at round 32)",
    cases=cases,
    run=run,
    draw=draw,
    judge=judge,
    figure_size=(6.0, 4.0),
)
