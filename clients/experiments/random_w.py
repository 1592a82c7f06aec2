"""Uniformly random lag weights (Fig. randm_w)."""

from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.regret_results import compare, draw_panels, regret_table
from clients.experiments.framework.regret_runs import CONTENDERS, cases_of, play
from clients.experiments.framework.table import Row
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player, SimulationSettings

SPARSITIES = (2, 5, 15, 30)


def worlds(scale: Scale) -> dict[str, SimulationSettings]:
    """Return the settings of each panel."""
    return {
        f"random s={s}": data_rich(scale, "random", s)
        for s in (SPARSITIES[:2] if scale.toy else SPARSITIES)
    }


def cases(scale: Scale) -> list[Case]:
    """List all contenders in all panels."""
    return cases_of(list(worlds(scale)), list(CONTENDERS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its regret curve."""
    return play(CONTENDERS[case["label"]], worlds(scale)[case["panel"]], case["seed"], player)


EXPERIMENT = Experiment(
    name="random_w",
    title="Uniformly random lag weights",
    source="Fig. randm_w",
    choices="T=2000, h=100, d=5; weights uniform on (0, 1), then normalised",
    cases=cases,
    run=run,
    draw=draw_panels,
    measure=compare,
    details=regret_table,
    figure_size=(11.0, 3.2),
)
