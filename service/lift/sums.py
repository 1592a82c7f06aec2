"""The sums of a comparison: of each group, of a shadow, and the line of lift over time."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lhb_engine.evaluation.batch_ratio import Refusal
from lhb_engine.evaluation.lift import GroupSums, Lift, lift
from lhb_engine.history import Floats
from service.session.trial import Trial

GROUPS = ("agent", "control")
MOST_POINTS = 200
POINT_EVERY = 1.02  # the factor by which the measured rounds grow between two points
Totals = tuple[float, float, float]  # measured rounds, rewards, predicted rewards


@dataclass(slots=True)
class ShadowSums:
    """How the agent's choices compare with the caller's, over rounds with at least two arms.

    Attributes
    ----------
    n_rounds, n_agree : int
    n_scored : int
        Rounds in which a model scored the arms.
    score, agent_score : float
        Sums of the scores of the caller's arm and of the agent's.
    """

    n_rounds: int = 0
    n_agree: int = 0
    n_scored: int = 0
    score: float = 0.0
    agent_score: float = 0.0


@dataclass(slots=True)
class LiftSums:
    """All sums of a session's comparison.

    Attributes
    ----------
    groups : dict of GroupSums
        By group.
    shadow : ShadowSums
    n_left_out : int
        Rewards over rounds of several units.
    points : list of list
        Of lift so far: measured rounds, difference, low, high, Unix seconds.
    """

    groups: dict[str, GroupSums] = field(
        default_factory=lambda: {name: _no_sums() for name in GROUPS}
    )
    shadow: ShadowSums = field(default_factory=ShadowSums)
    n_left_out: int = 0
    points: list[list[float]] = field(default_factory=list)

    def dumps(self) -> str:
        """Return the stored JSON text."""
        groups = {
            name: [one.n_trajectories, one.totals.tolist(), one.products.tolist()]
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
            name: GroupSums(n, np.array(totals), np.array(products))
            for name, (n, totals, products) in stored["groups"].items()
        }
        shadow = ShadowSums(**stored["shadow"])
        return cls(groups, shadow, stored["n_left_out"], stored["points"])

    def move(self, group: str, before: Totals, after: Totals) -> None:
        """Replace the totals of a unit by new ones; a unit without measured rounds is none."""
        sums = self.groups[group]
        old, new = (_row(totals) for totals in (before, after))
        self.groups[group] = GroupSums(
            sums.n_trajectories + int(new[0] > 0) - int(old[0] > 0),
            sums.totals + new - old,
            sums.products + np.outer(new, new) - np.outer(old, old),
        )

    def lift(self, trial: Trial, *, adjusts: bool = True) -> Lift | Refusal:
        """Return the lift so far, or why there is none.

        Parameters
        ----------
        trial : Trial
        adjusts : bool
            Whether the model's prediction takes variance away.
        """
        agent, control = (_used(self.groups[name], adjusts) for name in GROUPS)
        return lift(agent, control, trial.planned_rounds)

    @property
    def rounds(self) -> float:
        """Measured rounds of both groups."""
        return sum(self.groups[name].rounds for name in GROUPS)

    def add_point(self, trial: Trial, now: float) -> None:
        """Add a point to the line of lift if the rounds have grown enough since the last one."""
        last = self.points[-1][0] if self.points else 0.0
        if self.rounds < max(1.0, last * POINT_EVERY):
            return
        found = self.lift(trial)
        if isinstance(found, Refusal):
            return
        self.points.append([self.rounds, found.difference, found.low, found.high, now])
        if len(self.points) > MOST_POINTS:
            self.points = self.points[1::2]


def _no_sums() -> GroupSums:
    return GroupSums(0, np.zeros(3), np.zeros((3, 3)))


def _row(totals: Totals) -> Floats:
    """Return the totals as a unit of its group counts them."""
    return np.array(totals) if totals[0] > 0 else np.zeros(3)


def _used(sums: GroupSums, adjusts: bool) -> GroupSums:
    if adjusts:
        return sums
    used = np.array([1.0, 1.0, 0.0])
    return GroupSums(sums.n_trajectories, sums.totals * used, sums.products * np.outer(used, used))
