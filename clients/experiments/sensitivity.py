"""What moves with the settings that the paper leaves open: noise, K, L, lambda's constant."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks
from clients.experiments.framework.regret_results import compare, final
from clients.experiments.framework.regret_runs import CONTENDERS, PAPER, Contender, play
from clients.experiments.framework.table import Row, Table, markdown
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player, SimulationSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOARDS = {"flat s=5": ("flat", 5), "flat s=15": ("flat", 15)}
RIVALS = ("ad_lasso", PAPER, "sa_gd", "sw_mp")
WORLDS = {"noise": (0.05, 0.1, 0.5, 1.0), "arms": (3, 10, 30)}  # all agents play these
CHOICES = {  # one agent's own; its default is played in `WORLDS`
    "L": ("ad_lasso", "L", (4, 16, 25)),
    "a": ("ad_lasso", "level", (0.1, 0.5)),
    "c": (PAPER, "c", (0.001, 0.01, 0.03)),
}
FEW = 10  # seeds of what no claim compares


def cases(scale: Scale) -> list[Case]:
    """List each setting with the agents that it matters to; the base is noise 0.1, K = 10.

    What a claim compares is played on all seeds, the rest on `FEW`.
    """
    boards = list(BOARDS)[:1] if scale.toy else list(BOARDS)
    played = [
        (varied, value, label)
        for varied, values in WORLDS.items()
        for value in values
        for label in RIVALS
        if (varied, value) != ("arms", 10)  # as noise 0.1
    ]
    played += [(varied, v, label) for varied, (label, _, own) in CHOICES.items() for v in own]
    return [
        {"panel": f"{board}, {varied} {value:g}", "label": label, "seed": seed}
        for board in boards
        for varied, value, label in (played[:2] if scale.toy else played)
        for seed in range(scale.seeds if judged(varied, label) else min(scale.seeds, FEW))
    ]


def judged(varied: str, label: str) -> bool:
    """Return whether a claim compares these runs."""
    return varied == "noise" and label in ("ad_lasso", PAPER)


def setting_of(case: Case, scale: Scale) -> tuple[SimulationSettings, Contender]:
    """Return a case's world and agent."""
    board, _, change = case["panel"].partition(", ")
    varied, value = change.split(" ")
    world, agent = data_rich(scale, *BOARDS[board]), CONTENDERS[case["label"]]
    if varied == "noise":
        return replace(world, noise=float(value)), agent
    if varied == "arms":
        return replace(world, arms=int(value)), agent
    option = CHOICES[varied][1]
    chosen: float = int(value) if option == "L" else float(value)
    return world, Contender(agent.algorithm, agent.told(world) | {option: chosen})


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its final regret."""
    world, agent = setting_of(case, scale)
    return play(agent, world, case["seed"], player)[-1:]


def draw(table: Table, figure: "Figure") -> None:
    """Draw final regret against the noise, a panel a board."""
    boards = [board for board in BOARDS if any(row["panel"].startswith(board) for row in table)]
    for axes, board in zip(figure.subplots(1, len(boards), squeeze=False)[0], boards, strict=True):
        start = f"{board}, noise "
        shown = Table(row | {"noise": float(row["panel"].removeprefix(start))}
                      for row in table if row["panel"].startswith(start))  # fmt: skip
        for place, (label, rows) in enumerate(shown.by("label")):
            band(axes, rows, "noise", "regret", label, place)
        log_ticks(axes, shown.column("noise").tolist())
        axes.set(title=board, xlabel="noise sd", ylabel="final regret", ylim=(0, None))
    figure.axes[0].legend(fontsize=7)


def details(table: Table) -> str:
    """Return mean final regret at each setting, as Markdown."""
    finals = final(table)
    rows = []
    for panel, own in finals.by("panel"):
        cells = [own.where(label=label) for label in RIVALS]
        rows.append([panel, *(str(cell.mean("regret")) if len(cell) else "" for cell in cells)])
    return markdown(["final regret, mean ± standard error", *RIVALS], rows)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return differences of regrets: by panel, or as the mean of all noises and boards."""
    if rule.name != "noise_adaptive_boards":
        return compare(table, rule)
    noise = [panel for panel in table.values("panel") if ", noise " in panel]
    by_panel = replace(rule, settings=tuple(f"{panel} / {PAPER}" for panel in noise))
    comparisons = list(compare(table, by_panel).values())
    means = (
        SeedMean(np.mean([each.values for each in comparisons], axis=0)) if comparisons else None
    )
    return {} if means is None else dict.fromkeys(rule.settings, means)


EXPERIMENT = Experiment(
    name="sensitivity",
    title="What moves with the settings that the paper leaves open",
    source="ours: the paper gives no noise, K, L or constant of lambda",
    choices="T=2000, h=100, d=5; one setting changed at a time from noise 0.1, K=10, L=8, a=0.25, "
    "c=0.003; "
    f"{FEW} seeds but for ad_lasso under both lambdas against the noise",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    details=details,
    varies=False,
    figure_size=(9.0, 3.6),
)
