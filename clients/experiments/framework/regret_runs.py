"""What the regret experiments share: agents on the same worlds, curves, paired verdicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clients.experiments.framework.experiment import Case, Claim, Scale
from clients.experiments.framework.plot_style import band, panels
from clients.experiments.framework.table import Mean, Row, Table, mean_of, paired
from clients.simulator import Player, SimulationSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_POINTS = 40  # of a curve that goes to the CSV


@dataclass(frozen=True)
class Contender:
    """An algorithm with options, under the name that figures give it.

    `options` may use what an agent is told of the world by giving a function of the settings.
    """

    algorithm: str
    options: Mapping[str, Any] | Callable[[SimulationSettings], Mapping[str, Any]] = field(
        default_factory=dict
    )

    def told(self, settings: SimulationSettings) -> dict[str, Any]:
        """The options in a world of these settings."""
        given = self.options(settings) if callable(self.options) else self.options
        return dict(given)


def sparsity_of(settings: SimulationSettings) -> int:
    """The true number of nonzero lag weights."""
    return 1 if settings.weights == "single" else settings.sparsity


# SA-GD is told the true s, as in the paper. The baselines run on the whole epoch's rows and on
# AD-Lasso's; whoever compares takes the better of the two (`better_rows`).
CONTENDERS: dict[str, Contender] = {
    "ad_lasso": Contender("ad_lasso"),
    "sa_gd": Contender("sa_gd", lambda settings: {"s": sparsity_of(settings)}),
    "sa_gd, ad_lasso's rows": Contender(
        "sa_gd", lambda settings: {"s": sparsity_of(settings), "rows": "ad_lasso"}
    ),
    "sw_mp": Contender("sw_mp"),
    "sw_mp, ad_lasso's rows": Contender("sw_mp", {"rows": "ad_lasso"}),
    "ucb_mp": Contender("ucb_mp"),
    "ucb_mp, ad_lasso's rows": Contender("ucb_mp", {"rows": "ad_lasso"}),
    "lin_ucb": Contender("lin_ucb"),
    "oracle_w": Contender("oracle_w"),
    "uniform": Contender("uniform"),
}
BASELINES = ("sa_gd", "sw_mp", "ucb_mp")


def play(
    contender: Contender,
    settings: SimulationSettings,
    seed: int,
    player: Player,
    rounds: Sequence[int] | None = None,
) -> list[Row]:
    """The regret curve of one run, a row a point: at `rounds`, or at 40 evenly spaced ones."""
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
    """Every contender in every panel on every seed."""
    return [
        {"panel": panel, "label": label, "seed": seed}
        for panel in panel_names
        for label in labels
        for seed in range(scale.seeds)
    ]


def final(table: Table) -> Table:
    """The last point of every curve."""
    last = {panel: max(rows.column("round")) for panel, rows in table.by("panel")}
    return Table(row for row in table if row["round"] == last[row["panel"]])


def better_rows(finals: Table, baseline: str) -> Table:
    """A baseline on whichever rows give it the lower mean regret (finals of one panel)."""
    options = [finals.where(label=baseline), finals.where(label=f"{baseline}, ad_lasso's rows")]
    return min((t for t in options if len(t)), key=lambda t: t.mean("regret").value)


def draw_panels(table: Table, figure: "Figure", n_columns: int = 4) -> None:
    """A panel of regret curves each; of a baseline, the better rows."""
    names = table.values("panel")
    for axes, panel in zip(panels(figure, len(names), n_columns, sharex=True), names, strict=True):
        shown = table.where(panel=panel)
        finals = final(shown)
        for place, label in enumerate(finals.values("label")):
            base = label.split(",")[0]
            if base in BASELINES and better_rows(finals, base)[0]["label"] != label:
                continue
            if label.startswith("ad_lasso,"):
                continue  # variants are told of in the verdicts
            band(axes, shown.where(label=label), "round", "regret", base_name(label), place)
        axes.set_title(panel, fontsize=9)
        axes.set_ylim(0, None)
    axes = figure.axes[0]
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(7, len(labels)))
    figure.supxlabel("round", fontsize=9)
    figure.supylabel("cumulative regret", fontsize=9)


def base_name(label: str) -> str:
    """A baseline's name without its rows; any other label as it is."""
    base = label.split(",")[0]
    return base if base in BASELINES else label


# verdicts -----------------------------------------------------------------------------------


def difference(finals: Table, panel: str, one: str, other: str) -> Mean:
    """Final regret of `other` less that of `one`, paired; of a baseline, the better rows."""
    here = finals.where(panel=panel)
    a = better_rows(here, one) if one in BASELINES else here.where(label=one)
    b = better_rows(here, other) if other in BASELINES else here.where(label=other)
    return paired(a, b, "regret")


def lower(d: Mean) -> bool:
    """Whether the first is lower by more than two standard errors."""
    return d.value > 2 * d.error


def not_higher(d: Mean) -> bool:
    """Whether the first is not higher by more than two standard errors."""
    return d.value >= -2 * d.error


def verdict(held: Mapping[str, bool]) -> str:
    """One verdict over several settings."""
    if not held:
        return "not measured"
    if all(held.values()):
        return "holds"
    if not any(held.values()):
        return "does not hold here"
    return "holds only if " + ", ".join(name for name, ok in held.items() if ok)


def compare(
    finals: Table,
    text: str,
    pairs: Sequence[tuple[str, str, str]],
    test: Callable[[Mean], bool],
) -> Claim:
    """A claim that the first of each (panel, one, other) does as `test` says against the other.

    The measured differences are other less one: positive where the first has less regret.
    """
    held: dict[str, bool] = {}
    told = []
    several = len({other for _, _, other in pairs}) > 1
    for panel, one, other in pairs:
        if panel not in finals.values("panel"):
            continue
        d = difference(finals, panel, one, other)
        name = f"{panel} ({other})" if several else panel
        held[name] = test(d)
        told.append(f"{name}: {d}")
    others = ", ".join(dict.fromkeys(other for _, _, other in pairs))
    measured = f"regret of {others} less {pairs[0][1]}'s: " + "; ".join(told)
    return Claim(text, measured, verdict(held))


def means(finals: Table, panel: str) -> dict[str, Mean]:
    """Mean final regret by contender."""
    here = finals.where(panel=panel)
    return {label: mean_of(rows.column("regret")) for label, rows in here.by("label")}
