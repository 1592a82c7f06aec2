"""How regret grows with T, and its first phase with h (the two regret theorems)."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks
from clients.experiments.framework.regret_runs import CONTENDERS as ALL
from clients.experiments.framework.regret_runs import PAPER, THEORY, Contender, play
from clients.experiments.framework.slopes import exponent
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import DIM, world
from clients.simulator import Player, SimulationSettings
from lhb_engine.simulation.environment import LongHorizonEnvironment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTENDERS: dict[str, Contender] = {
    **{name: ALL[name] for name in ("ad_lasso", PAPER, "oracle_w")},
    "doubling_lasso": Contender("doubling_lasso", {"L": 8}),
    "doubling_lasso, paper's lambda": Contender("doubling_lasso", {"L": 8, **THEORY}),
}
HORIZON, SPARSITY = 100, 5
IN_T = ("flat", "spiking")
IN_H = ("early_mass", "late_mass")
EARLY_LAGS = "all weights in the first 20 lags, T < h"
POOR = 8000  # lags of the panel with fewer rounds than lags


def labels_of(panel: str) -> tuple[str, ...]:
    """Return the algorithms of a panel; the oracle fits on AD-Lasso's epochs, so T >= h there."""
    if panel == EARLY_LAGS:
        return ("doubling_lasso", "doubling_lasso, paper's lambda")
    return ("ad_lasso", PAPER, "oracle_w")


def axis_of(panel: str) -> str:
    """Return the column on the x axis of a panel."""
    return "horizon" if panel in IN_H else "round"


@dataclass(frozen=True)
class EarlyLags(SimulationSettings):
    """Worlds whose nonzero lag weights are all among the first 20 lags."""

    def world(self, seed: int) -> LongHorizonEnvironment:
        """Return a world drawn with 20 lags, and lags of weight zero after them."""
        drawn = SimulationSettings.world(replace(self, horizon=20), seed)
        weights = np.zeros(self.horizon)
        weights[:20] = drawn.weights
        return LongHorizonEnvironment(
            drawn.theta, weights, n_arms=self.arms, noise=self.noise, seed=seed
        )


def cases(scale: Scale) -> list[Case]:
    """List the curves in T, and the final regrets of the first h rounds at several h."""
    horizons = (24, 48) if scale.toy else (50, 100, 200, 400, 800)
    long, poor = ((24,), (200,)) if scale.toy else ((HORIZON,), (POOR,))
    sizes = {**dict.fromkeys(IN_T, long), **dict.fromkeys(IN_H, horizons), EARLY_LAGS: poor}
    return [
        {"panel": panel, "horizon": horizon, "label": label, "seed": seed}
        for panel, each in sizes.items()
        for horizon in each
        for label in labels_of(panel)
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run: a curve at rounds evenly spaced on a log axis, or the regret at round h."""
    panel, horizon = case["panel"], case["horizon"]
    longest = 200 if scale.toy else 100_000
    pattern = "flat" if panel == EARLY_LAGS else panel
    settings = world(scale, longest if panel in IN_T else horizon, horizon, pattern, SPARSITY)
    if panel == EARLY_LAGS:
        settings = EarlyLags(**vars(replace(settings, rounds=horizon - 1)))
    n_points = 1 if panel in IN_H else 40
    at = sorted(
        {round(math.exp(math.log(settings.rounds) * (i + 1) / n_points)) for i in range(n_points)}
    )
    return play(CONTENDERS[case["label"]], settings, case["seed"], player, at)


def draw(table: Table, figure: "Figure") -> None:
    """Draw regret on log axes: against T on the left, against h on the right."""
    left, right = figure.subplots(1, 2)
    for panels, axes, x in (((*IN_T, EARLY_LAGS), left, "round"), (IN_H, right, "horizon")):
        lines = [(panel, label) for panel in panels for label in labels_of(panel)]
        for place, (panel, label) in enumerate(lines):
            shown = table.where(panel=panel, label=label)
            positive = Table(row for row in shown if row["regret"] > 0)
            band(axes, positive, x, "regret", f"{panel}: {label}", place)
        axes.set(xscale="log", yscale="log", ylabel="cumulative regret")
        axes.legend(fontsize=6)
    log_ticks(right, table.where(panel=IN_H[0]).column("horizon").tolist())
    left.set_xlabel("rounds T")
    right.set_xlabel("horizon h (T = h)")


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the exponent of each panel: in T from round d h on, or in h."""
    out = {}
    for panel in rule.settings:
        own = table.where(panel=panel, label=rule.agent)
        if panel in IN_T:
            start = DIM * own[0]["horizon"] if len(own) else 0
            own = Table(row for row in own if row["round"] >= start)
        elif panel == EARLY_LAGS:
            own = Table(row for row in own if row["round"] >= 500)
        if len({row[axis_of(panel)] for row in own}) > 1:
            out[panel] = exponent(own, axis_of(panel), "regret")
    return out


EXPERIMENT = Experiment(
    name="growth",
    title="Growth of regret with T and with h",
    source="Theorems on the data-poor and the data-rich regime",
    choices="d=5, s=5; T to 100 000 at h=100; T < h = 8000 with all weights in the first 20 lags "
    "(Doubling Lasso, L=8); T=h for h of 50 to 800",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
)
