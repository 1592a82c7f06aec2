"""Lag weights whose sum is not 1, with noise in proportion to the sum and with fixed noise."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks
from clients.experiments.framework.regret_runs import CONTENDERS as ALL
from clients.experiments.framework.regret_runs import PAPER, Contender, play
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player, SimulationSettings
from lhb_engine.simulation.environment import LongHorizonEnvironment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMS = (0.1, 0.3, 1.0, 3.0, 10.0)  # no powers of two: those only move exponents
NOISES = {"noise in proportion": True, "the same noise": False}
CONTENDERS: dict[str, Contender] = {name: ALL[name] for name in ("ad_lasso", PAPER, "uniform")}


@dataclass(frozen=True)
class Scaled(SimulationSettings):
    """Worlds whose lag weights sum to `total`."""

    total: float = 1.0

    def world(self, seed: int) -> LongHorizonEnvironment:
        """Return the drawn world with its weights scaled."""
        drawn = super().world(seed)
        return LongHorizonEnvironment(
            drawn.theta,
            drawn.weights * self.total,
            n_arms=self.arms,
            noise=self.noise,
            seed=seed,
        )


def cases(scale: Scale) -> list[Case]:
    """List every sum with both kinds of noise."""
    return [
        {"panel": panel, "total": total, "label": label, "seed": seed}
        for panel in NOISES
        for total in (SUMS[1:3] if scale.toy else SUMS)
        for label in CONTENDERS
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its final regret over sum(w)."""
    settings = data_rich(scale, "flat", 5)
    noise = scale.noise * (case["total"] if NOISES[case["panel"]] else 1.0)
    world = Scaled(**vars(replace(settings, noise=noise)), total=case["total"])
    last = play(CONTENDERS[case["label"]], world, case["seed"], player)[-1]
    return [last | {"per_sum": last["regret"] / case["total"]}]


def draw(table: Table, figure: "Figure") -> None:
    """Draw regret over sum(w) against sum(w)."""
    axes = figure.subplots()
    place = 0
    for panel in NOISES:
        for label in CONTENDERS:
            shown = table.where(panel=panel, label=label)
            band(axes, shown, "total", "per_sum", f"{label}, {panel}", place)
            place += 1
    log_ticks(axes, table.column("total").tolist())
    axes.set(xlabel="sum(w)", ylabel="final regret / sum(w)", ylim=(0, None))
    axes.legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the relative change of regret over sum(w) from that at sum(w) = 1."""
    own = table.where(label=rule.agent, panel=next(iter(NOISES)))
    one, out = own.where(total=1.0).by_seed("per_sum"), {}
    for setting in rule.settings:
        here = own.where(total=float(setting.removeprefix("sum(w)=")))
        if len(here):
            other = here.by_seed("per_sum")
            out[setting] = SeedMean(np.array([other[s] / one[s] - 1 for s in one]))
    return out


EXPERIMENT = Experiment(
    name="sum_w",
    title="Lag weights whose sum is not 1",
    source="Assumption |w|_1 <= 1, without loss of generality",
    choices="T=2000, h=100, d=5, flat s=5; noise sd 0.1 sum(w), or 0.1",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
    figure_size=(6.0, 3.6),
)
