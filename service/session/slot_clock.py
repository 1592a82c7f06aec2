"""A session's clock, as asked for and as stored: its rounds, for the model, are slots of time."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, Required

import numpy as np
from pydantic import Field, with_config
from typing_extensions import TypedDict

from lhb_engine.history import Floats, Ints
from service.base.field_types import STRICT, Timestamp
from service.base.problems import Problem, ProblemCode

# all: a reward is a total over all trajectories together. trajectory: it is one of its trajectory
Totals = Literal["all", "trajectory"]
CLOCK_DEFAULTS: dict[str, Any] = {"start": None, "totals": "all"}  # and `late_slots`: the horizon
MOST_SLOTS = 2**31  # since the start
MOST_NUMBERS = 2**20  # of the contexts of a total's slots, 8 MB: a fit has many totals at once
MOST_AT_FIRST = 2**24  # since the start of a new session
MOST_LATE = 2**20  # slots


@with_config(STRICT)
class ClockBody(TypedDict, total=False):
    """Slots of time as the rounds of the model, and totals of slots as rewards."""

    slot_seconds: Annotated[
        Required[int], Field(ge=1, le=10**9, description="length of a slot; lags count slots")
    ]
    start: Annotated[
        Timestamp,
        Field(
            description="when the first slot begins, a whole second; by default the last multiple "
            "of slot_seconds since 1970"
        ),
    ]
    totals: Annotated[
        Totals,
        Field(
            description="what a reward is the total of: all trajectories together (the default), "
            "or its own trajectory"
        ),
    ]
    late_slots: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_LATE,
            description="how many slots before the latest one still take decisions; by default the "
            "horizon",
        ),
    ]


@with_config(STRICT)
class StoredClock(TypedDict):
    """A clock as a session's row stores it."""

    slot_seconds: Annotated[int, Field(ge=1)]
    start: Annotated[int, Field(ge=0, le=10**11)]
    totals: Totals
    late_slots: Annotated[int, Field(ge=0, le=MOST_LATE)]


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of `seconds`, one after the other; slot 1 begins at `start`, in seconds since 1970."""

    seconds: int
    start: int

    def at(self, time: float) -> int:
        """Return the number of the slot into which a time falls; below 1 before the first."""
        return int((time - self.start) // self.seconds) + 1

    def at_each(self, times: Floats) -> Ints:
        """Return the numbers of the slots of an array of times."""
        return ((times - self.start) // self.seconds).astype(np.int64) + 1

    def begin(self, slot: int) -> int:
        """Return when a slot begins, in seconds since 1970."""
        return self.start + (slot - 1) * self.seconds

    def between(self, since: float, until: float) -> tuple[int, int] | None:
        """Return the first and the last slot of an interval; None where it cuts a slot in two."""
        first, after = self.at(since), self.at(until)
        if self.begin(first) != since or self.begin(after) != until or after <= first:
            return None
        return first, after - 1


@dataclass(frozen=True, slots=True)
class SlotClock:
    """The slots of a session, and what its rewards are totals of."""

    slots: Slots
    totals: Totals
    late_slots: int  # how many slots before the latest one that has begun still take decisions

    @property
    def text(self) -> str:
        """The stored JSON text."""
        slots = {"slot_seconds": self.slots.seconds, "start": self.slots.start}
        return json.dumps({**slots, "totals": self.totals, "late_slots": self.late_slots})

    @property
    def is_of_all(self) -> bool:
        """Whether a reward is a total over all trajectories together, not one of its trajectory."""
        return self.totals == "all"

    def owner(self, trajectory: str) -> str:
        """Return the trajectory whose contexts those of one add to."""
        return "" if self.is_of_all else trajectory

    def settled(self, n_begun: int) -> int:
        """Return the last slot that takes no decision any more, once so many have begun."""
        return max(0, n_begun - self.late_slots - 1)


def longest_total(dim: int) -> int:
    """Return over how many slots a total may be; a fit has a context of every one of them."""
    return max(1, MOST_NUMBERS // dim)


@lru_cache(maxsize=256)
def clock_of(text: str | None) -> SlotClock | None:
    """Return the clock of a session from its stored text."""
    if text is None:
        return None
    data = json.loads(text)
    slots = Slots(data["slot_seconds"], data["start"])
    return SlotClock(slots, data["totals"], data["late_slots"])


def asked_clock(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return all members of a clock that is asked for; its start is in Unix seconds."""
    members = {**CLOCK_DEFAULTS, **body}
    start = members["start"]
    return {**members, "start": start.timestamp() if isinstance(start, datetime) else start}


def new_clock(settings: Mapping[str, Any] | None, now: float, horizon: int) -> SlotClock | None:
    """Return the clock of a new session; None if it is given none.

    Slots are counted from `start`, by default from the last multiple of `slot_seconds` since 1970.
    Decisions may be late by `late_slots`, by default the horizon.

    Raises 422 naming the field.
    """
    if settings is None:
        return None
    seconds, start_time = settings["slot_seconds"], settings["start"]
    start = now // seconds * seconds if start_time is None else start_time
    if start != int(start) or not 0 <= start <= now:
        detail = "slots start at a whole second, and not ahead of now"
        raise Problem(ProblemCode.BAD_OPTION, detail, "clock.start")
    slots = Slots(seconds, int(start))
    n = slots.at(now)
    if n > MOST_AT_FIRST:
        detail = f"there were more than {MOST_AT_FIRST} slots since the start"
        raise Problem(ProblemCode.BAD_OPTION, detail, "clock.slot_seconds")
    return SlotClock(slots, settings["totals"], settings.get("late_slots", horizon))
