"""The SQLite store: one file, owned by one server process, every commit synced to its log.

Its statements are run one by one, or for many rows.
"""

import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from service.base.byte_bounded import ByteBounded
from service.base.problems import ProblemCode, Unavailable, outcome_unknown
from service.session.records import (
    DecisionRow,
    HiddenRows,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.storage.giving_way import giving_way
from service.storage.ports import Changes, EraseCursor, Keys, KnownRows
from service.storage.reader import Columns, Range, Reader
from service.storage.schema import SCHEMA
from service.storage.sql.statements import (
    CHANGING,
    COLUMNS,
    COUNTERS,
    LAST,
    counter_values,
    fills,
    load_queries,
    numbered,
    session_values,
    trajectory_values,
)
from service.storage.sqlite.connection import connect, snapshot, translated
from service.storage.sqlite.database_file import (
    CHECK_EVERY,
    CUT_BYTES,
    PLAIN,
    DatabaseFiles,
    FileLock,
    LogLength,
    check_copy,
    checkpoint,
    is_tight,
    keep_log,
    log_bytes,
    refuse_without_undo,
)
from service.storage.sqlite.maintenance import revision_of, upgrade
from service.storage.transactions import InThread, Slices, Steps, Transaction, statements, write_few

SESSION_COLUMNS = (
    *(name for name in COLUMNS["sessions"] if name not in COUNTERS),
    *("fit_due", "wake_at"),
)
FILLS = {
    "session_columns": ", ".join(SESSION_COLUMNS),
    "session_values": numbered(len(SESSION_COLUMNS)),
    "all_of_sessions": """sessions join (
        select tenant, session_id as id, n_rounds, n_trajectories, n_measurements, n_complete
        from session_counts
    ) using (tenant, id)""",
    "fit_due_at": "cast(schedule ->> '$.current.due_at' as real)",
    "guard": "trial ->> '$.guard'",
    "control": "trial ->> '$.policy.session'",
    "least": "min",
    "greatest": "max",
    "ranges": """(
        select value ->> 0 as trajectory, value ->> 1 as first, value ->> 2 as last
        from json_each($3))""",
    "as_text": "",
    "as_int": "",
    "last_decision": f"left join decisions l on l.rowid = (select d.rowid {LAST})",
    **{f"{table}_row": f"({','.join('?' * len(names))})" for table, names in COLUMNS.items()},
}
SQL = {
    name: re.sub(r"\$(\d+)", r"?\1", query)
    for name, query in {
        **load_queries(__package__, {**fills(CHANGING), **FILLS}),
        **statements(),
    }.items()
}
LARGEST = 1024
ANY_BELOW = 32  # up to so many rows are one statement, whatever their number
_ROW = re.compile(r"\((?:\?,\s*)*\?\)")


@cache
def for_rows(sql: str, n: int) -> str:
    """Return `sql` with its one group of parameters, like ``(?,?)``, repeated n times."""
    (row,) = _ROW.findall(sql)
    return sql.replace(row, ",".join([row] * n))


def execute_rows(
    connection: sqlite3.Connection, sql: str, rows: Sequence[Sequence[Any]]
) -> list[Any]:
    """Run `sql` for all rows, and return the rows that it finds."""
    if 0 < len(rows) <= ANY_BELOW:  # most often
        values = list(chain.from_iterable(rows))
        return connection.execute(for_rows(sql, len(rows)), values).fetchall()
    answers: list[Any] = []
    start = 0
    while n := len(rows) - start:  # powers of two, then the rest
        size = n if n <= ANY_BELOW else min(LARGEST, 1 << (n.bit_length() - 1))
        values = list(chain.from_iterable(rows[start : start + size]))
        answers += connection.execute(for_rows(sql, size), values)
        start += size
    return answers


class SqliteReader(Reader):
    """Reads on one connection, inside the transaction that the caller has begun."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._open: WeakSet[sqlite3.Cursor] | None = None  # a decision's reader opens none

    def close(self) -> None:
        """Close what is left unread: it would keep its snapshot, and the next reader have that."""
        for cursor in [*(self._open or ())]:
            cursor.close()

    def _one(self, name: str, *values: Any) -> Any:
        return self.connection.execute(SQL[name], values).fetchone()

    def _all(self, name: str, *values: Any) -> list[Any]:
        return list(giving_way(self.connection.execute(SQL[name], values)))

    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        cursor = self.connection.execute(SQL[name], values)
        if self._open is None:
            self._open = WeakSet()
        self._open.add(cursor)
        return giving_way(cursor)

    def rounds_in(self, key: SessionKey, ranges: list[Range], until: int) -> Iterator[Columns]:
        """Read one range that is not long as one row: its text costs less than many rows."""
        if len(ranges) == 1 and ranges[0][2] - ranges[0][1] < MOST_JOINED:
            *texts, n_odd, joined = self._one("joined_rounds", *key, *ranges[0], until)
            rounds, positions = (np.fromstring(text or "", np.int64, sep=",") for text in texts)
            # SQLite promises no order of what is joined
            if n_odd == 0 and (np.diff(rounds) > 0).all():
                contexts = np.frombuffer(joined, f"V{len(joined) // len(rounds)}").tolist()
                return iter([[[ranges[0][0]] * len(rounds), rounds, positions, contexts]])
        return super().rounds_in(key, ranges, until)


MOST_JOINED = 2**16  # rounds of a range that is read in one row
MOST_SESSION_BYTES = 2**26  # of the cached sessions
N_CACHED_TRAJECTORIES = 2**17  # most of 330 bytes, none of more than 1 KB
BUSY_SECONDS = 5.0
new_values, changed_values = session_values(SESSION_COLUMNS), session_values(CHANGING)
IN_DOUBT = "a sync of the disk failed, and the file is not read again yet; nothing was written"
# rows that a deleted session loses at once
SESSION_TABLES = ("agent_states", "session_counts", "kept_sums", "lift_sums", "sessions")


class SqliteTransaction(Transaction):
    """One batch of commands, on the writer's connection with an open transaction.

    The store's cached sessions and trajectories are current as of the last batch.
    """

    def __init__(self, store: "SqliteStore", connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.reader = SqliteReader(connection)
        self._store = store
        self.slices = store.slices
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

    def fetch(self, keys: Keys, rows: KnownRows) -> Steps:
        """Add the rows of these keys to `rows`; clients' ids take one statement for each kind."""
        if keys.events or keys.rewards:
            rows.expect(keys)  # the other kinds are entered below, found or not
        reader, sessions = self.reader, self._store.sessions
        for key in keys.sessions:
            row = rows.sessions[key] = sessions.get(key) or reader.session(key)
            if row is not None and key not in sessions:
                self._keep(row)
        self._used += keys.sessions
        self._fetch_trajectories(keys.trajectories, rows.trajectories)
        if keys.events:
            wanted = [(*key, event) for key, event in keys.events]
            for row in execute_rows(self.connection, SQL["decisions_by_events"], wanted):
                rows.add_decision(DecisionRow(*row))
        for trajectory, number in keys.numbers:
            rows.numbers[trajectory, number] = reader.decision_by_number(trajectory, number)
        for trajectory, round in keys.rounds:
            rows.rounds[trajectory, round] = reader.decision_by_round(trajectory, round)
        if keys.rewards:
            wanted = [(*key, reward) for key, reward in keys.rewards]
            for row in execute_rows(self.connection, SQL["measurements_by_ids"], wanted):
                measurement = MeasurementRow(*row)
                rows.rewards[measurement[:3], str(measurement.reward_id)] = measurement
        for trajectory, round in keys.measured:
            rows.measured[trajectory, round] = reader.measurement_over(trajectory, round, round)
        yield from ()

    def _fetch_trajectories(self, keys: Set[TrajectoryKey], rows: dict[Any, Any]) -> None:
        cached, unread = self._store.trajectories, []
        for key in keys:
            rows[key] = row = cached.get(key)
            if row is None:
                unread.append(key)
            else:
                cached.move_to_end(key)
        if unread:
            for values in execute_rows(self.connection, SQL["trajectories_by_keys"], unread):
                rows[values[:3]] = cached[values[:3]] = TrajectoryRow(*values)
        self._used_trajectories += keys

    def _keep(self, session: SessionRow) -> None:
        self._store.sessions.keep(session.key, session, session.n_bytes)

    def erase(self, hidden: HiddenRows, cursor: EraseCursor | None) -> EraseCursor | None:
        """Delete the next hidden rows; see `Transaction.erase`."""
        following = super().erase(hidden, cursor)
        if following is None and hidden.trajectory is not None:
            self._store.trajectories.pop((*hidden[:2], hidden.trajectory), None)
        return following

    def _execute(self, name: str, *values: Any) -> sqlite3.Cursor:
        with translated(self._store.path):
            return self.connection.execute(SQL[name], values)

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
            many(SQL["count_session"], [(*key, *counter_values(s)) for key, s in counted.items()])
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
            for table in SESSION_TABLES:
                column = "id" if table == "sessions" else "session_id"
                execute(f"delete from {table} where tenant = ? and {column} = ?", key)
            self._store.sessions.remove(key)
            for place in [t for t in self._store.trajectories if t[:2] == key]:
                del self._store.trajectories[place]
        for session in changes.new_sessions:
            execute(SQL["insert_session"], new_values(session))
            self._keep(session)
            self._used.append(session.key)
        for key, session in changes.sessions.items():
            execute(SQL["update_session"], (*key, *changed_values(session)))
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


class SqliteStore:
    """A SQLite file that this process owns; a missing one is created.

    Sessions and trajectories are cached between batches. The cache is always current, because no
    other process writes. Raises `OwnedElsewhere`, `Refused` or `Unavailable`.
    """

    is_local, slices = True, Slices()
    most_trajectories = N_CACHED_TRAJECTORIES
    transaction_seconds = 0.0015

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_in_doubt = False  # a sync failed, and the file has not been read again
        self._lock = FileLock(path)
        try:
            with translated():
                if path.stat().st_size == 0:  # create the schema, with no log
                    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                        upgrade(connection, SCHEMA)
                self._connection = self._open()
        except BaseException:
            self._lock.release()
            raise
        self.sessions: ByteBounded[SessionKey, SessionRow] = ByteBounded(MOST_SESSION_BYTES)
        self.trajectories: OrderedDict[TrajectoryKey, TrajectoryRow] = OrderedDict()
        self._readers: list[sqlite3.Connection] = []
        self._n_begun = 0

    def _open(self) -> sqlite3.Connection:
        """Open the writer's connection, and begin a log. On a full disk it begins later."""
        n_bytes = log_bytes(self.path)
        connection = connect(self.path)
        try:
            if n_bytes == 0:
                check_copy(connection, self.path)
            SCHEMA.check(revision_of(connection))
            connection.execute("pragma busy_timeout = 0")  # `begin` does the waiting
            try:
                checkpoint(connection, cut=True)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL or self._is_in_doubt:
                    raise
        except BaseException:
            connection.close()
            raise
        self._files, self._log_length = DatabaseFiles(self.path), LogLength()
        self._is_tight = False
        return connection

    def begin(self, *, wait: bool = True) -> SqliteTransaction:
        """Open the writer's transaction; waiting ends after BUSY_SECONDS. See `Store.begin`."""
        if wait:
            self._settle()
            self._check_files()
        self._check()
        if self._n_begun % CHECK_EVERY == 0:
            self._check_disk_space()
        self._n_begun += 1
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with translated(self.path):
                    self._connection.rollback()  # a transaction that failed before
                    self._connection.execute("begin immediate")
                break
            except Unavailable as error:
                late = not wait or time.monotonic() > deadline
                if error.code != "storage_busy" or late:
                    raise
                time.sleep(0.01)
        return SqliteTransaction(self, self._connection)

    async def take_turn(self) -> None:
        """Return at once: no other process commits."""

    def _check(self) -> None:
        """Raise `Unavailable` while the truth about the last commit is not known or not here."""
        if self._is_in_doubt:
            raise Unavailable(ProblemCode.STORAGE_FAILING, IN_DOUBT)
        self._files.check()

    def _settle(self) -> None:
        """After a failed sync, read the file again; called in the writer's thread.

        The first commits of the new log write over the commit that was not confirmed.
        """
        if not self._is_in_doubt:
            return
        self._connection.close()
        self.sessions.clear()
        self.trajectories.clear()
        try:
            with translated(self.path):
                self._connection = self._open()
        except Unavailable as error:
            raise Unavailable(ProblemCode.STORAGE_FAILING, IN_DOUBT, str(error)) from error
        self._is_in_doubt = False

    def _check_files(self) -> None:
        """Check the files; if one is lost, save in the file what only the log holds."""
        try:
            self._files.check()
        except Unavailable:
            with suppress(sqlite3.Error):
                self._connection.execute("pragma wal_checkpoint(truncate)").fetchall()
            raise

    def doubt(self) -> None:
        """Note that a sync failed; nothing is read or written until the file is read again."""
        self._is_in_doubt = True

    def committed(self) -> None:
        """Check the files after a commit, and shorten a long log.

        Raises 503 outcome_unknown: the commit went to files that are not in their place any more.
        """
        try:
            self._check_files()
        except Unavailable as error:
            raise outcome_unknown(error.detail.partition(";")[0]) from error
        n_bytes = self._files.log_bytes
        if self._is_tight or not self._log_length.is_long(n_bytes):
            return
        try:
            with translated():
                checkpoint(self._connection, cut=n_bytes > CUT_BYTES)
        except Unavailable as error:  # the commit before it stands
            self._is_in_doubt = error.code == ProblemCode.OUTCOME_UNKNOWN

    def _check_disk_space(self) -> None:
        with suppress(OSError), translated():  # an error is left to the transaction
            is_now_tight = is_tight(self.path)
            if is_now_tight != self._is_tight:
                keep_log(self._connection, is_tight=is_now_tight)
                self._is_tight = is_now_tight

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Open a reader on a snapshot of the committed rows; connections are pooled."""
        self._check()
        with translated():
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = connect(self.path, readonly=True)
            reader = SqliteReader(connection)
            try:
                connection.execute("begin")
                yield reader
            finally:
                connection.rollback()
                with suppress(sqlite3.ProgrammingError):  # a thread reads on, and keeps it
                    reader.close()
                    self._readers.append(connection)

    def trim(self) -> None:
        """Remove the least recently used rows from the caches."""
        self.sessions.trim()
        while len(self.trajectories) > self.most_trajectories:
            self.trajectories.popitem(last=False)

    def close(self) -> None:
        """Close all connections and release the file."""
        with suppress(sqlite3.Error):  # a mark is left if the last checkpoint failed
            self._connection.execute(f"pragma user_version = {PLAIN}")
        for connection in (*self._readers, self._connection):
            connection.close()
        self._lock.release()


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """Open a reader from a process that does not own the file: a fit, a replay, an export."""
    with snapshot(path) as connection:
        SCHEMA.check(revision_of(connection))
        yield SqliteReader(connection)
