"""SQLite: one file, one server process that owns it, every commit on the disk (WAL, FULL)."""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from service.problems import Unavailable
from service.records import (
    Decision,
    Measurement,
    Session,
    SessionKey,
    Trajectory,
    TrajectoryKey,
)
from service.storage.bulk import execute_rows
from service.storage.file_lock import FileLock
from service.storage.ports import Changes, Keys, Reader
from service.storage.queries import load_queries
from service.storage.schema import check_revision, whole_schema
from service.storage.session_rows import session_row, session_update, trajectory_row
from service.storage.sqlite_reader import SqliteReader

SQL = load_queries("sqlite_queries.sql")
N_CACHED_SESSIONS = 4096
N_CACHED_TRAJECTORIES = 65_536
# what the driver says -> problem code; anything else is a defect and stays an error
_TROUBLE = {
    sqlite3.SQLITE_FULL: ("storage_full", "the disk is full"),
    sqlite3.SQLITE_READONLY: ("storage_readonly", "the database cannot be written"),
    sqlite3.SQLITE_IOERR: ("storage_failing", "the disk reports an error"),
    sqlite3.SQLITE_BUSY: ("storage_busy", "another process holds the database"),
    sqlite3.SQLITE_LOCKED: ("storage_busy", "another process holds the database"),
    sqlite3.SQLITE_CANTOPEN: ("storage_failing", "the database cannot be opened"),
}


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors about the world, not about us, into `Unavailable`."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _TROUBLE:
            raise
        name, reason = _TROUBLE[code]
        raise Unavailable(name, f"{reason} ({error}); nothing was written") from error


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode, usable from any thread."""
    mode = "ro" if readonly else "rwc"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=5.0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    if not readonly:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma wal_autocheckpoint = 4000")
        connection.execute("pragma journal_size_limit = 67108864")
    connection.execute("pragma cache_size = -16384")
    return connection


class SqliteStore:
    """The writer's side. The cache is the truth between two batches: nobody else writes.

    Parameters
    ----------
    path : Path
        The database file; made if absent.

    Raises
    ------
    OwnedElsewhere
        Another process owns the file.
    WrongSchema
        It is not of this program's schema.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path)
        try:
            with translated():
                self._connection = connect(path)
                self._open_schema()
        except BaseException:
            self._lock.release()
            raise
        self.sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self.trajectories: OrderedDict[TrajectoryKey, Trajectory] = OrderedDict()
        self._readers: list[sqlite3.Connection] = []

    def _open_schema(self) -> None:
        """A new file gets the schema; what is there must be ours."""
        execute = self._connection.execute
        tables = {name for (name,) in execute("select name from sqlite_master")}
        if not tables:
            self._connection.executescript(f"begin; {whole_schema('sqlite')} commit;")
            return
        found = (
            execute("select version_num from alembic_version").fetchone()
            if ("alembic_version" in tables)
            else None
        )
        check_revision(None if found is None else found[0])

    def begin(self) -> "SqliteTransaction":
        """Open the writer's transaction."""
        with translated():
            self._connection.execute("begin immediate")
        return SqliteTransaction(self, self._connection)

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """A consistent view of what is committed; connections are kept and used again."""
        with translated():
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = connect(self.path, readonly=True)
            try:
                connection.execute("begin")
                yield SqliteReader(connection)
            finally:
                connection.rollback()
                self._readers.append(connection)

    def trim(self) -> None:
        """Forget what has not been used for long."""
        while len(self.sessions) > N_CACHED_SESSIONS:
            self.sessions.popitem(last=False)
        while len(self.trajectories) > N_CACHED_TRAJECTORIES:
            self.trajectories.popitem(last=False)

    def close(self) -> None:
        """Close every connection and give the file up."""
        for connection in (*self._readers, self._connection):
            connection.close()
        self._lock.release()


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """A reader for another process: a fit, a replay, an export."""
    with translated(), closing(connect(path, readonly=True)) as connection:
        connection.execute("begin")
        yield SqliteReader(connection)


class SqliteTransaction(SqliteReader):
    """The writer's transaction. Reads are local and cheap, so nothing is read ahead."""

    def __init__(self, store: SqliteStore, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._store = store
        self._used: list[SessionKey] = []
        self._used_trajectories: list[TrajectoryKey] = []
        self._events: dict[tuple[TrajectoryKey, str], Decision | None] = {}
        self._rewards: dict[tuple[TrajectoryKey, str], Measurement | None] = {}

    def prefetch(self, keys: Keys) -> None:
        """Look up the clients' ids, in one statement a kind."""
        if keys.events:
            asked = [(*key, event) for key, event in keys.events]
            found = execute_rows(self.connection, SQL["decisions_by_events"], asked)
            self._events = dict.fromkeys(keys.events)
            for decision in map(Decision._make, found):
                self._events[decision[:3], str(decision.client_event_id)] = decision
        if keys.rewards:
            asked = [(*key, reward) for key, reward in keys.rewards]
            found = execute_rows(self.connection, SQL["measurements_by_ids"], asked)
            self._rewards = dict.fromkeys(keys.rewards)
            for measurement in map(Measurement._make, found):
                self._rewards[measurement[:3], str(measurement.reward_id)] = measurement

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> Decision | None:
        """The decision that a client's event id names."""
        try:
            return self._events[key, event_id]
        except KeyError:
            return super().decision_by_event(key, event_id)

    def measurement_by_id(self, key: TrajectoryKey, reward_id: str) -> Measurement | None:
        """The measurement that a client's reward id names."""
        try:
            return self._rewards[key, reward_id]
        except KeyError:
            return super().measurement_by_id(key, reward_id)

    def session(self, key: SessionKey) -> Session | None:
        """The session, from the cache if it is there."""
        cache = self._store.sessions
        found = cache.get(key)
        if found is None:
            found = super().session(key)
            if found is None:
                return None
            cache[key] = found
        else:
            cache.move_to_end(key)
        self._used.append(key)
        return found

    def trajectory(self, key: TrajectoryKey) -> Trajectory | None:
        """The trajectory, from the cache if it is there."""
        cache = self._store.trajectories
        found = cache.get(key)
        if found is None:
            found = super().trajectory(key)
            if found is None:
                return None
            cache[key] = found
        else:
            cache.move_to_end(key)
        self._used_trajectories.append(key)
        return found

    def write(self, changes: Changes) -> None:
        """All inserts and updates, one statement a table."""
        with translated():
            self._write(changes)

    def _write(self, changes: Changes) -> None:
        many = partial(execute_rows, self.connection)
        for key in changes.deleted:
            for table, column in OWNED:
                self.connection.execute(
                    f"delete from {table} where tenant = ? and {column} = ?", key
                )
            self._forget(key)
        if changes.new_sessions:
            many(SQL["insert_session"], [session_row(s) for s in changes.new_sessions])
            for session in changes.new_sessions:
                self._store.sessions[session.key] = session
                self._used.append(session.key)
        if changes.sessions:
            rows = [session_update(s) for s in changes.sessions.values()]
            self.connection.executemany(SQL["update_session"], rows)
        counts = [s for key, s in changes.counts.items() if key not in changes.sessions]
        if counts:
            many(
                SQL["count_session"],
                [(s.tenant, s.id, s.n_rounds, s.n_trajectories, s.n_complete) for s in counts],
            )
        if changes.trajectories:
            many(SQL["save_trajectory"], [trajectory_row(t) for t in changes.trajectories.values()])
            for name, trajectory in changes.trajectories.items():
                self._store.trajectories[name] = trajectory
                self._used_trajectories.append(name)
        if changes.decisions:
            many(SQL["insert_decision"], changes.decisions)
            for decision in changes.decisions:
                if decision.client_event_id is not None:
                    self._events[decision[:3], decision.client_event_id] = decision
        if changes.measurements:
            many(SQL["insert_measurement"], changes.measurements)
            for measurement in changes.measurements:
                if measurement.reward_id is not None:
                    self._rewards[measurement[:3], measurement.reward_id] = measurement
        if changes.estimates:
            many(SQL["insert_estimate"], changes.estimates)
        if changes.states:
            many(SQL["save_agent_state"], [(*k, state) for k, state in changes.states.items()])

    def commit(self) -> None:
        """Make it durable: SQLite syncs the log before it returns."""
        with translated():
            self.connection.execute("commit")
        self._store.trim()

    def rollback(self) -> None:
        """Forget it, and everything this transaction may have changed in the caches."""
        for key in self._used:
            self._store.sessions.pop(key, None)
        for trajectory in self._used_trajectories:
            self._store.trajectories.pop(trajectory, None)
        if self.connection.in_transaction:
            self.connection.execute("rollback")

    def _forget(self, key: SessionKey) -> None:
        self._store.sessions.pop(key, None)
        for trajectory in [t for t in self._store.trajectories if t[:2] == key]:
            del self._store.trajectories[trajectory]


OWNED = (
    ("measurements", "session_id"),
    ("decisions", "session_id"),
    ("estimates", "session_id"),
    ("agent_states", "session_id"),
    ("trajectories", "session_id"),
    ("sessions", "id"),
)
