"""Fewer rounds than lags, with the mass of w early or late (Fig. data_poor_diff_w)."""

from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.plot_style import band
from clients.experiments.framework.regret_runs import (
    Contender,
    cases_of,
    final,
    lower,
    play,
    verdict,
)
from clients.experiments.framework.table import Row, Table, paired
from clients.experiments.framework.worlds import data_poor
from clients.simulator import Player, SimulationSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (4, 8, 16, 32, 64, 125)
DEFAULT = "doubling_lasso, default L"
CONTENDERS = {
    DEFAULT: Contender("doubling_lasso"),
    **{f"doubling_lasso, L={n}": Contender("doubling_lasso", {"L": n}) for n in LENGTHS},
    "oracle_w": Contender("oracle_w"),
    "uniform": Contender("uniform"),
}
EARLY, LATE = "w_1: early mass", "w_2: late mass"
PATTERNS = {EARLY: "early_mass", LATE: "late_mass"}


def worlds(scale: Scale) -> dict[str, SimulationSettings]:
    """Settings by panel."""
    return {panel: data_poor(scale, pattern) for panel, pattern in PATTERNS.items()}


def cases(scale: Scale) -> list[Case]:
    """Every L, the oracle and uniform play, on both w."""
    return cases_of(list(PATTERNS), list(CONTENDERS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """One run's regret curve, and the l2 mass of the first `round` lag weights."""
    settings = worlds(scale)[case["panel"]]
    weights = settings.world(case["seed"]).weights
    mass = np.sqrt(np.cumsum(weights**2) / (weights**2).sum())
    rows = play(CONTENDERS[case["label"]], settings, case["seed"], player)
    return [row | {"mass": float(mass[row["round"] - 1])} for row in rows]


def best_length(finals: Table) -> str:
    """The L with the lowest regret, mean over both w."""
    labels = [label for label in finals.values("label") if ", L=" in label]
    best = min(labels, key=lambda label: finals.where(label=label).mean("regret").value)
    return str(best)


def draw(table: Table, figure: "Figure") -> None:
    """Mass on the left; regret on the right."""
    left, right = figure.subplots(1, 2)
    best = best_length(final(table))
    for place, panel in enumerate(PATTERNS):
        band(left, table.where(panel=panel, label=DEFAULT), "round", "mass", panel, place)
        for i, label in enumerate((best, DEFAULT, "uniform")):
            shown = table.where(panel=panel, label=label)
            name = f"{panel.split(':')[0]}, {label}"
            band(right, shown, "round", "regret", name, 2 * i + place)
    left.set(xlabel="lags seen", ylabel="l2 mass of w, share", ylim=(0, None))
    right.set(xlabel="round", ylabel="cumulative regret", ylim=(0, None))
    for axes in (left, right):
        axes.legend(fontsize=7)


def judge(table: Table) -> list[Claim]:
    """Early mass is easier than late mass."""
    finals = final(table)
    best = best_length(finals)
    told, held = [], {}
    for label in (DEFAULT, best):
        rows = finals.where(label=label)
        early, late = rows.where(panel=EARLY), rows.where(panel=LATE)
        d = paired(early, late, "regret")
        held[label] = lower(d)
        each = f"early {early.mean('regret')}, late {late.mean('regret')}"
        told.append(f"{label}: {each}, late less early {d}")
    return [
        Claim(
            "Doubling Lasso has lower regret where the mass of w is early",
            "; ".join(told) + " (best L chosen on these seeds)",
            verdict(held),
        )
    ]


EXPERIMENT = Experiment(
    name="data_poor",
    title="Fewer rounds than lags: early and late mass",
    source="Fig. data_poor_diff_w",
    choices="h=1000, T=999, s=10, d=5; equal weights in the first 0.3 h or the last 0.6 h lags; "
    "L of 4 to 125 beside the default h // 12 = 83",
    cases=cases,
    run=run,
    draw=draw,
    judge=judge,
)
