"""One nonzero lag weight: a contextual bandit with an unknown delay (Fig. only_1_w)."""

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.regret_runs import (
    CONTENDERS,
    cases_of,
    compare,
    draw_panels,
    final,
    lower,
    not_higher,
    play,
)
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player

PANEL = "one lag"


def cases(scale: Scale) -> list[Case]:
    """All contenders."""
    return cases_of([PANEL], list(CONTENDERS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """One run's regret curve."""
    settings = data_rich(scale, "single", 1)
    return play(CONTENDERS[case["label"]], settings, case["seed"], player)


def judge(table: Table) -> list[Claim]:
    """The paper's claims."""
    finals = final(table)
    return [
        compare(
            finals,
            "AD-Lasso does nearly as well as SW-MP and UCB-MP",
            [(PANEL, "ad_lasso", other) for other in ("sw_mp", "ucb_mp")],
            not_higher,
        ),
        compare(
            finals,
            "Low-rank recovery (SA-GD) performs poorly: AD-Lasso is well below it",
            [(PANEL, "ad_lasso", "sa_gd")],
            lower,
        ),
    ]


EXPERIMENT = Experiment(
    name="unknown_delay",
    title="One nonzero lag weight: an unknown delay",
    source="Fig. only_1_w",
    choices="T=2000, h=100, d=5; the lag is uniform over all h",
    cases=cases,
    run=run,
    draw=lambda table, figure: draw_panels(table, figure, 1),
    judge=judge,
    figure_size=(6.0, 4.0),
)
