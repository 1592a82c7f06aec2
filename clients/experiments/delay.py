"""Regret against the position of a single delay (q(w) of the first regret theorem)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean, Statistic
from clients.experiments.framework.plot_style import band, log_ticks
from clients.experiments.framework.regret_runs import THEORY, Contender, play
from clients.experiments.framework.slopes import exponent
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import world
from clients.simulator import Player, SimulationSettings
from lhb_engine.simulation.environment import LongHorizonEnvironment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTENDERS = {
    "doubling_lasso": Contender("doubling_lasso", {"L": 8}),
    "doubling_lasso, paper's lambda": Contender("doubling_lasso", {"L": 8, **THEORY}),
    "oracle_w": Contender("oracle_w", {"schedule": "growing"}),
    "uniform": Contender("uniform"),
}
EARLY, LATE = "early delays, T = 4000", "late delays, T = 999"


@dataclass(frozen=True)
class DelayedSettings(SimulationSettings):
    """Worlds whose only nonzero lag weight is at lag `delay`."""

    delay: int = 0

    def world(self, seed: int) -> LongHorizonEnvironment:
        """Return the drawn world with its lag weight moved to `delay`."""
        drawn = super().world(seed)
        weights = np.zeros(self.horizon)
        weights[self.delay] = 1.0
        return LongHorizonEnvironment(
            drawn.theta, weights, n_arms=self.arms, noise=self.noise, seed=seed
        )


def worlds(scale: Scale) -> list[tuple[str, int, int]]:
    """List (panel, delay, rounds); the horizon is one lag longer than the rounds.

    Doubling Lasso fits a lag once an epoch's quarter is longer than it, after 8 to 16 times the
    delay. With an early delay that leaves rounds to learn; with a late one no such epoch ends in
    time, although rewards show the delay.
    """
    if scale.toy:
        return [(EARLY, 2, 60), (EARLY, 4, 60), (LATE, 30, 60)]
    early = [(EARLY, delay, 4000) for delay in (10, 20, 40, 80, 160)]
    return early + [(LATE, delay, 999) for delay in (300, 500)]


def settings_at(delay: int, rounds: int, scale: Scale) -> DelayedSettings:
    """Return a world with one delay and fewer rounds than lags."""
    settings = world(scale, rounds, rounds + 1, "single", 1)
    return DelayedSettings(**vars(settings), delay=delay)


def cases(scale: Scale) -> list[Case]:
    """List every delay and contender."""
    return [
        {"panel": panel, "delay": delay, "rounds": rounds, "label": label, "seed": seed}
        for panel, delay, rounds in worlds(scale)
        for label in CONTENDERS
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its final regret."""
    settings = settings_at(case["delay"], case["rounds"], scale)
    return play(CONTENDERS[case["label"]], settings, case["seed"], player)[-1:]


def draw(table: Table, figure: "Figure") -> None:
    """Draw the final regret against the delay, log axes on the left."""
    for axes, panel in zip(figure.subplots(1, 2), (EARLY, LATE), strict=True):
        for place, (label, rows) in enumerate(table.where(panel=panel).by("label")):
            band(axes, rows, "delay", "regret", label, place)
        axes.set(xlabel="lag of the one nonzero weight", ylabel="final regret", title=panel)
    early, late = figure.axes
    early.set(yscale="log")
    log_ticks(early, table.where(panel=EARLY).column("delay").tolist())
    late.set(ylim=(0, None))
    early.legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, Statistic]:
    """Return the exponent in the delay, or regret with late delays against uniform play."""
    if rule.name.startswith("growth"):
        early = table.where(label=rule.agent, panel=EARLY)
        return {"delays 10 to 160, T = 4000": exponent(early, "delay", "regret")} if early else {}
    out: dict[str, Statistic] = {}
    late = table.where(panel=LATE)
    for setting in rule.settings:
        here = late.where(delay=int(setting.removeprefix("delay ")))
        one, other = here.where(label=rule.agent), here.where(label="uniform")
        if len(one):
            a, b = one.by_seed("regret"), other.by_seed("regret")
            out[setting] = SeedMean(np.array([a[seed] / b[seed] for seed in a]))
    return out


EXPERIMENT = Experiment(
    name="delay",
    title="Regret against the position of a single delay",
    source="Theorem on the data-poor regime, q(w)",
    choices="d=5, T=4000 and T=999, h = T + 1; Doubling Lasso with L=8, whose epochs end at rounds "
    "32, 96, 224, 480, 992, 2016",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    figure_size=(9.0, 3.6),
)
