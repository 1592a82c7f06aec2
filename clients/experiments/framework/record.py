"""The record of one run of an experiment: what docs/results.md says of it, and is made from.

Records are committed in docs/results, a JSON file a run, since the CSVs are too large to be. So an
experiment can be run again alone. A record keeps statistics; verdicts are computed from them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.experiments.framework.claims import Rulebook, Verdict
from clients.experiments.framework.experiment import Experiment, Scale
from clients.experiments.framework.figure import caption
from clients.experiments.framework.intervals import Statistic, from_json, to_json
from clients.experiments.framework.table import Table


@dataclass(frozen=True)
class Measured:
    """What was measured for one rule.

    Attributes
    ----------
    claim, agent : str
        The rule's id and the algorithm that it is judged for.
    statistic, factor : str, float
        Those of the rule when it was measured.
    seeds : int
        Number of seeds of the setting that has the fewest.
    settings : mapping of str to Statistic
    """

    claim: str
    agent: str
    statistic: str
    factor: float
    seeds: int
    settings: Mapping[str, Statistic]


@dataclass(frozen=True)
class Record:
    """One run of an experiment.

    Attributes
    ----------
    experiment : str
    caption : str
        Settings, seeds and bands of the figure.
    seeds : tuple of int
        The first one, the last one and their number.
    n_cases : int
    cpu_seconds : float or None
        Processor time of all cases; None where it was not measured.
    commit : str
    identity : dict
        Code, libraries, worlds and transport, as in `sweep.identity`.
    measured : tuple of Measured
    details : str
        Further results, as Markdown.
    """

    experiment: str
    caption: str
    seeds: tuple[int, int, int]
    n_cases: int
    cpu_seconds: float | None
    commit: str
    identity: dict[str, Any]
    measured: tuple[Measured, ...]
    details: str

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        table: Table,
        about: Mapping[str, Any],
        scale: Scale,
        rulebook: Rulebook,
    ) -> "Record":
        """Return the record of a table and of the JSON beside it."""
        seeds = about["seeds"]
        return cls(
            experiment.name,
            caption(experiment, table, scale),
            (seeds[0], seeds[-1], len(seeds)),
            about["n_cases"],
            about["cpu_seconds"],
            about["commit"],
            about["identity"],
            tuple(_measured(verdict) for verdict in experiment.judge(table, rulebook)),
            experiment.details(table) if experiment.details else "",
        )

    def verdicts(self, rulebook: Rulebook) -> list[Verdict]:
        """Return the verdict of each rule; a rule whose statistic has changed has no settings."""
        measured = {(m.claim, m.agent): m for m in self.measured}
        out = []
        for rule in rulebook.of(self.experiment):
            own = measured.get((rule.id, rule.agent))
            same = own is not None and (own.statistic, own.factor) == (rule.statistic, rule.factor)
            out.append(
                Verdict(rule, own.settings, own.seeds) if own and same else Verdict(rule, {}, 0)
            )
        return out

    def write(self, path: Path) -> None:
        """Write the record as JSON."""
        measured = [
            vars(m) | {"settings": {name: to_json(s) for name, s in m.settings.items()}}
            for m in self.measured
        ]
        stored = vars(self) | {"measured": measured, "details": self.details.split("\n")}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Read a record that `write` has written."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        measured = tuple(
            Measured(**m | {"settings": {name: from_json(s) for name, s in m["settings"].items()}})
            for m in stored["measured"]
        )
        lists = {"seeds": tuple(stored["seeds"]), "details": "\n".join(stored["details"])}
        return cls(**stored | lists | {"measured": measured})


def _measured(verdict: Verdict) -> Measured:
    rule = verdict.rule
    return Measured(
        rule.id, rule.agent, rule.statistic, rule.factor, verdict.seeds, verdict.measured
    )


def record_path(target: Path, name: str, scale: Scale) -> Path:
    """Return the path of a record: in a folder named as the report `target`, beside it."""
    return target.with_suffix("") / f"{name}{scale.suffix}.json"
