"""What the regret experiments read from their tables: panels, comparisons, mean regrets."""

from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, panels
from clients.experiments.framework.table import Table, markdown
from lhb_engine.history import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        axes.set_ylim(0, top(shown))
        axes.set_xlabel("round")
    axes = figure.axes[0]
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(7, len(labels)))
    figure.supylabel("cumulative regret", fontsize=9)


def top(shown: Table) -> float | None:
    """Return the upper end of a panel's y axis, which cuts uniform play off; None: of no other."""
    highest = [rows.mean("regret").value for label, rows in final(shown).by("label")
               if label in DRAWN and label != "uniform"]  # fmt: skip
    return 1.25 * max(highest) if highest and max(highest) > 0 else None


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
