"""A session's clock: its rounds, for the model, are slots of time.

Decisions are stored as in any session, each with its own `round` and position; their slot follows
from their time. Measurements of such a session are over slots. Fits, and the schedule of fits,
count slots.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from lhb_engine.randomness import Draw
from lhb_engine.slots import Slots
from service.base.problems import Problem, ProblemCode
from service.session.records import SessionRow

# all: a reward is a total over all trajectories together. trajectory: it is one of its trajectory
Totals = Literal["all", "trajectory"]
CLOCK_DEFAULTS: dict[str, Any] = {"start": None, "totals": "all"}  # and `late_slots`: the horizon
STRETCH = 256  # slots that are kept in one row, at most
MOST_SLOTS = 2**31  # since the start
MOST_AT_FIRST = 2**24  # since the start of a new session
MOST_LATE = 2**20  # slots
AHEAD_SECONDS = 60.0  # by which a client's clock may be ahead of the server's


@dataclass(frozen=True, slots=True)
class SlotClock:
    """The slots of a session, and what its rewards are totals of.

    Attributes
    ----------
    slots : Slots
    totals : str
    late_slots : int or None
        How many slots before the latest one that has begun still take decisions. None, in sessions
        from before there was a bound: all of them do.
    """

    slots: Slots
    totals: Totals = "all"
    late_slots: int | None = None

    def dumps(self) -> str:
        """Return the stored JSON text."""
        found = {"slot_seconds": self.slots.seconds, "start": self.slots.start}
        return json.dumps({**found, "totals": self.totals, "late_slots": self.late_slots})

    def settled(self, n_begun: int) -> int:
        """Return the last slot that takes no decision any more, once so many have begun."""
        return 0 if self.late_slots is None else max(0, n_begun - self.late_slots - 1)


@lru_cache(maxsize=256)
def clock_of(text: str | None) -> SlotClock | None:
    """Return the clock of a session from its stored text; None if it has none."""
    if text is None:
        return None
    data = json.loads(text)
    slots = Slots(data["slot_seconds"], data["start"])
    return SlotClock(slots, data["totals"], data.get("late_slots"))


def new_clock(asked: Mapping[str, Any] | None, now: float, horizon: int) -> str | None:
    """Return the clock of a new session, as stored; None if it is given none.

    Slots are counted from `start`, by default from the last multiple of `slot_seconds` since 1970.
    Decisions may be late by `late_slots`, by default the horizon.

    Raises
    ------
    Problem
        422 naming the field.
    """
    if asked is None:
        return None
    seconds, given = asked["slot_seconds"], asked["start"]
    start = now // seconds * seconds if given is None else given
    if start != int(start) or not 0 <= start <= now:
        detail = "slots start at a whole second, and not ahead of now"
        raise Problem(ProblemCode.BAD_OPTION, detail, "clock.start")
    slots = Slots(seconds, int(start))
    if slots.at(now) > MOST_AT_FIRST:
        detail = f"there were more than {MOST_AT_FIRST} slots since the start"
        raise Problem(ProblemCode.BAD_OPTION, detail, "clock.slot_seconds")
    return SlotClock(slots, asked["totals"], asked.get("late_slots", horizon)).dumps()


def check_stored_clock(text: str) -> None:
    """Raise ValueError unless a stored text is a clock's."""
    data = json.loads(text)
    names = {"slot_seconds", "start", "totals"}
    fits = isinstance(data, dict) and data.keys() | {"late_slots"} == names | {"late_slots"}
    fits = fits and type(data["slot_seconds"]) is int and type(data["start"]) is int
    late = data.get("late_slots") if fits else None
    fits = fits and (late is None or (type(late) is int and 0 <= late <= MOST_LATE))
    fits = fits and data["slot_seconds"] >= 1 and 0 <= data["start"] <= 10**11
    if not fits or data["totals"] not in ("all", "trajectory"):
        raise ValueError("clock: not one that the service writes")


def time_of(clock: SlotClock, at: float | None, now: float, n_begun: int = 0) -> float:
    """Return when a decision was taken: when the client says, or now.

    Where the server's clock is behind, now is the first time that its session still takes.

    Parameters
    ----------
    clock : SlotClock
    at : float or None
        As the client says.
    now : float
    n_begun : int
        The slots that have begun.

    Raises
    ------
    Problem
        422: it is before the first slot, ahead, or in a slot that takes no decision any more.
    """
    settled = clock.settled(n_begun)
    if at is None:
        return max(now, clock.slots.begin(settled + 1))
    if clock.slots.at(at) < 1:
        raise Problem(ProblemCode.OUT_OF_RANGE, "it is before the session's first slot", "at")
    if at > now + AHEAD_SECONDS:
        raise Problem(ProblemCode.OUT_OF_RANGE, "it is ahead of the server's clock", "at")
    if clock.slots.at(at) <= settled:
        detail = f"it is too late: slot {n_begun} has begun, and clock.late_slots is"
        raise Problem(ProblemCode.OUT_OF_RANGE, f"{detail} {clock.late_slots}", "at")
    return max(min(at, now), clock.slots.begin(settled + 1))


def slots_between(clock: SlotClock, since: float, until: float, prefix: str) -> tuple[int, int]:
    """Return the first and the last slot of an interval.

    Raises
    ------
    Problem
        422 out_of_range: the interval cuts a slot in two, or begins before the first.
    """
    found = clock.slots.between(since, until)
    if found is None:
        ends = zip(("from", "to"), (since, until), strict=True)
        cut = (name for name, end in ends if (end - clock.slots.start) % clock.slots.seconds)
        detail = f"an interval begins and ends with a slot, of {clock.slots.seconds} s"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, prefix + next(cut))
    if found[0] < 1:
        detail = "it is before the session's first slot"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, f"{prefix}from")
    return found


def draw_of(session: SessionRow, trajectory: str, round: int, position: int, at: float) -> Draw:
    """Return the randomness of a decision.

    Where a reward is a total over all trajectories, they are one for the agent: they explore in
    step, as their contexts add up.
    """
    clock = clock_of(session.clock)
    if clock is None:
        return Draw(session.seed, trajectory, round, position)
    slot = clock.slots.at(at)
    if clock.totals == "all":
        return Draw(session.seed, "", position, position, slot)
    return Draw(session.seed, trajectory, round, position, slot)
