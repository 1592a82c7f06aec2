"""What the use cases need from a database. A new backend is one class a protocol here.

A batch of commands is one transaction of a few bulk operations: `fetch` locks and reads rows by
their keys, `write` inserts and updates, `commit` makes it durable. Adapters translate the errors of
their driver to `Unavailable`, and to `Contended` where running the batch again will do.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from service.records import (
    ApiKey,
    DecisionRow,
    EstimateRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    number_in,
)
from service.storage.reader import Reader

EventKey = tuple[TrajectoryKey, str]  # a trajectory, and an id that a client gave
NumberKey = tuple[TrajectoryKey, int]  # a trajectory, and a number or a round


@dataclass(slots=True)
class Keys:
    """Rows to fetch, by kind. What a batch announces is a hint, not a promise."""

    sessions: set[SessionKey] = field(default_factory=set)
    trajectories: set[TrajectoryKey] = field(default_factory=set)
    events: set[EventKey] = field(default_factory=set)
    numbers: set[NumberKey] = field(default_factory=set)
    rounds: set[NumberKey] = field(default_factory=set)
    rewards: set[EventKey] = field(default_factory=set)
    measured: set[NumberKey] = field(default_factory=set)

    def add_event(self, trajectory: TrajectoryKey, event_id: str) -> None:
        """Add a decision by its event id, the client's or the server's."""
        number = number_in(event_id)
        if number is None:
            self.events.add((trajectory, event_id))
        else:
            self.numbers.add((trajectory, number))


@dataclass(slots=True)
class Known:
    """What a batch knows of the rows it asked for; None where there is no such row.

    Attributes
    ----------
    sessions, trajectories : by their keys
    events, numbers, rounds : decisions by client's event id, by number, the first by round
    rewards : measurements by reward id
    measured : the stored measurement that covers a round, by round
    """

    sessions: dict[SessionKey, SessionRow | None] = field(default_factory=dict)
    trajectories: dict[TrajectoryKey, TrajectoryRow | None] = field(default_factory=dict)
    events: dict[EventKey, DecisionRow | None] = field(default_factory=dict)
    numbers: dict[NumberKey, DecisionRow | None] = field(default_factory=dict)
    rounds: dict[NumberKey, DecisionRow | None] = field(default_factory=dict)
    rewards: dict[EventKey, MeasurementRow | None] = field(default_factory=dict)
    measured: dict[NumberKey, MeasurementRow | None] = field(default_factory=dict)

    def expect(self, keys: Keys) -> None:
        """Note that there is no row of these keys, unless one is known or added later."""
        for kind in self.__slots__:
            rows = getattr(self, kind)
            for key in getattr(keys, kind):
                rows.setdefault(key, None)

    def add_decision(self, decision: DecisionRow) -> None:
        """Add a decision, whatever it is asked for by."""
        key = decision[:3]
        if decision.client_event_id is not None:
            self.events[key, decision.client_event_id] = decision
        self.numbers[key, decision.number] = decision
        if self.rounds.get((key, decision.round)) is None:
            self.rounds[key, decision.round] = decision

    def forget(self, session: SessionKey) -> None:
        """Forget all rows of a session that is deleted."""
        self.sessions[session] = None
        for kind in self.__slots__[1:]:
            rows = getattr(self, kind)
            for key in [k for k in rows if (k if kind == "trajectories" else k[0])[:2] == session]:
                del rows[key]


@dataclass(slots=True)
class Changes:
    """What a batch writes. `counts` are sessions of which only the hot counters changed."""

    new_sessions: list[SessionRow] = field(default_factory=list)
    counts: dict[SessionKey, SessionRow] = field(default_factory=dict)
    sessions: dict[SessionKey, SessionRow] = field(default_factory=dict)
    trajectories: dict[TrajectoryKey, TrajectoryRow] = field(default_factory=dict)
    decisions: list[DecisionRow] = field(default_factory=list)
    measurements: list[MeasurementRow] = field(default_factory=list)
    estimates: list[EstimateRow] = field(default_factory=list)
    states: dict[SessionKey, str] = field(default_factory=dict)
    deleted: list[SessionKey] = field(default_factory=list)
    api_keys: list[ApiKey] = field(default_factory=list)


MOST_READS = 4  # at once in a process: each has a thread
MOST_EXPORTS = 4  # beside them: each keeps its view of the database for as long as it is taken


class Refused(RuntimeError):
    """This database cannot be served as it is; the message says why, and what to do."""


class Contended(Exception):
    """Another process was at the same rows: roll back and run the batch again, with `session` among
    the keys it announces."""

    def __init__(self, reason: str, session: SessionKey | None = None) -> None:
        super().__init__(reason)
        self.session = session


class MustWait(Exception):
    """A read in the event loop would wait for a server: a thread has to run the batch."""


Steps = Generator[Any, Any, None]  # yields what it has to wait for; its transaction knows how
InThread = Callable[[Callable[[Any], None], Any], Awaitable[None]]  # work and its argument


class Transaction(Protocol):
    """The writer's open transaction.

    What may wait is a generator of steps, which `run` drives in a thread and `run_async` in the
    event loop.
    """

    @property
    def reader(self) -> Reader:
        """Reads of what is committed and of what this transaction has written; they may wait."""

    def fetch(self, keys: Keys, known: Known) -> Steps:
        """Lock sessions and trajectories in key order, and add all rows of these keys to `known`.

        Raises
        ------
        Contended
            Another process holds a session, and this is not the transaction's first fetch.
        """

    def write(self, changes: Changes) -> Steps:
        """Insert and update, one bulk statement a table."""

    def commit(self, changes: Changes) -> Steps:
        """Write what is left, and make all of it durable."""

    def run(self, steps: Steps) -> None:
        """Run steps in a thread, which waits."""

    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """Run steps in the event loop; a thread waits for anything but a socket."""

    def rollback(self) -> None:
        """Forget it, and everything cached from it."""


class Store(Protocol):
    """A database. The writer is used by one thread at a time; readers may be used by any.

    Attributes
    ----------
    is_local : whether a batch is begun without waiting
    """

    is_local: bool

    def begin(self, *, wait: bool = True) -> Transaction:
        """Open the writer's transaction; without `wait`, `Unavailable` where another holds it."""

    def reader(self) -> AbstractContextManager[Reader]:
        """A consistent view of what is committed."""

    def close(self) -> None:
        """Release everything."""
