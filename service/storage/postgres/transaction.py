"""One batch on PostgreSQL, in a constant number of round trips.

The announced rows take one round trip or two. Writes and the commit together take one more.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from psycopg import Cursor
from psycopg.rows import TupleRow

from service.base.byte_bounded import ByteBounded
from service.session.records import (
    DecisionRow,
    HiddenRows,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryRow,
)
from service.storage.ports import (
    Changes,
    Contended,
    DropCursor,
    Dropped,
    EraseCursor,
    InThread,
    Keys,
    KnownRows,
    Steps,
)
from service.storage.postgres.array_literals import columns
from service.storage.postgres.errors import translated
from service.storage.postgres.pipeline import Pipeline, Statement
from service.storage.postgres.reader import PostgresReader
from service.storage.postgres.statements import SESSION_COLUMNS, SESSION_UPDATES, SQL
from service.storage.reader import session_of
from service.storage.sql.columns import COUNTERS, session_values, trajectory_values
from service.storage.sql.dropping import drop_some
from service.storage.sql.erasing import erase_some
from service.storage.sql.few_rows import write_few

MOST_SESSION_BYTES = 2**26  # of the cached sessions
CachedSessions = ByteBounded[SessionKey, tuple[int, SessionRow]]  # with their revisions
DECISIONS = ("decisions_by_events", "decisions_by_numbers", "decisions_by_rounds")
counters = attrgetter(*COUNTERS)


class PostgresTransaction:
    """One batch of commands, with its sessions locked.

    Parameters
    ----------
    pipeline : Pipeline
        The writer's pipeline, with no open transaction.
    cache : ByteBounded
        Sessions as this process last saw them, with their revisions. It saves parsing: a locked row
        with the same revision has not changed since.
    """

    def __init__(self, pipeline: Pipeline, cache: CachedSessions) -> None:
        self.connection = pipeline.connection
        self.reader = PostgresReader(pipeline.connection)
        self._pipeline = pipeline
        self._cache = cache
        self._held: dict[SessionKey, tuple[int, SessionRow]] = {}
        self._has_fetched = False

    def run(self, steps: Steps) -> None:
        """Run steps in the calling thread, which waits for the server."""
        self._pipeline.wait(steps)

    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """Run steps in the event loop, which waits for the socket."""
        await self._pipeline.wait_async(steps)

    def fetch(self, keys: Keys, known: KnownRows) -> Steps:
        """Lock and read rows in one round trip.

        Only the first fetch waits for locked sessions. Later ones are out of key order, and waiting
        could deadlock.
        """
        lock = "lock_sessions_now" if self._has_fetched else "lock_sessions"
        self._has_fetched = True
        kinds: dict[str, Any] = {
            lock: keys.sessions,
            "lock_trajectories": keys.trajectories,
            "decisions_by_events": [(*key, event) for key, event in keys.events],
            "decisions_by_numbers": [(*key, number) for key, number in keys.numbers],
            "decisions_by_rounds": [(*key, round) for key, round in keys.rounds],
            "measurements_by_ids": [(*key, reward) for key, reward in keys.rewards],
            "measurements_over_rounds": [(*key, round) for key, round in keys.measured],
        }
        wanted = {name: columns(rows) for name, rows in kinds.items() if rows}
        if not wanted:
            return
        try:
            with translated():
                answers = yield from self._pipeline.exchange(wanted.items())
        except Contended as contended:
            raise Contended(str(contended), next(iter(keys.sessions), None)) from contended
        rows_by_kind = dict(zip(wanted, answers, strict=True))
        known.expect(keys)
        for row in rows_by_kind.get(lock, ()):
            session = self._hold(row)
            known.sessions[session.key] = session
        for row in rows_by_kind.get("lock_trajectories", ()):
            known.trajectories[row[:3]] = TrajectoryRow(*row)
        for row in (row for name in DECISIONS for row in rows_by_kind.get(name, ())):
            known.add_decision(DecisionRow(*row))
        for row in rows_by_kind.get("measurements_by_ids", ()):
            measurement = MeasurementRow(*row)
            known.rewards[measurement[:3], str(measurement.reward_id)] = measurement
        for round, *values in rows_by_kind.get("measurements_over_rounds", ()):
            measurement = MeasurementRow(*values)
            known.measured[measurement[:3], round] = measurement

    def _hold(self, row: Sequence[Any]) -> SessionRow:
        """Return the session of a locked row, from the cache if its revision is the same."""
        key, revision = (str(row[0]), str(row[1])), row[-1]
        cached = self._cache.get(key)
        if cached is None or cached[0] != revision:
            cached = revision, session_of(row[:-1])
        self._held[key] = cached
        return cached[1]

    def hidden_rows(self, key: SessionKey) -> HiddenRows | None:
        """Lock and return the note of a session's hidden rows; None if another process has it."""
        rows = self._read("hidden_rows", *key)
        return HiddenRows(*rows[0]) if rows else None

    def erase(self, hidden: HiddenRows, cursor: EraseCursor | None) -> EraseCursor | None:
        """Delete some hidden rows, from `cursor` on; return where to go on, None at the end."""
        return erase_some(self._read, self._execute, hidden, cursor)

    def drop(self, key: SessionKey, to: int, n_kept: int, cursor: DropCursor | None) -> Dropped:
        """Delete some rows of rounds that a session has given up."""
        return drop_some(self._read, self._read_all, key, to, n_kept, cursor)

    def _execute(self, name: str, *values: Any) -> "Cursor[TupleRow]":
        with translated():
            return self.connection.execute(SQL[name], values, binary=True)

    def _read(self, name: str, *values: Any) -> list[Any]:
        return self._execute(name, *values).fetchall()

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
            self._cache.remove(key)
            self._held.pop(key, None)
        for new in changes.new_sessions:
            yield "insert_session", session_values(new, SESSION_COLUMNS)
            self._held[new.key] = 1, new
        for key, session in changes.sessions.items():
            yield "update_session", (*key, *session_values(session, SESSION_UPDATES))
        counts = {k: s for k, s in changes.counts.items() if k not in changes.sessions}
        if counts:
            yield "count_sessions", columns((*key, *counters(s)) for key, s in counts.items())
        for key in (*changes.sessions, *counts):
            revision, session = self._held[key]
            self._held[key] = revision + 1, session
        if changes.trajectories:
            saved = map(trajectory_values, changes.trajectories.values())
            yield "save_trajectories", columns(saved)
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
        for key, held in self._held.items():
            self._cache.keep(key, held, held[1].n_bytes)
        self._cache.trim()

    def rollback(self) -> None:
        """Roll back, and remove every session that this transaction held from the cache."""
        for key in self._held:
            self._cache.remove(key)
        self._pipeline.rollback()
