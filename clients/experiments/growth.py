"""How regret grows with T, and its first phase with h (the two regret theorems)."""

import math
from typing import TYPE_CHECKING

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.plot_style import band, log_ticks
from clients.experiments.framework.regret_runs import Contender, play
from clients.experiments.framework.slopes import log_fit_by_seed, slope_by_seed
from clients.experiments.framework.table import Row, Table, mean_of
from clients.experiments.framework.worlds import DIM, world
from clients.simulator import Player

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AD_LASSO, ORACLE = Contender("ad_lasso"), Contender("oracle_w")
CONTENDERS = {"ad_lasso": AD_LASSO, "oracle_w": ORACLE}
HORIZON, SPARSITY = 100, 5
IN_T = ("flat", "spiking")
IN_H = ("early_mass", "late_mass")


def cases(scale: Scale) -> list[Case]:
    """Curves in T at one h; final regrets of the first h rounds at several h."""
    horizons = (24, 48) if scale.toy else (50, 100, 200, 400, 800)
    return [
        {"panel": panel, "horizon": horizon, "label": label, "seed": seed}
        for patterns, sizes in ((IN_T, (24 if scale.toy else HORIZON,)), (IN_H, horizons))
        for panel in patterns
        for horizon in sizes
        for label in CONTENDERS
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """A curve at rounds 2^j h, or the regret after h rounds."""
    horizon = case["horizon"]
    in_t = case["panel"] in IN_T
    longest = 400 if scale.toy else 100_000
    settings = world(scale, longest if in_t else horizon, horizon, case["panel"], SPARSITY)
    n_points = 40 if in_t else 1
    at = sorted(
        {round(math.exp(math.log(settings.rounds) * (i + 1) / n_points)) for i in range(n_points)}
    )
    return play(CONTENDERS[case["label"]], settings, case["seed"], player, at)


def draw(table: Table, figure: "Figure") -> None:
    """Log axes: against T on the left, against h on the right."""
    left, right = figure.subplots(1, 2)
    for panels, axes, x in ((IN_T, left, "round"), (IN_H, right, "horizon")):
        lines = [(panel, label) for panel in panels for label in CONTENDERS]
        for place, (panel, label) in enumerate(lines):
            shown = table.where(panel=panel, label=label)
            positive = Table(row for row in shown if row["regret"] > 0)
            band(axes, positive, x, "regret", f"{label}, {panel}", place)
        axes.set(xscale="log", yscale="log", ylabel="cumulative regret")
        axes.legend(fontsize=7)
    log_ticks(right, table.where(panel=IN_H[0]).column("horizon").tolist())
    left.set_xlabel("rounds T (h = 100)")
    right.set_xlabel("horizon h (T = h)")


def judge(table: Table) -> list[Claim]:
    """An exponent of at most 1/2 in T once T is large; growth in h of the first phase."""
    horizon = table.where(panel=IN_T[0])[0]["horizon"]
    start = DIM * horizon  # max(dh, h^(2 alpha) / (s d log T)) is dh here
    claims = []
    for panel in IN_T:
        late = Table(
            row for row in table.where(panel=panel, label="ad_lasso") if row["round"] >= start
        )
        slope = mean_of(slope_by_seed(late, "round", "regret"))
        log_fit = mean_of(log_fit_by_seed(late, "round", "regret"))
        claims.append(
            Claim(
                f"R_T is at most of order sqrt(T) once T >= dh (w {panel})",
                f"slope of log R on log T, T from {start}: {slope}; R = a + b log T with b = "
                f"{log_fit}",
                "holds" if slope.value <= 0.5 + 2 * slope.error else "does not hold here",
            )
        )
    slopes = {
        panel: mean_of(
            slope_by_seed(table.where(panel=panel, label="ad_lasso"), "horizon", "regret")
        )
        for panel in IN_H
    }
    claims.append(
        Claim(
            "The regret of the first h rounds grows with h, at most linearly",
            "slope of log R_h on log h: " + "; ".join(f"{k}: {v}" for k, v in slopes.items()),
            "holds"
            if all(2 * v.error < v.value <= 1 + 2 * v.error for v in slopes.values())
            else "does not hold here",
        )
    )
    return claims


EXPERIMENT = Experiment(
    name="growth",
    title="Growth of regret with T and with h",
    source="Theorems on the data-poor and the data-rich regime",
    choices="d=5, s=5; T to 100 000 at h=100; T=h for h of 50 to 800",
    cases=cases,
    run=run,
    draw=draw,
    judge=judge,
    varies=False,
)
