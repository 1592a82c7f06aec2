"""Fewer rounds than lags, with the mass of w early or late (Fig. data_poor_diff_w)."""

from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band
from clients.experiments.framework.regret_results import by_seed, final, regret_table
from clients.experiments.framework.regret_runs import THEORY, Contender, cases_of, play
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_poor
from clients.simulator import Player, SimulationSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (4, 8, 16, 32, 64, 125)
DEFAULT = "doubling_lasso, default L"
PAPER = "doubling_lasso, paper's lambda"
SHOWN = (DEFAULT, PAPER, "uniform")
CONTENDERS = {
    DEFAULT: Contender("doubling_lasso"),
    PAPER: Contender("doubling_lasso", THEORY),
    **{f"doubling_lasso, L={n}": Contender("doubling_lasso", {"L": n}) for n in LENGTHS},
    "oracle_w": Contender("oracle_w"),
    "uniform": Contender("uniform"),
}
EARLY, LATE = "w_1: early mass", "w_2: late mass"
PATTERNS = {EARLY: "early_mass", LATE: "late_mass"}


def worlds(scale: Scale) -> dict[str, SimulationSettings]:
    """Return the settings of each panel."""
    return {panel: data_poor(scale, pattern) for panel, pattern in PATTERNS.items()}


def cases(scale: Scale) -> list[Case]:
    """List every L, the oracle and uniform play, on both w."""
    return cases_of(list(PATTERNS), list(CONTENDERS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Return one run's regret curve, and the l2 mass of the first `round` lag weights."""
    settings = worlds(scale)[case["panel"]]
    weights = settings.world(case["seed"]).weights
    mass = np.sqrt(np.cumsum(weights**2) / (weights**2).sum())
    rows = play(CONTENDERS[case["label"]], settings, case["seed"], player)
    return [row | {"mass": float(mass[row["round"] - 1])} for row in rows]


def draw(table: Table, figure: "Figure") -> None:
    """Draw the mass on the left, the regret on the right."""
    left, right = figure.subplots(1, 2)
    for place, panel in enumerate(PATTERNS):
        band(left, table.where(panel=panel, label=DEFAULT), "round", "mass", panel, place)
        for i, label in enumerate(SHOWN):
            shown = table.where(panel=panel, label=label)
            name = f"{panel.split(':')[0]}, {label}"
            band(right, shown, "round", "regret", name, 2 * i + place)
    left.set(xlabel="lags seen", ylabel="l2 mass of w, share", ylim=(0, None))
    right.set(xlabel="round", ylabel="cumulative regret", ylim=(0, None))
    for axes in (left, right):
        axes.legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the regret with early mass less that with late mass, for each agent."""
    finals, out = final(table), {}
    for label in rule.settings:
        own = finals.where(label=label)
        early, late = own.where(panel=EARLY), own.where(panel=LATE)
        if len(early) and len(late):
            out[label] = SeedMean(by_seed(early, late, "regret", rule.factor))
    return out


EXPERIMENT = Experiment(
    name="data_poor",
    title="Fewer rounds than lags: early and late mass",
    source="Fig. data_poor_diff_w",
    choices="h=1000, T=999, s=10, d=5; equal weights in the first 0.3 h or the last 0.6 h lags; "
    "L of 4 to 125 beside the default h // 12 = 83",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    details=regret_table,
)
