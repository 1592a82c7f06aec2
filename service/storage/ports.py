"""What the use cases need from a database. A new backend is one class a protocol here.

A batch of commands is one transaction: `prefetch` may lock and read what the batch's keys need
in a constant number of round trips (sessions first, then trajectories, each in key order), the
single reads then answer from that; `write` is one bulk call a table. Reads must see what `write`
has written. Adapters translate their driver's errors to `Unavailable`, and to `Contended` where
running the batch again will do.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from lhb_engine.history import FitWindow, History
from service.records import (
    ApiKey,
    DecisionRow,
    DueFit,
    EstimateRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    number_in,
)


@dataclass(slots=True)
class Keys:
    """What a batch is going to read: a hint, not a promise."""

    sessions: set[SessionKey] = field(default_factory=set)
    trajectories: set[TrajectoryKey] = field(default_factory=set)
    events: set[tuple[TrajectoryKey, str]] = field(default_factory=set)
    numbers: set[tuple[TrajectoryKey, int]] = field(default_factory=set)
    rewards: set[tuple[TrajectoryKey, str]] = field(default_factory=set)
    rounds: set[tuple[TrajectoryKey, int]] = field(default_factory=set)

    def add_event(self, trajectory: TrajectoryKey, event_id: str) -> None:
        """A decision by its event id, the client's or the server's."""
        number = number_in(event_id)
        if number is None:
            self.events.add((trajectory, event_id))
        else:
            self.numbers.add((trajectory, number))


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
PAGE_BYTES = 2**20  # of the rows that one read gives, beyond which it stops early


def n_bytes(row: object) -> int:
    """How large a row is: its texts and blobs."""
    parts = row if isinstance(row, tuple) else ()
    return sum(len(part) for part in parts if isinstance(part, str | bytes))


class Refused(RuntimeError):
    """This database cannot be served as it is; the message says why, and what to do."""


class Contended(Exception):
    """Another process was at the same rows: roll back and run the batch again, with `session` among
    the keys it announces."""

    def __init__(self, reason: str, session: SessionKey | None = None) -> None:
        super().__init__(reason)
        self.session = session


class MustWait(Exception):
    """This would wait for a server, in the event loop: a thread has to run the batch."""


InThread = Callable[[Callable[[Any], None], Any], Awaitable[None]]  # work and its argument


class Transaction(Protocol):
    """One open transaction of the writer, for a thread or, by what ends in `_here`, for the event
    loop.

    Attributes
    ----------
    is_here : whether a read that was not announced raises `MustWait`; never where it is cheap
    """

    is_here: bool

    def prefetch(self, keys: Keys) -> None:
        """Lock and read ahead; may do nothing where a read is cheap."""

    async def prefetch_here(self, keys: Keys) -> None:
        """The same in the event loop, where `is_here` holds from now on."""

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, locked for this transaction."""

    def session_named(self, tenant: str, name: str) -> SessionRow | None:
        """The session of that name."""

    def created_as(self, tenant: str, name: str) -> list[tuple[str, str]]:
        """Id and request of every session that was created under that name."""

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        """The trajectory, locked for this transaction."""

    def trajectories(self, key: SessionKey) -> list[TrajectoryRow]:
        """All trajectories of a session, in key order."""

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """The decision that a client's event id names."""

    def decision_by_number(self, key: TrajectoryKey, number: int) -> DecisionRow | None:
        """A decision by its number within its trajectory."""

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        """The first decision of a round."""

    def decision_before(self, key: TrajectoryKey, at: float) -> DecisionRow | None:
        """The last decision taken at or before a time."""

    def measurement_over(self, key: TrajectoryKey, first: int, last: int) -> MeasurementRow | None:
        """A measurement that shares a round with first..last (the one that starts last)."""

    def measurement_by_id(self, key: TrajectoryKey, reward_id: str) -> MeasurementRow | None:
        """The measurement that a client's reward id names."""

    def count_measured(self, key: SessionKey, first: int, last: int) -> int:
        """How many rounds of the session's positions first..last a measurement covers."""

    def closed_rounds(self, key: SessionKey, before: float) -> dict[str, int]:
        """Last round of each trajectory whose next decision was taken at or before a time."""

    def selected_contexts(
        self, key: TrajectoryKey, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Round, position and selected context of every decision of rounds first..last."""

    def positions(self, key: TrajectoryKey, first: int, last: int) -> list[int]:
        """Position of the first decision of each of rounds first..last."""

    def closed_at(self, key: SessionKey, first: int, last: int) -> float | None:
        """When the last unmeasured round of positions first..last was followed by a decision.

        None while one of them is its trajectory's last; 0 where all are measured.
        """

    def agent_state(self, key: SessionKey) -> str | None:
        """The agent's state as JSON, or None before the first installation."""

    def write(self, changes: Changes) -> None:
        """All inserts and updates, one bulk call a table."""

    def commit(self, changes: Changes | None = None) -> None:
        """Write what is left, if anything, and make all of it durable."""

    async def commit_here(self, changes: Changes | None, in_thread: InThread) -> None:
        """The same in the event loop; what has to wait otherwise than for a socket goes to the
        thread."""

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

    def reader(self) -> AbstractContextManager["Reader"]:
        """A consistent view of what is committed."""

    def close(self) -> None:
        """Release everything."""


class Reader(Protocol):
    """Cold reads: listings, pages, a fit's history. Sees committed data only."""

    def session(self, key: SessionKey) -> SessionRow | None:
        """A session."""

    def session_named(self, tenant: str, name: str) -> SessionRow | None:
        """Return the session of that name, or None."""

    def sessions(self, tenant: str, after: str, limit: int, archived: bool) -> list[SessionRow]:
        """Sessions in order of creation, beyond the id `after`."""

    def unfinished(self) -> list[tuple[SessionKey, int | None, float | None]]:
        """Sessions with a fit due (its round) or a time to wake at."""

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        """The trajectory."""

    def trajectories(self, key: SessionKey) -> list[TrajectoryRow]:
        """All trajectories of a session, in key order."""

    def decision(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """A decision by its event id, the client's or the server's."""

    def decisions(
        self, key: TrajectoryKey, after: int, limit: int, until: int | None = None
    ) -> list[DecisionRow]:
        """Decisions of rounds beyond `after`, in order: at least one, at most `limit`, and none
        after those before it exceed PAGE_BYTES."""

    def measurements(self, key: TrajectoryKey, first: int, last: int) -> list[MeasurementRow]:
        """Measurements that start within first..last, by start and number."""

    def measurement_log(self, key: TrajectoryKey) -> Iterator[MeasurementRow]:
        """All measurements of a trajectory as they came."""

    def estimates(self, key: SessionKey, after: int, limit: int) -> list[EstimateRow]:
        """Fits beyond number `after`, in order, failed and skipped ones too; bounded as `decisions`
        are."""

    def estimate(self, key: SessionKey, number: int) -> EstimateRow | None:
        """One fit."""

    def agent_state(self, key: SessionKey) -> str | None:
        """The agent's state as JSON, or None before the first installation."""

    def history(self, session: SessionRow, window: FitWindow, due: DueFit | None = None) -> History:
        """What a fit over `window` reads; with `due`, no more than its manifest allows."""

    def api_keys(self) -> list[ApiKey]:
        """Every tenant's keys, revoked ones too."""

    def check(self) -> None:
        """Raise `Unavailable` unless the database answers."""
