"""An experiment: cases to run, the rows they return, and a figure and statistics from those rows.

Running and judging are separate. `run` returns rows, which are written to a CSV; `draw` and
`measure` read only the CSV. Verdicts follow from the rules in docs/claims.toml (`claims.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from clients.experiments import load_experiment
from clients.experiments.framework.claims import Rule, Rulebook, Verdict
from clients.experiments.framework.intervals import SeedMean, Statistic
from clients.experiments.framework.table import Row, Table
from clients.simulator import Player, over_http, play_in_process

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Case = dict[str, Any]  # scalars that identify one unit of work; its rows begin with them


@dataclass(frozen=True)
class Scale:
    """The size of an experiment, and the parameters of its worlds.

    Attributes
    ----------
    seeds : int
        Number of worlds; their seeds are 0 .. seeds - 1.
    noise, arms : float, int
        Noise standard deviation and number of arms of the simulated worlds.
    toy : bool
        Use tiny sizes, to test that everything runs.
    """

    seeds: int = 40
    noise: float = 0.1
    arms: int = 10
    toy: bool = False

    @property
    def suffix(self) -> str:
        """The suffix of this scale's file names; empty for the default scale."""
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
    source : str
        Its place in the paper.
    choices : str
        What the paper leaves open, and what was chosen.
    cases : callable
        Returns the units of work at a scale. Each holds a seed, so that runs are paired.
    run : callable
        Returns the rows of one case; it depends on its arguments alone.
    draw : callable
        Draws the figure from the table.
    measure : callable
        Returns the statistic of each setting of a rule from the table. Settings that the table
        lacks are left out.
    bands : str
        What shading and bars in the figure are.
    details : callable or None
        Returns further results from the table, as Markdown.
    varies : bool
        `--sensitivity` also runs it with other noise and K.
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
        """Return the verdict of each of the experiment's rules."""
        n_seeds = len(table.values("seed"))
        out = []
        for rule in rulebook.of(self.name):
            measured = self.measure(table, rule)
            means = [len(s.values) for s in measured.values() if isinstance(s, SeedMean)]
            out.append(Verdict(rule, measured, min([n_seeds, *means])))
        return out


def run_case(name: str, case: Case, scale: Scale, url: str | None) -> list[Row]:
    """Run one case of a named experiment; all arguments can be pickled for a worker process."""
    player = play_in_process if url is None else over_http(url)
    rows = load_experiment(name).run(case, scale, player)
    return [case | row for row in rows]


def settings_of(experiment: Experiment, scale: Scale) -> dict[str, Any]:
    """Return the settings that are written to the JSON file beside the CSV."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "choices": experiment.choices,
        "scale": asdict(scale),
    }
