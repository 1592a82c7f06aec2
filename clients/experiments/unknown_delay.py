"""One nonzero lag weight: a contextual bandit with an unknown delay (Fig. only_1_w)."""

from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.regret_results import compare, draw_panels, regret_table
from clients.experiments.framework.regret_runs import CONTENDERS, cases_of, play
from clients.experiments.framework.table import Row
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player

PANEL = "one lag"


def cases(scale: Scale) -> list[Case]:
    """List all contenders."""
    return cases_of([PANEL], list(CONTENDERS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its regret curve."""
    settings = data_rich(scale, "single", 1)
    return play(CONTENDERS[case["label"]], settings, case["seed"], player)


EXPERIMENT = Experiment(
    name="unknown_delay",
    title="One nonzero lag weight: an unknown delay",
    source="Fig. only_1_w",
    choices="T=2000, h=100, d=5; the lag is uniform over all h",
    cases=cases,
    run=run,
    draw=lambda table, figure: draw_panels(table, figure, 1),
    measure=compare,
    details=regret_table,
    figure_size=(9.0, 4.0),
)
