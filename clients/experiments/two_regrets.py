"""The paper's regret, docs/model.md (1.3), against the sum of the rewards' own gaps."""

from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band
from clients.experiments.framework.regret_runs import CONTENDERS, PAPER
from clients.experiments.framework.slopes import exponent
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player
from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGENTS = ("uniform", "ad_lasso", PAPER)
ROUNDS, N_POINTS = 20_000, 12
LINES = {"regret": "the paper's", "summed": "summed over rounds", "gap": "their difference"}


def cases(scale: Scale) -> list[Case]:
    """List all agents."""
    return [{"label": label, "seed": seed} for label in AGENTS for seed in range(scale.seeds)]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run, always in process, and return both regrets along it."""
    settings = data_rich(scale, "flat", 5)
    world, n_rounds = settings.world(case["seed"]), 200 if scale.toy else ROUNDS
    agent = CONTENDERS[case["label"]]
    played = simulate(
        agent.algorithm,
        world,
        n_rounds=n_rounds,
        seed=case["seed"],
        options=agent.told(settings),
    )
    summed = regret_by_rounds(world, played.selected)
    first = 2 * settings.horizon
    at = np.geomspace(first, n_rounds, 4 if scale.toy else N_POINTS).round().astype(int)
    return [
        {
            "round": int(t),
            "regret": float(played.regret[t - 1]),
            "summed": float(summed[t - 1]),
            "gap": abs(float(played.regret[t - 1] - summed[t - 1])),
        }
        for t in at
    ]


def regret_by_rounds(world: LongHorizonEnvironment, selected: Floats) -> Floats:
    """Return the cumulative sum of <y*_t - y_t, theta>, the gap in the rewards of rounds up to t.

    y_t is the filtered context of the agent, and y*_t that of always choosing the best arm. Effects
    still to come are not counted.
    """
    n = len(selected)
    lost = np.empty(n)
    for start in range(0, n, 1000):
        stop = min(n, start + 1000)
        arms = world.contexts(start + 1, stop) @ world.theta
        lost[start:stop] = arms.max(axis=1) - selected[start:stop] @ world.theta
    arrived = np.zeros(n)
    for lag in np.flatnonzero(world.weights).tolist():
        arrived[lag:] += world.weights[lag] * lost[: n - lag]
    return np.asarray(np.cumsum(arrived))


def draw(table: Table, figure: "Figure") -> None:
    """Draw both regrets and their difference against T."""
    for axes, (label, own) in zip(figure.subplots(1, len(AGENTS)), table.by("label"), strict=True):
        for place, (name, words) in enumerate(LINES.items()):
            band(axes, own, "round", name, words, place)
        axes.set(xscale="log", yscale="log", title=label, xlabel="rounds T")
    figure.axes[0].set_ylabel("regret")
    figure.axes[0].legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the exponent of the difference in T, or its share of the final regret."""
    if rule.name == "bounded":
        own = table.where(label="uniform")
        return {"uniform": exponent(own, "round", "gap")} if len(own) else {}
    out = {}
    last = max(table.column("round"))
    for label in rule.settings:
        own = table.where(label=label, round=last)
        if len(own):
            out[label] = SeedMean(own.column("gap") / own.column("regret"))
    return out


EXPERIMENT = Experiment(
    name="two_regrets",
    title="Two definitions of regret",
    source="Remark after the definition of regret; Appendix, Definition of Pseudo-regret",
    choices=f"T = {ROUNDS}, h=100, d=5, flat s=5; always in process",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
    figure_size=(9.0, 3.4),
)
