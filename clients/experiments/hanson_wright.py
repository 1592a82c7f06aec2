"""Greedily selected contexts concentrate as drawn ones do, up to log K (Theorem HW:chosen)."""

import math
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks, panels
from clients.experiments.framework.table import Row, Table
from clients.simulator import Player

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, DRAWS, TAIL = 5, 20_000, 1e-3
ARMS = (1, 2, 5, 10, 30)
FORMS = ("identity", "theta theta'", "random")


def cases(scale: Scale) -> list[Case]:
    """List every quadratic form and number of arms."""
    return [
        {"form": form, "arms": arms, "seed": seed}
        for form in FORMS
        for arms in (ARMS[:2] if scale.toy else ARMS)
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Return the deviation of xi'A xi from its mean that is exceeded once in 1000 rounds."""
    rng = np.random.default_rng([case["seed"], 1971])
    theta = rng.standard_normal(DIM)
    theta /= np.linalg.norm(theta)
    root = rng.standard_normal((DIM, DIM))
    form = {
        "identity": np.eye(DIM),
        "theta theta'": np.outer(theta, theta),
        "random": root @ root.T / DIM,
    }[case["form"]]
    n = 2000 if scale.toy else DRAWS
    arms = rng.uniform(-1, 1, (n, case["arms"], DIM))
    chosen = arms[np.arange(n), (arms @ theta).argmax(axis=1)]
    value = np.einsum("ni,ij,nj->n", chosen, form, chosen)
    return [{"deviation": float(np.quantile(np.abs(value - value.mean()), 1 - TAIL))}]


def draw(table: Table, figure: "Figure") -> None:
    """Draw the deviation against K, with the growth that the theorem allows."""
    forms = table.values("form")
    for axes, form in zip(panels(figure, len(forms), 3), forms, strict=True):
        own = table.where(form=form)
        band(axes, own, "arms", "deviation", "selected contexts")
        at = np.array(sorted(set(own.column("arms"))))
        level = own.where(arms=1).mean("deviation").value
        axes.plot(at, level * np.log(2 * at) / math.log(2), "k:", lw=1, label="times log 2K")
        log_ticks(axes, at.tolist())
        axes.set(xlabel="K", title=f"A = {form}", ylim=(0, None))
    figure.axes[0].set_ylabel("deviation exceeded once in 1000")
    figure.axes[0].legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the deviation relative to that at K = 1, over the growth that log 2K allows."""
    out = {}
    for setting in rule.settings:
        form, arms = setting.split(", K=")
        own = table.where(form=form)
        one, many = own.where(arms=1), own.where(arms=int(arms))
        if len(one) and len(many):
            a, b = one.by_seed("deviation"), many.by_seed("deviation")
            allowed = math.log(2 * int(arms)) / math.log(2)
            out[setting] = SeedMean(np.array([b[seed] / a[seed] / allowed for seed in a]))
    return out


EXPERIMENT = Experiment(
    name="hanson_wright",
    title="Concentration of selected contexts",
    source="Remark on the assumptions; Appendix, Theorem HW:chosen",
    choices=f"d={DIM}, {DRAWS} rounds a seed; xi is the best of K contexts by theta",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
    figure_size=(9.0, 3.2),
)
