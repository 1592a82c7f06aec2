"""Classic UCB where w_0 = 0: each reward is credited to its own round (App. Details)."""

from dataclasses import dataclass

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.regret_results import draw_panels, final, regret_table
from clients.experiments.framework.regret_runs import CONTENDERS as ALL
from clients.experiments.framework.regret_runs import PAPER, Contender, cases_of, play
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player, SimulationSettings
from lhb_engine.simulation.environment import LongHorizonEnvironment

CONTENDERS: dict[str, Contender] = {
    "lin_ucb": Contender("lin_ucb"),
    **{name: ALL[name] for name in ("ad_lasso", PAPER, "uniform")},
}
PANELS = {"one lag": ("single", 1), "flat s=5": ("flat", 5), "flat s=10": ("flat", 10)}


@dataclass(frozen=True)
class Later(SimulationSettings):
    """Worlds with w_0 = 0: all lag weights are moved one lag later."""

    def world(self, seed: int) -> LongHorizonEnvironment:
        """Return the drawn world with each lag weight one lag later, the last one's at lag 1."""
        drawn = super().world(seed)
        weights = np.roll(drawn.weights, 1)
        weights[0], weights[1] = 0.0, weights[1] + weights[0]
        return LongHorizonEnvironment(
            drawn.theta, weights, n_arms=self.arms, noise=self.noise, seed=seed
        )


def cases(scale: Scale) -> list[Case]:
    """List all contenders in all panels."""
    return cases_of(list(PANELS), list(CONTENDERS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its regret curve."""
    settings = Later(**vars(data_rich(scale, *PANELS[case["panel"]])))
    return play(CONTENDERS[case["label"]], settings, case["seed"], player)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return LinUCB's final regret over that of uniform play."""
    finals, out = final(table), {}
    for panel in rule.settings:
        here = finals.where(panel=panel)
        if len(here):
            a, b = (here.where(label=name).by_seed("regret") for name in ("lin_ucb", "uniform"))
            out[panel] = SeedMean(np.array([a[seed] / b[seed] for seed in a]))
    return out


EXPERIMENT = Experiment(
    name="classic_ucb",
    title="Classic UCB where the immediate weight is zero",
    source="Appendix, Details of Algorithms: classic UCB and OFUL",
    choices="T=2000, h=100, d=5; w_0 = 0; LinUCB pairs each reward with its own round's context",
    cases=cases,
    run=run,
    draw=lambda table, figure: draw_panels(table, figure, 3),
    measure=measure,
    details=regret_table,
    figure_size=(9.0, 3.2),
)
