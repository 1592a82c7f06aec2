"""The keys of the rows that a batch asks for, and the rows that it has."""

from dataclasses import dataclass, field
from typing import Any

from service.session.records import (
    DecisionRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    number_in,
)

EventKey = tuple[TrajectoryKey, str]  # a trajectory, and a client's event id or reward id
NumberKey = tuple[TrajectoryKey, int]  # a trajectory, and the number or the round of a decision


@dataclass(slots=True)
class Keys:
    """Keys of the rows to fetch, by kind.

    A batch announces its keys before it runs. They are a hint: commands may read fewer rows, or
    others.

    Attributes
    ----------
    sessions, trajectories : set
        Sessions and trajectories to lock and read.
    events, numbers, rounds : set
        Decisions by the client's event id, by number, and the first decision of a round.
    rewards : set
        Measurements by reward id.
    measured : set
        Rounds whose covering measurement is wanted.
    """

    sessions: set[SessionKey] = field(default_factory=set)
    trajectories: set[TrajectoryKey] = field(default_factory=set)
    events: set[EventKey] = field(default_factory=set)
    numbers: set[NumberKey] = field(default_factory=set)
    rounds: set[NumberKey] = field(default_factory=set)
    rewards: set[EventKey] = field(default_factory=set)
    measured: set[NumberKey] = field(default_factory=set)

    def add_event(self, trajectory: TrajectoryKey, event_id: str) -> None:
        """Add the key of a decision, given the client's or the server's event id."""
        number = number_in(event_id)
        if number is None:
            self.events.add((trajectory, event_id))
        else:
            self.numbers.add((trajectory, number))


@dataclass(slots=True)
class KnownRows:
    """Rows that a batch has fetched or added. None means that there is no such row.

    Attributes
    ----------
    sessions, trajectories : dict
        Sessions and trajectories by key.
    events, numbers, rounds : dict
        Decisions by the client's event id, by number, and the first decision of a round.
    rewards : dict
        Measurements by reward id.
    measured : dict
        Stored measurements by a round that they cover.
    """

    sessions: dict[SessionKey, SessionRow | None] = field(default_factory=dict)
    trajectories: dict[TrajectoryKey, TrajectoryRow | None] = field(default_factory=dict)
    events: dict[EventKey, DecisionRow | None] = field(default_factory=dict)
    numbers: dict[NumberKey, DecisionRow | None] = field(default_factory=dict)
    rounds: dict[NumberKey, DecisionRow | None] = field(default_factory=dict)
    rewards: dict[EventKey, MeasurementRow | None] = field(default_factory=dict)
    measured: dict[NumberKey, MeasurementRow | None] = field(default_factory=dict)

    def expect(self, keys: Keys) -> None:
        """Enter None for each of these keys that is not known yet; rows found later replace it."""
        kinds: tuple[tuple[dict[Any, Any], set[Any]], ...] = (  # not by getattr: every batch asks
            (self.sessions, keys.sessions),
            (self.trajectories, keys.trajectories),
            (self.events, keys.events),
            (self.numbers, keys.numbers),
            (self.rounds, keys.rounds),
            (self.rewards, keys.rewards),
            (self.measured, keys.measured),
        )
        for rows, wanted in kinds:
            for key in wanted:
                rows.setdefault(key, None)

    def add_decision(self, decision: DecisionRow) -> None:
        """Enter a decision under its event id, its number and its round."""
        key = decision[:3]
        if decision.client_event_id is not None:
            self.events[key, decision.client_event_id] = decision
        self.numbers[key, decision.number] = decision
        if self.rounds.get((key, decision.round)) is None:
            self.rounds[key, decision.round] = decision

    def forget_trajectory(self, trajectory: TrajectoryKey) -> None:
        """Remove all rows of an erased trajectory."""
        self.trajectories[trajectory] = None
        for kind in self.__slots__[2:]:
            rows = getattr(self, kind)
            for key in [key for key in rows if key[0] == trajectory]:
                rows[key] = None

    def forget_rounds(self, session: SessionKey) -> None:
        """Remove all rows of the session's rounds: some are dropped."""
        for kind in self.__slots__[2:]:
            rows = getattr(self, kind)
            for key in [key for key in rows if key[0][:2] == session]:
                del rows[key]

    def forget(self, session: SessionKey) -> None:
        """Remove all rows of a deleted session."""
        self.sessions[session] = None
        for kind in self.__slots__[1:]:
            rows = getattr(self, kind)
            for key in [k for k in rows if (k if kind == "trajectories" else k[0])[:2] == session]:
                del rows[key]
