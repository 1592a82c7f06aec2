"""The rules of docs/claims.toml, and the verdicts that follow from them.

A rule is written before anything is measured. It names the statistic, the settings and the number
of seeds that decide a claim. A verdict is computed from a rule and measured statistics alone. A
claim measured in other settings, or on too few seeds, is not judged.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from clients.experiments.framework.intervals import Interval, Statistic

PATH = Path(__file__).resolve().parents[3] / "docs" / "claims.toml"
LEAST_SEEDS = 10  # from this many seeds on, but fewer than the rule's, a verdict is provisional
ERROR = 0.05  # error probability of a claim, divided by its number of settings (Bonferroni)
RATE_MARGIN = 0.1  # an exponent further below its bound does not show the bound's rate

Relation = Literal["below", "above", "within"]
Quantifier = Literal["all", "most"]


class Outcome(StrEnum):
    """The possible verdicts."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Rule:
    """The rule that decides one claim.

    Attributes
    ----------
    id : str
        "EXPERIMENT.NAME".
    says : str
        The claim.
    place : str
        Where the paper says it; "ours" if it does not.
    statistic : str
        What is measured in each setting, in words.
    settings : tuple of str
        Names of the settings; a verdict needs exactly these.
    relation, target, margin : str, float, float
        The statistic must be below the target, above it, or within the margin of it.
    quantifier : str
        Whether all settings or more than half of them must agree.
    seeds : int
        Number of seeds required; with fewer the verdict is provisional.
    factor : float
        In a comparison of regrets: the first must be below this multiple of the other.
    agents : tuple of str
        Algorithms that the claim is judged for, with a verdict each; if empty there is one verdict.
    agent : str
        The algorithm of this rule.
    bound : bool
        The target is an exponent that the paper gives as an upper bound.
    doubt : str
        Why the verdict says little; shown beside it.
    last : str
        The verdict in the last edition of the report; "new" if there was none.
    changes : tuple of (date, reason)
        All changes of the rule.

    Raises
    ------
    ValueError
        A field has an unknown value, or settings are missing or repeated.
    """

    id: str
    says: str
    place: str
    statistic: str
    settings: tuple[str, ...]
    relation: Relation
    target: float = 0.0
    margin: float = 0.0
    quantifier: Quantifier = "all"
    seeds: int = 40
    factor: float = 1.0
    agents: tuple[str, ...] = ()
    agent: str = ""
    bound: bool = False
    doubt: str = ""
    last: str = "new"
    changes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise ValueError(f"{self.id}: relation {self.relation!r}")
        if self.quantifier not in get_args(Quantifier):
            raise ValueError(f"{self.id}: quantifier {self.quantifier!r}")
        if not self.settings or len(set(self.settings)) < len(self.settings):
            raise ValueError(f"{self.id}: settings are missing or repeated")
        if (self.relation == "within") != (self.margin > 0):
            raise ValueError(f"{self.id}: a margin belongs to `within`, and only there")

    @property
    def experiment(self) -> str:
        """The name of its experiment."""
        return self.id.partition(".")[0]

    @property
    def name(self) -> str:
        """The claim's name within its experiment."""
        return self.id.partition(".")[2]

    @property
    def title(self) -> str:
        """The claim, with the algorithm that it is judged for."""
        return f"{self.says} ({self.agent})" if self.agent else self.says

    def decide(self, interval: Interval) -> Outcome:
        """Return the outcome of one setting, from the interval of its statistic."""
        low, high = self.target - self.margin, self.target + self.margin
        if self.relation == "below":
            holds, fails = interval.high < self.target, interval.low >= self.target
        elif self.relation == "above":
            holds, fails = interval.low > self.target, interval.high <= self.target
        else:
            holds = low < interval.low and interval.high < high
            fails = interval.high <= low or interval.low >= high
        return Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.UNDECIDED


NO_RATE = "its rate is not seen"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim, computed from its rule and the measured statistics.

    Parameters
    ----------
    rule : Rule
    measured : mapping of setting to Statistic
    seeds : int
        Number of distinct seeds they were measured on.
    """

    rule: Rule
    measured: Mapping[str, Statistic] = field(repr=False)
    seeds: int

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The confidence interval of each setting, with joint level 1 - ERROR."""
        level = 1 - ERROR / len(self.rule.settings)
        names = [name for name in self.rule.settings if name in self.measured]
        return {name: self.measured[name].interval(level) for name in names}

    @cached_property
    def parts(self) -> dict[str, Outcome]:
        """The outcome of each setting."""
        return {name: self.rule.decide(interval) for name, interval in self.intervals.items()}

    @property
    def obstacle(self) -> str:
        """The reason why there is no verdict; empty if there is one."""
        if not self.measured:
            return "not measured by this rule"
        absent = set(self.rule.settings) - set(self.measured)
        other = set(self.measured) - set(self.rule.settings)
        if absent or other:
            return f"its rule names other settings ({', '.join(sorted(absent | other))})"
        return self._few_seeds if self.seeds < min(LEAST_SEEDS, self.rule.seeds) else ""

    @property
    def _few_seeds(self) -> str:
        few = self.seeds < self.rule.seeds
        return f"{self.seeds} of {self.rule.seeds} seeds" if few else ""

    @cached_property
    def outcome(self) -> Outcome:
        """The verdict."""
        if self.obstacle:
            return Outcome.NOT_JUDGED
        outcomes = list(self.parts.values())
        n_holds, n_fails = outcomes.count(Outcome.HOLDS), outcomes.count(Outcome.FAILS)
        if self.rule.quantifier == "all":
            holds, fails = n_holds == len(outcomes), n_fails > 0
        else:
            holds, fails = 2 * n_holds > len(outcomes), 2 * n_fails >= len(outcomes)
        return Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.UNDECIDED

    @property
    def note(self) -> str:
        """The remark shown beside the verdict; empty if there is none."""
        doubt = [self.rule.doubt] if self.rule.doubt and not self.obstacle else []
        return "; ".join([*doubt, *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """What this verdict's own statistics add; the rule's doubt is of all its verdicts."""
        if self.obstacle:
            return [self.obstacle]
        notes = [f"provisional, {self._few_seeds}"] if self._few_seeds else []
        highest = max(interval.high for interval in self.intervals.values())
        holds = self.outcome is Outcome.HOLDS
        if self.rule.bound and holds and highest < self.rule.target - RATE_MARGIN:
            lowest = min(interval.low for interval in self.intervals.values())
            growth = "no growth seen: " if lowest <= 0 < self.rule.target else ""
            notes.append(f"{growth}within the bound; {NO_RATE}")
        outcomes = list(self.parts.values())
        if len(set(outcomes)) > 1 and not holds:
            notes.append(", ".join(f"{outcomes.count(o)} {o}" for o in Outcome if o in outcomes))
        return notes

    def __str__(self) -> str:
        return f"{self.outcome} ({self.note})" if self.note else str(self.outcome)


@dataclass(frozen=True)
class Item:
    """One figure, theorem, lemma, remark or sentence of the paper.

    Attributes
    ----------
    place, what : str
        Where it is in the paper, and what it says.
    claims : tuple of str
        Ids of the rules that judge it.
    reason : str
        Why there are no such rules.

    Raises
    ------
    ValueError
        There are both claims and a reason, or neither.
    """

    place: str
    what: str
    claims: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if bool(self.claims) == bool(self.reason):
            raise ValueError(f"{self.place}: either claims or the reason why there are none")


@dataclass(frozen=True)
class Rulebook:
    """The content of docs/claims.toml."""

    rules: tuple[Rule, ...]
    items: tuple[Item, ...]

    def of(self, experiment: str) -> list[Rule]:
        """Return the rules of one experiment."""
        return [rule for rule in self.rules if rule.experiment == experiment]

    def seeds(self, experiment: str) -> int:
        """Return the number of seeds that suffices for all verdicts of an experiment.

        One without rules plays as many as a rule asks for unless it says otherwise.
        """
        return max((rule.seeds for rule in self.of(experiment)), default=Rule.seeds)


def load_rulebook(path: Path = PATH) -> Rulebook:
    """Read and check the rules.

    Raises
    ------
    ValueError
        A rule lacks a required field, has an unknown one, or is listed twice.
    """
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    rules = [rule for entry in data["claim"] for rule in _rules_of(entry)]
    if len({(rule.id, rule.agent) for rule in rules}) < len(rules):
        raise ValueError("a claim is listed twice")
    items = [Item(**(entry | {"claims": tuple(entry.get("claims", ()))})) for entry in data["item"]]
    ids = {rule.id for rule in rules}
    for item in items:
        if unknown := set(item.claims) - ids:
            raise ValueError(f"{item.place}: no claim {', '.join(sorted(unknown))}")
    return Rulebook(tuple(rules), tuple(items))


def _rules_of(entry: dict[str, Any]) -> list[Rule]:
    """Return one rule, or one for each of its agents."""
    if unknown := set(entry) - {f.name for f in fields(Rule)}:
        raise ValueError(f"{entry.get('id')}: unknown {', '.join(sorted(unknown))}")
    changes = tuple((str(c["date"]), c["reason"]) for c in entry.get("changes", ()))
    lists = {name: tuple(entry.get(name, ())) for name in ("settings", "agents")}
    agents = lists["agents"] or ("",)
    return [Rule(**(entry | lists | {"changes": changes, "agent": agent})) for agent in agents]
