"""The sums of a comparison: of each group, of a shadow, and the line of lift over time."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lhb_engine.evaluation.batch_ratio import Refusal
from lhb_engine.evaluation.lift import GroupSums, Lift, lift
from service.lift.exact import dumps, fraction, loads, nearest
from service.session.trial import Trial

GROUPS = ("agent", "control")
MOST_POINTS = 200
POINT_EVERY = 1.02  # the factor by which the measured rounds grow between two points
Totals = tuple[int, int, int]  # measured rounds, rewards, predicted rewards: see `exact`
NOTHING: Totals = (0, 0, 0)
NO_SUMS = GroupSums(0, np.zeros(3, dtype=object), np.zeros((3, 3), dtype=object))


@dataclass(slots=True)
class ShadowSums:
    """How the agent's choices compare with the caller's, over rounds with at least two arms.

    A model scored the arms in `n_scored` rounds; the scores are sums of those of the caller's arm
    and of the agent's.
    """

    n_rounds: int = 0
    n_agree: int = 0
    n_scored: int = 0
    score: float = 0.0
    agent_score: float = 0.0


@dataclass(slots=True)
class LiftSums:
    """All sums of a session's comparison.

    `groups` are of exact numbers: what was corrected or erased leaves nothing in them. `n_left_out`
    counts rewards over rounds of several units. A point of lift so far is measured rounds,
    difference, low, high, Unix seconds.
    """

    groups: dict[str, GroupSums] = field(default_factory=lambda: dict.fromkeys(GROUPS, NO_SUMS))
    shadow: ShadowSums = field(default_factory=ShadowSums)
    n_left_out: int = 0
    points: list[list[float]] = field(default_factory=list)

    def dumps(self) -> str:
        """Return the stored JSON text."""
        groups = {
            name: [one.n_trajectories, _texts(one.totals), _texts(one.products[UPPER], 2)]
            for name, one in self.groups.items()
        }
        shadow = {name: getattr(self.shadow, name) for name in ShadowSums.__slots__}
        left = {"n_left_out": self.n_left_out, "points": self.points}
        return json.dumps({"groups": groups, "shadow": shadow, **left})

    @classmethod
    def loads(cls, text: str) -> "LiftSums":
        """Read a stored text."""
        stored: dict[str, Any] = json.loads(text)
        groups = {
            name: GroupSums(n, _numbers(totals), _numbers(products, 2)[PLACES])
            for name, (n, totals, products) in stored["groups"].items()
        }
        shadow = ShadowSums(**stored["shadow"])
        return cls(groups, shadow, stored["n_left_out"], stored["points"])

    def move(self, group: str, before: Totals, after: Totals) -> None:
        """Replace the totals of a unit by new ones; without measured rounds it does not count."""
        sums = self.groups[group]
        old, new = (one if one[0] > 0 else NOTHING for one in (before, after))
        totals = [now - then for now, then in zip(new, old, strict=True)]
        products = [new[i] * new[j] - old[i] * old[j] for i, j in PAIRS]
        self.groups[group] = GroupSums(
            sums.n_trajectories + (new[0] > 0) - (old[0] > 0),
            sums.totals + np.array(totals, dtype=object),
            sums.products + np.array(products, dtype=object)[PLACES],
        )

    def lift(self, trial: Trial, *, adjusts: bool = True) -> Lift | Refusal:
        """Return the lift so far, or why there is none.

        `adjusts`: whether the model's prediction takes variance away.
        """
        agent, control = (_used(self.groups[name], adjusts) for name in GROUPS)
        return lift(agent, control, trial.planned_rounds)

    @property
    def rounds(self) -> float:
        """Measured rounds of both groups."""
        return sum(nearest(self.groups[name].totals[0]) for name in GROUPS)

    def add_point(self, trial: Trial, now: float) -> None:
        """Add a point to the line of lift if the rounds have grown enough since the last one."""
        last = self.points[-1][0] if self.points else 0.0
        if self.rounds < max(1.0, last * POINT_EVERY):
            return
        lift = self.lift(trial)
        if isinstance(lift, Refusal):
            return
        self.points.append([self.rounds, lift.difference, lift.low, lift.high, now])
        if len(self.points) > MOST_POINTS:
            self.points = self.points[1::2]


UPPER = np.triu_indices(3)  # of the products, which are symmetric
PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
PLACES = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # of each product among these


def _texts(numbers: Any, power: int = 1) -> list[str]:
    return [dumps(one, power) for one in numbers.tolist()]


def _numbers(texts: list[str], power: int = 1) -> Any:
    return np.array([loads(text, power) for text in texts], dtype=object)


def _used(sums: GroupSums, adjusts: bool) -> GroupSums:
    """Return sums as fractions, without the model's prediction unless it is used."""
    used = np.array([1, 1, int(adjusts)], dtype=object)
    totals = np.array([fraction(one) for one in sums.totals], dtype=object)
    products = np.array([[fraction(one, 2) for one in row] for row in sums.products], dtype=object)
    return GroupSums(sums.n_trajectories, totals * used, products * np.outer(used, used))
