"""Uniformly random lag weights (Fig. randm_w)."""

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.regret_runs import (
    CONTENDERS,
    cases_of,
    compare,
    draw_panels,
    final,
    lower,
    play,
)
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player, SimulationSettings

SPARSITIES = (2, 5, 15, 30)


def worlds(scale: Scale) -> dict[str, SimulationSettings]:
    """Settings by panel."""
    return {
        f"random s={s}": data_rich(scale, "random", s)
        for s in (SPARSITIES[:2] if scale.toy else SPARSITIES)
    }


def cases(scale: Scale) -> list[Case]:
    """All contenders in all panels."""
    return cases_of(list(worlds(scale)), list(CONTENDERS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """One run's regret curve."""
    return play(CONTENDERS[case["label"]], worlds(scale)[case["panel"]], case["seed"], player)


def judge(table: Table) -> list[Claim]:
    """The paper's claims."""
    finals = final(table)
    names = finals.values("panel")
    rivals = ("sa_gd", "sw_mp", "ucb_mp")
    return [
        compare(
            finals,
            "AD-Lasso performs best most of the time",
            [(panel, "ad_lasso", other) for panel in names for other in rivals],
            lower,
        ),
        compare(
            finals,
            "AD-Lasso outperforms SA-GD even where sd is much larger than h + d (s = 30)",
            [("random s=30", "ad_lasso", "sa_gd")],
            lower,
        ),
    ]


EXPERIMENT = Experiment(
    name="random_w",
    title="Uniformly random lag weights",
    source="Fig. randm_w",
    choices="T=2000, h=100, d=5; weights uniform on (0, 1), then normalised",
    cases=cases,
    run=run,
    draw=draw_panels,
    judge=judge,
    figure_size=(11.0, 3.2),
)
