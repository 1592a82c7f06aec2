"""The writer's transaction on SQLite. Only its commit waits, for the disk."""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from service.base.byte_bounded import ByteBounded
from service.base.problems import ProblemCode, Unavailable
from service.session.records import (
    DecisionRow,
    HiddenRows,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.storage.ports import (
    Changes,
    DropCursor,
    Dropped,
    EraseCursor,
    InThread,
    Keys,
    KnownRows,
    Steps,
)
from service.storage.sql.columns import CHANGING, COUNTERS, session_values, trajectory_values
from service.storage.sql.dropping import drop_some
from service.storage.sql.erasing import erase_some
from service.storage.sql.few_rows import write_few
from service.storage.sqlite.bulk import execute_rows
from service.storage.sqlite.disk_space import refuse_without_undo
from service.storage.sqlite.errors import translated
from service.storage.sqlite.reader import SqliteReader
from service.storage.sqlite.statements import SESSION_COLUMNS, SQL

counters = attrgetter(*COUNTERS)
# rows that a deleted session loses at once
SESSION_TABLES = (
    ("agent_states", "session_id"),
    ("session_counts", "session_id"),
    ("kept_sums", "session_id"),
    ("lift_sums", "session_id"),
    ("sessions", "id"),
)


class Kept(Protocol):
    """The store: the rows that it keeps from one batch to the next, and its file."""

    path: Path
    sessions: ByteBounded[SessionKey, SessionRow]
    trajectories: OrderedDict[TrajectoryKey, TrajectoryRow]

    def trim(self) -> None:
        """Remove the least recently used rows."""

    def doubt(self) -> None:
        """Note that a sync failed."""

    def committed(self) -> None:
        """Check the files after a commit."""


class SqliteTransaction:
    """One batch of commands.

    Parameters
    ----------
    store : Kept
        Cached sessions and trajectories, current as of the last batch.
    connection : sqlite3.Connection
        The writer's connection, with an open transaction.
    """

    def __init__(self, store: Kept, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.reader = SqliteReader(connection)
        self._store = store
        self._used: list[SessionKey] = []
        self._used_trajectories: list[TrajectoryKey] = []

    def run(self, steps: Steps) -> None:
        """Run steps in the calling thread, which waits for the disk."""
        for step in steps:
            step()

    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """Run steps in the event loop; `in_thread` waits for the disk."""
        for step in steps:
            await in_thread(lambda waits: waits(), step)

    def fetch(self, keys: Keys, known: KnownRows) -> Steps:
        """Add the rows of these keys to `known`; clients' ids take one statement for each kind."""
        if keys.events or keys.rewards:
            known.expect(keys)  # the other kinds are entered below, found or not
        reader, sessions, trajectories = self.reader, self._store.sessions, self._store.trajectories
        for key in keys.sessions:
            known.sessions[key] = sessions.get(key) or self._read_session(key)
        self._used += keys.sessions
        for trajectory in keys.trajectories:
            row = trajectories.get(trajectory)
            if row is None:
                row = self._read_trajectory(trajectory)
            else:
                trajectories.move_to_end(trajectory)
            known.trajectories[trajectory] = row
        self._used_trajectories += keys.trajectories
        if keys.events:
            wanted = [(*key, event) for key, event in keys.events]
            for row in execute_rows(self.connection, SQL["decisions_by_events"], wanted):
                known.add_decision(DecisionRow(*row))
        for trajectory, number in keys.numbers:
            known.numbers[trajectory, number] = reader.decision_by_number(trajectory, number)
        for trajectory, round in keys.rounds:
            known.rounds[trajectory, round] = reader.decision_by_round(trajectory, round)
        if keys.rewards:
            wanted = [(*key, reward) for key, reward in keys.rewards]
            for row in execute_rows(self.connection, SQL["measurements_by_ids"], wanted):
                measurement = MeasurementRow(*row)
                known.rewards[measurement[:3], str(measurement.reward_id)] = measurement
        for trajectory, round in keys.measured:
            known.measured[trajectory, round] = reader.measurement_over(trajectory, round, round)
        yield from ()

    def _read_session(self, key: SessionKey) -> SessionRow | None:
        row = self.reader.session(key)
        if row is not None:
            self._keep(row)
        return row

    def _keep(self, session: SessionRow) -> None:
        self._store.sessions.keep(session.key, session, session.n_bytes)

    def _read_trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        row = self.reader.trajectory(key)
        if row is not None:
            self._store.trajectories[key] = row
        return row

    def hidden_rows(self, key: SessionKey) -> HiddenRows | None:
        """Return the note of a session's hidden rows, or None."""
        row = self._execute("hidden_rows", *key).fetchone()
        return None if row is None else HiddenRows(*row)

    def erase(self, hidden: HiddenRows, cursor: EraseCursor | None) -> EraseCursor | None:
        """Delete some hidden rows, from `cursor` on; return where to go on, None at the end."""
        with translated(self._store.path):
            following = erase_some(self._read, self._execute, hidden, cursor)
        if following is None and hidden.trajectory is not None:
            self._store.trajectories.pop((*hidden[:2], hidden.trajectory), None)
        return following

    def drop(self, key: SessionKey, to: int, n_kept: int, cursor: DropCursor | None) -> Dropped:
        """Delete some rows of rounds that a session has given up."""
        with translated(self._store.path):
            return drop_some(self._read, self._read_all, key, to, n_kept, cursor)

    def _execute(self, name: str, *values: Any) -> sqlite3.Cursor:
        return self.connection.execute(SQL[name], values)

    def _read(self, name: str, *values: Any) -> list[Any]:
        return self._execute(name, *values).fetchall()

    def _read_all(self, statements: Iterable[tuple[str, tuple[Any, ...]]]) -> list[list[Any]]:
        return [self._read(name, *values) for name, values in statements]

    def write(self, changes: Changes) -> Steps:
        """Insert and update rows, with one statement per table where possible."""
        with translated(self._store.path):
            self._write(changes)
        yield from ()

    def _write(self, changes: Changes) -> None:
        many = partial(execute_rows, self.connection)
        self._write_sessions(changes)
        counted = {s.key: s for s in changes.new_sessions} | changes.sessions | changes.counts
        if counted:
            many(SQL["count_session"], [(*key, *counters(s)) for key, s in counted.items()])
        if changes.trajectories:
            saved = map(trajectory_values, changes.trajectories.values())
            many(SQL["save_trajectory"], list(saved))
            self._store.trajectories.update(changes.trajectories)
            self._used_trajectories += changes.trajectories
        if changes.decisions:
            many(SQL["insert_decision"], changes.decisions)
        if changes.measurements:
            many(SQL["insert_measurement"], changes.measurements)
        if any(hidden.writer is not None for hidden in changes.hidden):
            refuse_without_undo(self._store.path)
        for name, values in write_few(changes):
            self.connection.execute(SQL[name], values)
        if changes.states:
            many(SQL["save_agent_state"], [(*k, state) for k, state in changes.states.items()])

    def _write_sessions(self, changes: Changes) -> None:
        """Delete, insert and change sessions, here and in the cache."""
        execute = self.connection.execute
        for key in changes.deleted:
            for table, column in SESSION_TABLES:
                execute(f"delete from {table} where tenant = ? and {column} = ?", key)
            self._forget(key)
        for session in changes.new_sessions:
            execute(SQL["insert_session"], session_values(session, SESSION_COLUMNS))
            self._keep(session)
            self._used.append(session.key)
        for key, session in changes.sessions.items():
            execute(SQL["update_session"], (*key, *session_values(session, CHANGING)))
            if key in self._store.sessions:
                self._keep(session)  # its names may have grown

    def commit(self, changes: Changes) -> Steps:
        """Write the remaining changes, and commit them to the disk."""
        yield from self.write(changes)
        yield self._sync
        self._store.trim()

    def _sync(self) -> None:
        """Commit; SQLite syncs its write-ahead log before it returns."""
        try:
            with translated(self._store.path):
                # not `commit()`: it reports no error if SQLite has rolled back by itself
                self.connection.execute("commit")
        except Unavailable as error:
            if error.code == ProblemCode.OUTCOME_UNKNOWN:
                self._store.doubt()
            raise
        self._store.committed()

    def rollback(self) -> None:
        """Roll back, and remove every row that this transaction used from the caches."""
        for key in self._used:
            self._store.sessions.remove(key)
        for place in self._used_trajectories:
            self._store.trajectories.pop(place, None)
        if self.connection.in_transaction:
            self.connection.execute("rollback")

    def _forget(self, key: SessionKey) -> None:
        self._store.sessions.remove(key)
        for place in [t for t in self._store.trajectories if t[:2] == key]:
            del self._store.trajectories[place]
