"""The sums of a comparison: of each group, of a shadow, and the line of lift over time."""

import json
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from lhb_engine.evaluation.batch_ratio import Refusal
from lhb_engine.evaluation.lift import (
    GroupSums,
    Lift,
    Narrowing,
    always_valid_quantile,
    lift,
    of_past,
    rounds_differ,
)
from service.lift.exact import ONE, dumps, exact, fraction, loads, nearest
from service.session.trial import Trial

GROUPS = ("agent", "control")
MOST_POINTS = 200
FEW_POINTS = 3  # of the line, of which no fall is told
LEAST_SPAN = 1.5  # of a unit's rounds, within which no fall is told
N_UNITS = 5  # the place of the number of units in a point
DAY = 86_400.0
POINT_EVERY = 1.02  # the factor by which the measured rounds grow between two points
Totals = tuple[int, int, int]  # measured rounds, rewards, predicted rewards: see `exact`
NOTHING: Totals = (0, 0, 0)
# of a unit, and behind them the two of its own past: rounds times `of_past`
Row = tuple[int, int, int, int, int]
NO_ROW: Row = (0, 0, 0, 0, 0)
N = len(NO_ROW)
NO_SUMS = GroupSums(0, np.zeros(N, dtype=object), np.zeros((N, N), dtype=object))


def row_of(totals: Totals, past: Totals = NOTHING) -> Row:
    """Return the row of a unit with these totals, and those of its own past."""
    n, earned = nearest(past[0]), nearest(past[1])
    if not n > 0.0 or not isfinite(earned):
        return (*totals, 0, 0)
    weight, mean = of_past(np.array(n), np.array(earned)).tolist()
    rounds = totals[0] // ONE
    return (*totals, rounds * exact(weight), rounds * exact(mean))


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
    difference, low, high, Unix seconds, units. `past_to` is the position of the last round before
    the first one that anybody played for a group; None if nobody has: all rounds are the past.
    """

    groups: dict[str, GroupSums] = field(default_factory=lambda: dict.fromkeys(GROUPS, NO_SUMS))
    shadow: ShadowSums = field(default_factory=ShadowSums)
    n_left_out: int = 0
    points: list[list[float]] = field(default_factory=list)
    past_to: int | None = None

    def dumps(self) -> str:
        """Return the stored JSON text."""
        groups = {
            name: [one.n_trajectories, _texts(one.totals), _texts(one.products[UPPER], 2)]
            for name, one in self.groups.items()
        }
        shadow = {name: getattr(self.shadow, name) for name in ShadowSums.__slots__}
        left = {name: getattr(self, name) for name in ("n_left_out", "points", "past_to")}
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
        return cls(groups, shadow, stored["n_left_out"], stored["points"], stored["past_to"])

    def move(self, group: str, before: Row, after: Row) -> None:
        """Replace the row of a unit by a new one; without measured rounds it does not count."""
        sums = self.groups[group]
        old, new = (one if one[0] > 0 else NO_ROW for one in (before, after))
        totals = [now - then for now, then in zip(new, old, strict=True)]
        products = [new[i] * new[j] - old[i] * old[j] for i, j in PAIRS]
        self.groups[group] = GroupSums(
            sums.n_trajectories + (new[0] > 0) - (old[0] > 0),
            sums.totals + np.array(totals, dtype=object),
            sums.products + np.array(products, dtype=object)[PLACES],
        )

    def lift(
        self,
        trial: Trial,
        *,
        in_all: bool = False,
        adjusts: bool = True,
        units: str = "trajectories",
    ) -> Lift | Refusal:
        """Return the lift so far a round, or a unit in all, or why there is none.

        `adjusts`: whether the model's prediction takes variance away; `units` are what units are.
        """
        agent, control = (_used(self.groups[name], adjusts) for name in GROUPS)
        return lift(agent, control, trial.planned_rounds, units=units, in_all=in_all)

    @property
    def is_in_all(self) -> bool:
        """Whether what a unit brings in all decides: the groups' units have unlike rounds."""
        agent, control = (_used(self.groups[name], adjusts=False) for name in GROUPS)
        return rounds_differ(agent, control)

    @property
    def n_units(self) -> int:
        """Measured units of both groups."""
        return sum(self.groups[name].n_trajectories for name in GROUPS)

    @property
    def rounds(self) -> float:
        """Measured rounds of both groups."""
        return sum(nearest(self.groups[name].totals[0]) for name in GROUPS)

    def narrowing(self, trial: Trial) -> Narrowing:
        """Return how the standard error falls, by the points of late: docs/model.md (13.8)."""
        line = [one for one in self.points if one[3] > one[2] and len(one) > N_UNITS]
        recent = np.array([one for one in line if 4.0 * one[0] >= line[-1][0]])
        if len(recent) < FEW_POINTS:
            return Narrowing(None, 0.0)
        rounds, _, low, high, _, units = recent.T
        growth = np.ptp(units) / units[-1] / max(1.0 - rounds[0] / rounds[-1], 1e-9)
        errors = (high - low) / always_valid_quantile(rounds / trial.planned_rounds)
        seldom, squares = units / rounds, errors**2 * units
        if seldom.max() < LEAST_SPAN * seldom.min():
            return Narrowing(None, min(growth, 1.0))
        slope, lasting = np.polyfit(seldom, squares, 1)
        lasting = np.clip(lasting / (lasting + slope * seldom[-1]), 0.0, 1.0)
        return Narrowing(float(lasting), min(growth, 1.0))

    def rounds_a_day(self) -> float | None:
        """Return how many measured rounds a day there were of late; None from less than a day."""
        if not self.points:
            return None
        last = self.points[-1]
        first = next(one for one in self.points if 4.0 * one[0] >= last[0])
        days = (last[4] - first[4]) / DAY
        return (last[0] - first[0]) / days if days >= 1.0 else None

    def add_point(self, trial: Trial, now: float) -> None:
        """Add a point to the line of lift if the rounds have grown enough since the last one."""
        last = self.points[-1][0] if self.points else 0.0
        if self.rounds < max(1.0, last * POINT_EVERY):
            return
        lift = self.lift(trial)
        if isinstance(lift, Refusal):
            return
        place = self.rounds, lift.difference, lift.low, lift.high, now
        self.points.append([*place, float(self.n_units)])
        if len(self.points) > MOST_POINTS:
            self.points = self.points[1::2]


UPPER = np.triu_indices(N)  # of the products, which are symmetric
PAIRS = [*zip(*(part.tolist() for part in UPPER), strict=True)]
PLACES = np.zeros((N, N), dtype=np.int64)  # of each product among these
PLACES[UPPER] = PLACES.T[UPPER] = np.arange(len(PAIRS))


def _texts(numbers: Any, power: int = 1) -> list[str]:
    return [dumps(one, power) for one in numbers.tolist()]


def _numbers(texts: list[str], power: int = 1) -> Any:
    return np.array([loads(text, power) for text in texts], dtype=object)


def _used(sums: GroupSums, adjusts: bool) -> GroupSums:
    """Return sums as fractions, without the model's prediction unless it is used."""
    used = np.array([1, 1, int(adjusts), 1, 1], dtype=object)
    totals = np.array([fraction(one) for one in sums.totals], dtype=object)
    products = np.array([[fraction(one, 2) for one in row] for row in sums.products], dtype=object)
    return GroupSums(sums.n_trajectories, totals * used, products * np.outer(used, used))
