"""What an experiment is: cases to run, rows they give, a figure and statistics from those rows.

Running and judging are apart: `run` makes rows, which go to a CSV; `draw` and `measure` read the
CSV alone. Verdicts follow from the rules in docs/claims.toml (`claims.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from clients.experiments.framework.claims import Rule, Rulebook, Verdict
from clients.experiments.framework.intervals import Statistic
from clients.experiments.framework.table import Row, Table
from clients.simulator import Player, over_http, play_in_process

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Case = dict[str, Any]  # scalars only; names one unit of work, and leads each of its rows


@dataclass(frozen=True)
class Scale:
    """How large an experiment is run, and in what worlds.

    Attributes
    ----------
    seeds : worlds 0 .. seeds - 1
    noise, arms : of the simulated worlds
    toy : tiny sizes, to see that everything runs
    """

    seeds: int = 40
    noise: float = 0.1
    arms: int = 10
    toy: bool = False

    @property
    def suffix(self) -> str:
        """What tells the files of this scale from those of the default one."""
        parts = [
            f"-noise{self.noise:g}" if self.noise != Scale.noise else "",
            f"-arms{self.arms}" if self.arms != Scale.arms else "",
            "-toy" if self.toy else "",
        ]
        return "".join(parts)


@dataclass(frozen=True)
class Experiment:
    """One figure, theorem or remark of the paper.

    Attributes
    ----------
    name, title : str
    source : where in the paper
    choices : what the paper leaves open and what was chosen
    cases : the units of work at a scale; each holds a seed, so that runs are paired
    run : the rows of one case; depends on nothing but its arguments
    draw : the figure, from the table alone
    measure : the statistic of each setting of a rule, from the table alone; settings that the
        table lacks are left out
    bands : what shading and bars in the figure are
    details : further results as Markdown, from the table alone
    varies : whether `--sensitivity` runs it at other noise and K too
    """

    name: str
    title: str
    source: str
    choices: str
    cases: Callable[[Scale], list[Case]]
    run: Callable[[Case, Scale, Player], list[Row]]
    draw: Callable[[Table, "Figure"], None]
    measure: Callable[[Table, Rule], Mapping[str, Statistic]]
    bands: str = "lines are means, shading is one standard error over seeds"
    details: Callable[[Table], str] | None = None
    varies: bool = True
    figure_size: tuple[float, float] = (9.0, 4.5)

    def judge(self, table: Table, rulebook: Rulebook) -> list[Verdict]:
        """The verdict of each of the experiment's rules."""
        n_seeds = len(table.values("seed"))
        return [Verdict(r, self.measure(table, r), n_seeds) for r in rulebook.of(self.name)]


def run_case(name: str, case: Case, scale: Scale, url: str | None) -> list[Row]:
    """Run one case of a named experiment; a worker process is sent these arguments."""
    from clients.experiments import load_experiment

    player = play_in_process if url is None else over_http(url)
    rows = load_experiment(name).run(case, scale, player)
    return [case | row for row in rows]


def settings_of(experiment: Experiment, scale: Scale) -> dict[str, Any]:
    """Return what the JSON beside the CSV says of a run."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "choices": experiment.choices,
        "scale": asdict(scale),
    }
