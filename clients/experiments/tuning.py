"""The choice of all agents' options by mean regret, on the same worlds and seeds."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import Statistic
from clients.experiments.framework.regret_results import final
from clients.experiments.framework.regret_runs import Contender, play, sparsity_of
from clients.experiments.framework.table import Row, Table, markdown, mean_of
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player
from lhb_engine.history import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST_SEED = 1000  # no other experiment uses these seeds
SEEDS = 8
BOARDS = {
    "flat s=2": ("flat", 2),
    "flat s=5": ("flat", 5),
    "flat s=15": ("flat", 15),
    "flat s=30": ("flat", 30),
    "spiking s=5": ("spiking", 5),
    "spiking s=30": ("spiking", 30),
    "random s=5": ("random", 5),
    "random s=15": ("random", 15),
    "random s=30": ("random", 30),
    "one lag": ("single", 1),
}
KEPT = {  # by algorithm, the options that its experiments use
    "ad_lasso, a": "ad_lasso, a=0.25",
    "ad_lasso, paper's lambda": "ad_lasso, paper's lambda, c=0.003",
    "sa_gd": "sa_gd, gain 1e-6",
    "sw_mp": "sw_mp",
    "ucb_mp": "ucb_mp, width 0.01, ridge 3",
}
NOISY = {  # AD-Lasso's options alone: does a constant that was chosen at noise 0.1 move?
    f"{board}, noise {noise:g}": (board, noise)
    for noise in (0.05, 0.5, 1.0)
    for board in ("flat s=5", "random s=15", "one lag")
}


def _sa_gd(**options: Any) -> Contender:
    return Contender("sa_gd", lambda world: {"s": sparsity_of(world), **options})


def _ucb(rows: str, width: float, ridge: float) -> Contender:
    return Contender("ucb_mp", {"rows": rows, "confidence_width": width, "ridge": ridge})


ENTRANTS: dict[str, Contender] = {
    **{f"ad_lasso, a={a}": Contender("ad_lasso", {"level": a}) for a in (0.5, 0.25, 0.15)},
    **{
        f"ad_lasso, paper's lambda, c={c}": Contender("ad_lasso", {"reg": "theory", "c": c})
        for c in (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
    },
    "sa_gd, gain 1e-2": _sa_gd(tol=1e-2),
    "sa_gd, gain 1e-3": _sa_gd(tol=1e-3),
    "sa_gd, gain 1e-6": _sa_gd(tol=1e-6, n_steps=20_000),
    "sa_gd, 10 steps": _sa_gd(tol=0.0, n_steps=10),
    "sa_gd, gain 1e-3, ad_lasso's rows": _sa_gd(tol=1e-3, rows="ad_lasso"),
    "sw_mp": Contender("sw_mp"),
    "sw_mp, ad_lasso's rows": Contender("sw_mp", {"rows": "ad_lasso"}),
    "ucb_mp, width 0.01, ridge 3": _ucb("epoch", 0.01, 3.0),
    "ucb_mp, width 0.1, ridge 1": _ucb("epoch", 0.1, 1.0),
    "ucb_mp, width 1, ridge 3": _ucb("epoch", 1.0, 3.0),
    "ucb_mp, width 0.01, ridge 3, ad_lasso's rows": _ucb("ad_lasso", 0.01, 3.0),
}


def cases(scale: Scale) -> list[Case]:
    """List all options on all boards, and AD-Lasso's at other noise, on seeds of their own."""
    seeds = min(scale.seeds, SEEDS)
    played = [(board, label) for board in BOARDS for label in ENTRANTS]
    played += [
        (board, label) for board in NOISY for label in ENTRANTS if label.startswith("ad_lasso, ")
    ]
    return [
        {"panel": board, "label": label, "seed": FIRST_SEED + seed}
        for board, label in (played[:2] if scale.toy else played)
        for seed in range(seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its final regret."""
    board, noise = NOISY.get(case["panel"], (case["panel"], scale.noise))
    settings = replace(data_rich(scale, *BOARDS[board]), noise=noise)
    return play(ENTRANTS[case["label"]], settings, case["seed"], player)[-1:]


def draw(table: Table, figure: "Figure") -> None:
    """Draw the mean regret of each set of options, a bar each."""
    axes = figure.subplots()
    own = Table(row for row in final(table) if row["panel"] in BOARDS)
    means = {label: rows.mean("regret").value for label, rows in own.by("label")}
    axes.barh(list(means), list(means.values()), color="#0072B2")
    axes.invert_yaxis()
    axes.set_xlabel("final regret, mean over boards and seeds")


def details(table: Table) -> str:
    """Return the mean regret of each set of options on each board, as Markdown.

    Differences are of means over the boards, paired by seed. Those of the paper's lambda are taken
    from the kept noise-adaptive one too.
    """
    finals = final(table)
    parts = []
    for boards in (BOARDS, NOISY):
        own = Table(row for row in finals if row["panel"] in boards)
        parts += [_means(own)] if len(own) else []
    return "\n".join(parts)


def _means(finals: Table) -> str:
    boards = finals.values("panel")
    by_seed = {label: _board_means(own) for label, own in finals.by("label")}
    rows = []
    for label, own in finals.by("label"):
        kept = next(option for name, option in KEPT.items() if label.startswith(name))
        means = [own.where(panel=board).mean("regret").value for board in boards]
        rows.append(
            [
                label,
                f"**{sum(means) / len(means):.0f}**",
                _less(by_seed, label, kept),
                _less(by_seed, label, KEPT["ad_lasso, a"]),
                *(f"{mean:.0f}" for mean in means),
            ]
        )
    return markdown(["options", "mean", "less the kept", "less a=0.25", *boards], rows)


def _board_means(own: Table) -> Floats:
    """Return the mean over the boards within each seed, (n_seeds,)."""
    return np.array([rows.column("regret").mean() for _, rows in own.by("seed")])


def _less(by_seed: dict[str, Floats], label: str, other: str) -> str:
    if label == other or other not in by_seed:
        return ""
    return str(mean_of(by_seed[label] - by_seed[other]))


def measure(table: Table, rule: Rule) -> dict[str, Statistic]:
    """Return an empty mapping: no claim is judged here."""
    return {}


EXPERIMENT = Experiment(
    name="tuning",
    title="The options of all agents, chosen alike",
    source="ours: the paper gives no options",
    choices="T=2000, h=100, d=5, noise sd 0.1, other noise for AD-Lasso's options; seeds from "
    f"{FIRST_SEED}; each algorithm takes the options with the lowest mean; of options within noise "
    "of one another, the ones it had",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    bands="bars are means",
    details=details,
    varies=False,
    figure_size=(8.0, 4.6),
)
