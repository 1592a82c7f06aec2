"""Regret against d, s and h where T >= h (the theorem on the data-rich regime)."""

from typing import TYPE_CHECKING

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks, panels
from clients.experiments.framework.regret_runs import CONTENDERS as ALL
from clients.experiments.framework.regret_runs import PAPER, Contender, play
from clients.experiments.framework.slopes import exponent
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import one_at_a_time
from clients.simulator import Player, SimulationSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTENDERS: dict[str, Contender] = {name: ALL[name] for name in ("ad_lasso", PAPER, "oracle_w")}
BASE = {"d": 5, "s": 5, "h": 100}
VARIED = {"d": (2, 5, 10, 20), "s": (1, 2, 5, 10, 20), "h": (25, 50, 100, 200, 400)}
TOY = {"d": (2, 3), "s": (1, 2), "h": (10, 12)}
ROUNDS = 2000  # at least d h in all cases


def cases(scale: Scale) -> list[Case]:
    """List the cases: one quantity varies, the others are as in `BASE`."""
    return [
        case | {"label": label}
        for label in CONTENDERS
        for case in one_at_a_time(scale, TOY if scale.toy else VARIED)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its final regret."""
    size = (BASE | ({"h": 12, "d": 2, "s": 2} if scale.toy else {})) | {
        case["varied"]: case["value"]
    }
    settings = SimulationSettings(
        algorithms=(),
        rounds=60 if scale.toy else ROUNDS,
        horizon=size["h"],
        dim=size["d"],
        arms=scale.arms,
        noise=scale.noise,
        weights="flat",
        sparsity=size["s"],
    )
    return play(CONTENDERS[case["label"]], settings, case["seed"], player)[-1:]


def draw(table: Table, figure: "Figure") -> None:
    """Draw a panel for each quantity, log axes."""
    names = table.values("varied")
    for axes, name in zip(panels(figure, len(names), 3, sharey=True), names, strict=True):
        for label, rows in table.where(varied=name).by("label"):
            band(axes, rows, "value", "regret", label)
        log_ticks(axes, table.where(varied=name).column("value").tolist())
        axes.set(yscale="log", xlabel=name)
    figure.axes[0].set_ylabel("final regret")
    figure.axes[0].legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the exponent of the final regret in the rule's quantity."""
    out = {}
    for name in rule.settings:
        own = table.where(varied=name, label=rule.agent)
        if len(own):
            out[name] = exponent(own, "value", "regret")
    return out


EXPERIMENT = Experiment(
    name="dimensions",
    title="Regret against d, s and h in the data-rich regime",
    source="Theorem on the data-rich regime, and the abstract",
    choices=f"T={ROUNDS}, d=5, s=5, h=100 where not varied; flat weights, sum(w) = 1",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
    figure_size=(11.0, 3.2),
)
