"""The shared parts of the regret experiments: agents, regret curves, paired comparisons."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, panels
from clients.experiments.framework.table import Row, Table, markdown
from clients.simulator import Player, SimulationSettings
from lhb_engine.history import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_POINTS = 40  # points of a regret curve in the CSV
DRAWN = (
    "ad_lasso",
    "ad_lasso, paper's lambda",
    "sa_gd",
    "sw_mp",
    "ucb_mp",
    "oracle_w",
    "uniform",
    "lin_ucb",
)


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
        given = self.options(settings) if callable(self.options) else self.options
        return dict(given)


def sparsity_of(settings: SimulationSettings) -> int:
    """Return the true number of nonzero lag weights."""
    return 1 if settings.weights == "single" else settings.sparsity


# All were tuned alike, on the worlds and seeds of `tuning`: the options with the lowest mean
# regret there. SA-GD is told the true s, as in the paper, and runs until it has converged.
BEST_C = 0.003
CONVERGED = {"tol": 1e-6, "n_steps": 20_000}
PAPER = "ad_lasso, paper's lambda"
CONTENDERS: dict[str, Contender] = {
    "ad_lasso": Contender("ad_lasso"),
    PAPER: Contender("ad_lasso", {"reg": "theory", "c": BEST_C}),
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


def final(table: Table) -> Table:
    """Return the last point of every curve."""
    last = {panel: max(rows.column("round")) for panel, rows in table.by("panel")}
    return Table(row for row in table if row["round"] == last[row["panel"]])


def draw_panels(table: Table, figure: "Figure", n_columns: int = 4) -> None:
    """Draw a panel of regret curves for each world."""
    names = table.values("panel")
    for axes, panel in zip(panels(figure, len(names), n_columns, sharex=True), names, strict=True):
        shown = table.where(panel=panel)
        for place, label in enumerate(shown.values("label")):
            if label in DRAWN:
                band(axes, shown.where(label=label), "round", "regret", label, place)
        axes.set_title(panel, fontsize=9)
        axes.set_ylim(0, None)
        axes.set_xlabel("round")
    axes = figure.axes[0]
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(7, len(labels)))
    figure.supylabel("cumulative regret", fontsize=9)


# statistics ---------------------------------------------------------------------------------


def compare(table: Table, rule: Rule, agent: str = "") -> dict[str, SeedMean]:
    """Return final regret of `agent` less `factor` times its rival's, by "panel / rival"."""
    finals, out = final(table), {}
    for setting in rule.settings:
        panel, rival = setting.split(" / ")
        here = finals.where(panel=panel)
        one, other = here.where(label=agent or rule.agent), here.where(label=rival)
        if len(one) and len(other):
            out[setting] = SeedMean(by_seed(one, other, "regret", rule.factor))
    return out


def by_seed(one: Table, other: Table, name: str, factor: float = 1.0) -> Floats:
    """Return column `name` of `one` less factor times that of `other`, paired by seed."""
    a, b = one.by_seed(name), other.by_seed(name)
    return np.array([a[seed] - factor * b[seed] for seed in sorted(a.keys() & b.keys())])


def regret_table(table: Table) -> str:
    """Return the mean final regret of every contender in every panel, as Markdown."""
    finals = final(table)
    names = finals.values("panel")
    rows = []
    for label, own in finals.by("label"):
        rows.append([label, *(str(own.where(panel=name).mean("regret")) for name in names)])
    return markdown(["final regret, mean ± standard error", *names], rows)
