"""The PostgreSQL store: one connection to write and a small pool to read in each process.

A batch is one transaction at isolation level read committed. It locks its session rows in key
order. These locks protect the sessions' trajectories, decisions and rewards.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from psycopg import Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from service.base.byte_bounded import ByteBounded
from service.base.problems import ProblemCode, Unavailable
from service.session.records import (
    DecisionRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.storage.ports import Changes, Contended, Keys, KnownRows
from service.storage.postgres.connection import (
    Connection,
    NotDurable,
    check_settings,
    connect,
    connect_to_read,
    end,
    is_alive,
    may_lose,
    translated,
)
from service.storage.postgres.maintenance import revision_of
from service.storage.postgres.statements import (
    COUNT_STEP,
    SESSION_COLUMNS,
    SESSION_UPDATES,
    SQL,
    Exchange,
    Pipeline,
    PostgresReader,
    ResultRows,
    columns,
)
from service.storage.reader import Reader
from service.storage.schema import SCHEMA
from service.storage.sql.statements import (
    COUNTERS,
    counter_values,
    session_of,
    session_values,
    trajectory_values,
)
from service.storage.transactions import (
    MAX_EXPORTS,
    MAX_READS,
    InThread,
    Slices,
    Statement,
    Steps,
    Transaction,
    write_few,
)

N_READERS = MAX_READS + MAX_EXPORTS  # enough that no read waits for a connection
MOST_SESSION_BYTES = 2**26  # of the cached sessions
MOST_TRAJECTORIES = 65_536  # cached ones, at most about 1 KB each
new_values, changed_values = session_values(SESSION_COLUMNS), session_values(SESSION_UPDATES)
IDLE = TransactionStatus.IDLE
DECISIONS = ("decisions_by_events", "decisions_by_numbers", "decisions_by_rounds")
BY_KEYS = "trajectories_by_keys"
N_COUNTED = 4 + len(COUNTERS)  # columns of a locked session that are always read
LOOKS = 16  # at a session, before it is expected that nobody else changes it
TURNS = 128  # that a process takes after a batch that has waited for another's sessions


@dataclass(slots=True)
class Held:
    """A session as this process last saw it, with the revision of its row.

    Whatever changes rows of a session changes its revision, so this process's trajectories of it
    are current that were kept with the same `since`. `doubt`: looks that must find nothing changed,
    until that is expected.
    """

    revision: int
    session: SessionRow
    doubt: int = 0
    since: int = field(default_factory=count().__next__)


class Cache:
    """Sessions and trajectories that this process used last, the latter with `Held.since`."""

    def __init__(self) -> None:
        self.turns = 0  # left to take: batches that wait until no other has its turn
        self.sessions: ByteBounded[SessionKey, Held] = ByteBounded(MOST_SESSION_BYTES)
        self.trajectories: OrderedDict[TrajectoryKey, tuple[int, TrajectoryRow]] = OrderedDict()

    def enter(self, row: TrajectoryRow, held: Held | None) -> None:
        """Enter a trajectory of a session that is locked; without one it is not kept."""
        if held is not None:
            self.trajectories[row.tenant, row.session_id, row.key] = held.since, row

    def keep(self, sessions: Mapping[SessionKey, Held]) -> None:
        """Keep sessions that were used, and forget what was not used for longest."""
        for key, held in sessions.items():
            if self.sessions.get(key) is not held:
                self.sessions.keep(key, held, held.session.n_bytes)
        self.sessions.trim()
        while len(self.trajectories) > MOST_TRAJECTORIES:
            self.trajectories.popitem(last=False)


class PostgresTransaction(Transaction):
    """One batch of commands, with its sessions locked.

    What the cache holds of them is not read again, unless their revisions have changed.
    """

    def __init__(self, pipeline: Pipeline, cache: Cache, slices: Slices) -> None:
        self.connection = pipeline.connection
        self.reader = PostgresReader(pipeline.connection)
        self._pipeline = pipeline
        self.slices = slices
        self._cache = cache
        self._held: dict[SessionKey, Held] = {}
        self._has_fetched = False

    def run(self, steps: Steps) -> None:
        """Run steps in the calling thread, which waits for the server."""
        self._pipeline.wait(steps)

    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """Run steps in the event loop, which waits for the socket."""
        await self._pipeline.wait_async(steps)

    def fetch(self, keys: Keys, rows: KnownRows) -> Steps:
        """Lock and read rows, in one round trip where nobody else changes these sessions.

        Only the first fetch waits for locked sessions. Later ones are out of key order, and waiting
        could deadlock.
        """
        lock = "lock_sessions_now" if self._has_fetched else "lock_sessions"
        self._has_fetched = True
        before = {key: self._cache.sessions.get(key) for key in keys.sessions}
        sure, unsure = self._remembered(keys.trajectories, before)
        kinds: dict[str, Any] = {
            lock: [(*key, None if held is None else held.revision) for key, held in before.items()],
            BY_KEYS: unsure,
            "decisions_by_events": [(*key, event) for key, event in keys.events],
            "decisions_by_numbers": [(*key, number) for key, number in keys.numbers],
            "decisions_by_rounds": [(*key, round) for key, round in keys.rounds],
            "measurements_by_ids": [(*key, reward) for key, reward in keys.rewards],
            "measurements_over_rounds": [(*key, round) for key, round in keys.measured],
        }
        try:
            rows_by_kind = yield from self._ask(kinds)
        except Contended as contended:
            raise Contended(str(contended), next(iter(keys.sessions), None)) from contended
        rows.expect(keys)
        for row in rows_by_kind.get(lock, ()):
            self._held[row[:2]] = held = self._hold(row, before[row[:2]])
            if row[3]:
                self._cache.turns = TURNS
            rows.sessions[row[:2]] = held.session
        for row in (row for name in DECISIONS for row in rows_by_kind.get(name, ())):
            rows.add_decision(DecisionRow(*row))
        for row in rows_by_kind.get("measurements_by_ids", ()):
            measurement = MeasurementRow(*row)
            rows.rewards[measurement[:3], str(measurement.reward_id)] = measurement
        for round, *values in rows_by_kind.get("measurements_over_rounds", ()):
            measurement = MeasurementRow(*values)
            rows.measured[measurement[:3], round] = measurement
        current, others = self._remembered(sure, self._held)
        more = yield from self._ask({BY_KEYS: others})
        rows.trajectories |= current
        for row in (*rows_by_kind.get(BY_KEYS, ()), *more.get(BY_KEYS, ())):
            rows.trajectories[row[:3]] = trajectory = TrajectoryRow(*row)
            self._cache.enter(trajectory, self._held.get(row[:2]))

    def _remembered(
        self, places: Iterable[TrajectoryKey], sessions: Mapping[SessionKey, Held | None]
    ) -> tuple[dict[TrajectoryKey, TrajectoryRow], list[tuple[Any, ...]]]:
        """Return trajectories that are current if these sessions are, and what to ask of others."""
        current, others, cached = {}, [], self._cache.trajectories
        for place in places:
            since, row = cached.get(place, (-1, None))
            held = sessions.get(place[:2]) or self._held.get(place[:2])
            if row is not None and held is not None and held.since == since and not held.doubt:
                current[place] = row
                cached.move_to_end(place)
            else:
                others.append((*place, 0 if row is None else row.n_rounds))
        return current, others

    def _ask(self, kinds: dict[str, Any]) -> Exchange[dict[str, ResultRows]]:
        """Run the statements that have rows, in one round trip; return what each found."""
        wanted = {name: columns(rows) for name, rows in kinds.items() if rows}
        if not wanted:
            return {}
        with translated():
            answers = yield from self._pipeline.exchange(wanted.items())
        return dict(zip(wanted, answers, strict=True))

    def _hold(self, row: Sequence[Any], before: Held | None) -> Held:
        """Return the session of a locked row, of which the row has what has changed since."""
        revision = row[2]
        if before is None or row[N_COUNTED] is not None:
            return Held(revision, session_of(row[N_COUNTED:]), LOOKS if before else 0)
        if before.revision == revision:
            before.doubt -= before.doubt > 0
            return before
        for name, value in zip(COUNTERS, row[4:], strict=False):
            setattr(before.session, name, value)
        return Held(revision, before.session, doubt=LOOKS)

    def _execute(self, name: str, *values: Any) -> "Cursor[TupleRow]":
        with translated():
            return self.connection.execute(SQL[name], values, binary=True)

    def _read_all(self, statements: Iterable[Statement]) -> list[list[Any]]:
        """Run statements in one round trip."""
        with translated():
            return self._pipeline.wait(self._pipeline.exchange(statements))

    def write(self, changes: Changes) -> Steps:
        """Insert and update rows in one round trip, with one statement per table where possible."""
        with translated():
            yield from self._pipeline.exchange(self._statements(changes))

    def _statements(self, changes: Changes) -> Iterator[Statement]:
        for key in changes.deleted:
            yield "delete_session", key
            self._cache.sessions.remove(key)
            self._held.pop(key, None)
        for new in changes.new_sessions:
            yield "insert_session", new_values(new)
            self._held[new.key] = Held(1, new)
        for key, session in changes.sessions.items():
            yield "update_session", (*key, *changed_values(session))
        counts = {k: s for k, s in changes.counts.items() if k not in changes.sessions}
        if counts:
            yield "count_sessions", columns((*key, *counter_values(s)) for key, s in counts.items())
        for key, session in changes.sessions.items():  # trajectories may have gone
            self._held[key] = Held(self._held[key].revision + 1, session)
        for key in counts:
            self._held[key].revision += COUNT_STEP
        if changes.trajectories:
            saved = map(trajectory_values, changes.trajectories.values())
            yield "save_trajectories", columns(saved)
            for row in changes.trajectories.values():
                self._cache.enter(row, self._held.get((row.tenant, row.session_id)))
        if changes.decisions:
            yield "insert_decisions", columns(changes.decisions)
        if changes.measurements:
            yield "insert_measurements", columns(changes.measurements)
        yield from write_few(changes)
        for key, state in changes.states.items():
            yield "save_agent_state", (*key, state)

    def commit(self, changes: Changes) -> Steps:
        """Write and commit in one round trip; the server syncs its log before it answers."""
        with translated(is_commit=True):
            yield from self._pipeline.exchange([*self._statements(changes), ("commit", ())])
        self._cache.keep(self._held)

    def rollback(self) -> None:
        """Roll back, and remove every session that this transaction held from the cache."""
        for key in self._held:
            self._cache.sessions.remove(key)
        self._pipeline.rollback()


class PostgresStore:
    """A PostgreSQL database. Lost connections are opened again at their next use.

    Parameters in the URL override `DEFAULTS`. Raises `Refused`, `NotDurable` or `Unavailable`.
    """

    is_local, slices = False, Slices()
    transaction_seconds = 0.003  # however few its commands, one waits for the database thrice
    check_seconds = 2.0  # between two looks at the settings, while there are commits
    wait_for_reader_seconds = 5.0

    def __init__(self, url: str) -> None:
        self.url = url
        self.cache = Cache()
        self._writer: Pipeline | None = None
        self._idle: list[Connection] = []
        self._permits = threading.BoundedSemaphore(N_READERS)
        self._writer = self._connect()

    def _connect(self) -> Pipeline:
        connection = connect(self.url, "writer")
        try:
            with translated():
                if refusal := may_lose(connection.execute(SQL["settings"])):
                    raise NotDurable(refusal)
                # until this connection ends, whatever is set meanwhile
                connection.execute(SQL["keep_synchronous_commit"])
                connection.commit()
            check_schema(connection)
        except BaseException:
            connection.close()
            raise
        self._check_at = time.monotonic() + self.check_seconds
        return Pipeline(connection)

    def _check_settings(self, connection: Connection) -> None:
        """Refuse to write if a setting was changed so that commits may be lost."""
        with translated():
            rows = connection.execute(SQL["settings_now"]).fetchall()
            connection.commit()
        check_settings(rows)
        self._check_at = time.monotonic() + self.check_seconds

    def begin(self, *, wait: bool = True) -> PostgresTransaction:
        """Open the writer's transaction; connect again if need be. See `Store.begin`."""
        if self._writer is None or not is_alive(self._writer.connection):
            if not wait:
                raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, "the connection is lost")
            if self._writer is not None:
                self._writer.connection.close()
            self.cache = Cache()
            try:
                self._writer = self._connect()
            except NotDurable as error:
                raise Unavailable(ProblemCode.STORAGE_NOT_DURABLE, str(error)) from error
        elif time.monotonic() > self._check_at:
            if not wait:
                raise Unavailable(ProblemCode.STORAGE_NOT_DURABLE, "the settings may have changed")
            self._check_settings(self._writer.connection)
        return PostgresTransaction(self._writer, self.cache, self.slices)

    async def take_turn(self) -> None:
        """See `Store.take_turn`; the turn ends with the transaction."""
        turns, self.cache.turns = self.cache.turns, 0
        if turns and self._writer is not None:
            with suppress(Exception):  # the batch meets it again, and no turns are left
                await self._writer.wait_async(self._writer.exchange([("take_turn", ())]))
                self.cache.turns = turns - 1

    @contextmanager
    def reader(self) -> Iterator[PostgresReader]:
        """Open a reader on a snapshot of the committed rows; connections are pooled."""
        if not self._permits.acquire(timeout=self.wait_for_reader_seconds):
            raise Unavailable(ProblemCode.STORAGE_BUSY, "too many concurrent reads")
        try:
            connection = self._reading()
            reader = PostgresReader(connection)
            try:
                with translated():
                    yield reader
            finally:
                end(connection)
                reader.close()
                self._idle.append(connection)
        finally:
            self._permits.release()

    def _reading(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if is_alive(connection) and connection.info.transaction_status == IDLE:
                return connection  # else a thread went on with what was left unread
            connection.close()
        return connect_to_read(self.url, "reader")

    def close(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            connection.close()
        if self._writer is not None:
            self._writer.connection.close()


@contextmanager
def open_reader(url: str) -> Iterator[Reader]:
    """Open a reader without a store, for a fit, a replay or an export."""
    with translated(), closing(connect_to_read(url, "reader")) as connection:
        check_schema(connection)
        yield PostgresReader(connection)


def check_schema(connection: Connection) -> None:
    """Raise `Refused` unless the schema is the one that this program needs."""
    with translated():
        revision = revision_of(connection)
        connection.commit()
    SCHEMA.check(revision)
