"""The storage port: what the use cases need from a database.

An adapter implements `Store` and `Transaction`. A batch of commands is one transaction of a few
bulk operations: `fetch` locks and reads rows by key, `write` inserts and updates them, `commit`
makes the changes durable. Adapters translate the errors of their driver to `Unavailable`, or to
`Contended` if running the batch again can succeed.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from service.session.records import (
    ApiKey,
    AuditRow,
    DecisionRow,
    EstimateRow,
    HiddenRows,
    KeptSumsRow,
    LiftSumsRow,
    LiftUnitRow,
    LimitRow,
    MeasurementRow,
    Message,
    SessionKey,
    SessionRow,
    SlotSumsRow,
    TrajectoryKey,
    TrajectoryRow,
    VoidRow,
    Webhook,
    number_in,
)
from service.storage.reader import Reader

EraseCursor = tuple[str, tuple[Any, ...]]  # a table, and the key of the last row erased from it
# a trajectory, the last of its rounds that is done, and a round before which no measurement is left
DropCursor = tuple[str, int, int]
EventKey = tuple[TrajectoryKey, str]  # a trajectory, and a client's event id or reward id
NumberKey = tuple[TrajectoryKey, int]  # a trajectory, and the number or the round of a decision
Attempt = tuple[str, str, str | None, float | None, float | None, int]
Steps = Generator[Any, Any, None]  # yields each wait; the transaction that made it carries it out
InThread = Callable[[Callable[[Any], None], Any], Awaitable[None]]  # calls f(x) in a thread
MAX_READS = 4  # concurrent reads in a process; each has a thread
MAX_EXPORTS = 8  # concurrent exports besides; each keeps its snapshot open until it is sent
MAX_STREAMS = 100  # concurrent streams of changes; each reads once a second


class Refused(RuntimeError):
    """The database cannot be used as it is; the message says why, and what to do."""


class Contended(Exception):
    """Another process holds or changed the same rows.

    The caller rolls back and runs the batch again, with `session` among its announced keys.
    """

    def __init__(self, reason: str, session: SessionKey | None = None) -> None:
        super().__init__(reason)
        self.session = session


class MustWait(Exception):
    """A read would block the event loop, so a thread has to run the batch."""


@dataclass(slots=True)
class Keys:
    """Keys of the rows to fetch, by kind.

    A batch announces its keys before it runs. The keys are a hint: commands may read fewer rows, or
    others. Sessions and trajectories are locked and read; `events`, `numbers` and `rounds` are
    decisions by the client's event id, by number, and the first of a round; `rewards` measurements
    by reward id; `measured` rounds whose covering measurement is wanted.
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
    """Rows that a batch has fetched or added, by the keys of `Keys`. None: there is no such row.

    `measured` are stored measurements by a round that they cover.
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
        self.forget_rounds(session)
        for key in [key for key in self.trajectories if key[:2] == session]:
            del self.trajectories[key]
        self.sessions[session] = None


def one_by_one(*statements: str) -> Any:
    """Declare rows that are written one after the other, each by these statements in turn."""
    return field(default_factory=list, metadata={"statements": statements})


@dataclass(slots=True)
class Changes:
    """Rows that a batch writes.

    `counts` holds sessions of which only the counters changed (``COUNTERS`` in `sql.statements`);
    `sessions` holds those of which any other column changed. `states` are agents' states as JSON.
    `deleted` sessions lose their own row and state; their other rows are `hidden` until a sweep.
    `swept` are sessions whose note of hidden rows goes, `dropped_sums` those whose kept sums go.
    `dropped_slots` are sessions whose summed slots go, from a slot on, and `erased_slots`
    trajectories whose summed slots do.
    `used_keys` are tenant and id of API keys, with the time of their last use. The audit log loses
    entries up to an id in `audit_gone`. `attempts` to reach webhooks are tenant, webhook, the
    error, when it failed or arrived, and how many messages were given up; messages in `forgotten`
    go, and webhooks in `removed_webhooks` with all of theirs.
    """

    new_sessions: list[SessionRow] = field(default_factory=list)
    counts: dict[SessionKey, SessionRow] = field(default_factory=dict)
    sessions: dict[SessionKey, SessionRow] = field(default_factory=dict)
    trajectories: dict[TrajectoryKey, TrajectoryRow] = field(default_factory=dict)
    decisions: list[DecisionRow] = field(default_factory=list)
    measurements: list[MeasurementRow] = field(default_factory=list)
    estimates: list[EstimateRow] = one_by_one("insert_estimate")
    voids: list[VoidRow] = one_by_one("insert_void")
    kept_sums: list[KeptSumsRow] = one_by_one("keep_sums")
    dropped_slots: list[tuple[SessionKey, int]] = field(default_factory=list)
    erased_slots: list[TrajectoryKey] = one_by_one("erase_slots")
    slot_sums: list[SlotSumsRow] = one_by_one("keep_slots")
    lift_sums: list[LiftSumsRow] = one_by_one("keep_lift_sums")
    lift_units: list[LiftUnitRow] = one_by_one("keep_lift_unit")
    dropped_sums: list[SessionKey] = one_by_one("drop_sums")
    states: dict[SessionKey, str] = field(default_factory=dict)
    deleted: list[SessionKey] = field(default_factory=list)
    hidden: list[HiddenRows] = one_by_one("hide")
    swept: list[SessionKey] = one_by_one("forget_hidden")
    api_keys: list[ApiKey] = one_by_one("save_api_key")
    used_keys: list[tuple[str, str, float]] = one_by_one("use_api_key")
    audit_gone: list[tuple[str]] = one_by_one("forget_audit")
    audit: list[AuditRow] = one_by_one("insert_audit")
    limits: list[LimitRow] = one_by_one("save_limit")
    webhooks: list[Webhook] = one_by_one("save_webhook")
    attempts: list[Attempt] = one_by_one("note_attempt")
    messages: list[Message] = one_by_one("save_message")
    forgotten: list[tuple[str, str, str]] = one_by_one("forget_message")
    removed_webhooks: list[tuple[str, str]] = one_by_one("remove_webhook", "remove_messages")


class Dropped(NamedTuple):
    """What one call of `Transaction.drop` deleted.

    Rounds, measurements together with voids, and how many of the rounds were measured. `cursor`
    says where to go on; None if no row is left to go.
    """

    cursor: DropCursor | None
    n_rounds: int = 0
    n_measurements: int = 0
    n_complete: int = 0


class Transaction(Protocol):
    """The writer's open transaction.

    Operations that may wait return a generator of steps. `run` drives it in a thread, `run_async`
    in the event loop.
    """

    @property
    def reader(self) -> Reader:
        """The reader that sees committed rows and this transaction's own writes; it may block."""

    def fetch(self, keys: Keys, known: KnownRows) -> Steps:
        """Lock sessions and trajectories in key order, and read the rows of all keys.

        `known` gets the rows, and None for each key without a row. Only the transaction's first
        fetch waits for locked sessions; a later one raises `Contended` where another process holds
        a session.
        """

    def hidden_rows(self, key: SessionKey) -> HiddenRows | None:
        """Lock and return the note of a session's hidden rows; it may block.

        None is also returned if another process holds the note.
        """

    def due_message(self, tenant: str, webhook: str, now: float) -> Message | None:
        """Lock and return a webhook's message whose attempt is due; it may block.

        Messages that another process holds are passed over.
        """

    def erase(self, hidden: HiddenRows, cursor: EraseCursor | None) -> EraseCursor | None:
        """Delete some hidden rows, and return where to go on; None if none is left. It may block.

        `cursor` is what the last call returned; None begins anew.
        """

    def drop(self, key: SessionKey, to: int, n_kept: int, cursor: DropCursor | None) -> Dropped:
        """Delete some rows of rounds that a session has given up; it may block.

        Rounds up to position `to` are given up; such rounds stay if the one `n_kept` rounds later
        in their trajectory is not given up. With `n_kept` 0 decisions go alone: values are of no
        round of theirs. `cursor` is that of the last call; None begins anew.
        """

    def write(self, changes: Changes) -> Steps:
        """Insert and update rows, with one bulk statement per table where possible."""

    def commit(self, changes: Changes) -> Steps:
        """Write the remaining changes and commit; they are durable when the steps end."""

    def run(self, steps: Steps) -> None:
        """Run steps in the calling thread, blocking it."""

    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """Run steps in the event loop; waits for anything but a socket go through `in_thread`."""

    def rollback(self) -> None:
        """Roll back, and drop from the caches every row that the transaction used."""


@dataclass(frozen=True, slots=True)
class Slices:
    """The most that one call deletes: a commit of a few milliseconds."""

    rows: int = 256
    n_bytes: int = 2**18
    page: int = 128  # rows that are looked at together
    pages: int = 8
    trajectories: int = 32  # each takes five statements


class Store(Protocol):
    """A database. One thread at a time uses the writer; any thread may use a reader.

    `is_local`: it is in this process, and reads are fast enough for the event loop.
    `slice_seconds`: processor time that the commands of a transaction take; to read and to write
    their rows comes on top.
    """

    is_local: bool
    slice_seconds: float
    slices: Slices

    def begin(self, *, wait: bool = True) -> Transaction:
        """Open the writer's transaction; `wait` for another program's lock, or to connect again.

        Raises `Unavailable` where the transaction cannot be opened, or not without waiting.
        """

    def reader(self) -> AbstractContextManager[Reader]:
        """Open a reader on a snapshot of the committed rows."""

    def close(self) -> None:
        """Close all connections and release locks."""
