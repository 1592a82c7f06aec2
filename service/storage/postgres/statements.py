"""The SQL statements of the PostgreSQL adapter, and how they are run."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, count, repeat
from struct import Struct, pack
from typing import Any, TypeVar

import psycopg
from psycopg import errors, pq, waiting
from psycopg.adapt import PyFormat, Transformer
from psycopg.waiting import Wait

from service.session.records import FitQueue
from service.storage.giving_way import giving_way
from service.storage.postgres.connection import Connection, bounded, check_settings, translated
from service.storage.reader import Reader
from service.storage.sql.statements import (
    CHANGING,
    COLUMNS,
    COUNTERS,
    LAST,
    column_types,
    fills,
    load_queries,
    numbered,
)
from service.storage.transactions import Statement, statements

TYPES = {str: "text", int: "bigint", float: "float8", bytes: "bytea", bool: "bool"}
SESSION_COLUMNS = (*COLUMNS["sessions"], "fit_due", "wake_at", "fit_due_at")
SESSION_UPDATES = (*CHANGING, *COUNTERS, "fit_due_at")
COUNT_STEP = 2**24  # a change of counters adds it to a session's revision, any other adds 1
_NUMBER = count()  # makes cursor names unique; several may be open at once
BYTEA, FLOAT8 = 17, 701  # numbers of types
_ARRAY_HEADER, _LENGTH = Struct("!5i"), Struct("!i")
FIRST_ROWS, N_ROWS_AT_ONCE = 8, 1000  # start small: a page of large rows ends early


def arrays(table: str) -> str:
    """Return the `unnest` expression that makes a table's rows from one array per column."""
    types = (TYPES[kind] for kind in column_types(table))
    return f"unnest({', '.join(f'${i}::{name}[]' for i, name in enumerate(types, 1))})"


SQL = load_queries(
    __package__,
    {
        **fills(SESSION_UPDATES),
        "session_columns": ", ".join(SESSION_COLUMNS),
        "session_values": numbered(len(SESSION_COLUMNS)),
        "all_of_sessions": "sessions",
        "fit_due_at": "fit_due_at",
        "guard": "trial::jsonb ->> 'guard'",
        "control": "trial::jsonb #>> '{policy,session}'",
        "least": "least",
        "greatest": "greatest",
        "ranges": """(
            select value ->> 0 as trajectory, (value ->> 1)::bigint as first,
                (value ->> 2)::bigint as last
            from jsonb_array_elements($3::text::jsonb))""",
        "as_text": "::text",
        "as_int": "::bigint",
        "last_decision": f"left join lateral (select d.number, d.round, d.at {LAST}) l on true",
        "last": LAST,
        "last_known": LAST.replace("where", "where d.round >= k.n_rounds and", 1),
        "count_step": str(COUNT_STEP),
        "counters": ", ".join(f"s.{name}" for name in COUNTERS),
        "sessions_of_s": ", ".join(f"s.{name}" for name in COLUMNS["sessions"]),
        **{f"{t}_arrays": arrays(t) for t in ("decisions", "measurements", "trajectories")},
    },
)
SQL |= statements()
# A table that was never analysed seems to have one row of each session: joins would read a
# session for each of its rows. A subquery with `offset 0` is not merged: its order stays
_JOIN = r"cross join (\w+) (\w)\n *where (?s:(.+?))(?=\n(?:order by|group by|\))|\Z)"
_IN_ORDER = r"cross join lateral (select * from \1 \2 where \3 offset 0) \2"
SQL = {name: re.sub(_JOIN, _IN_ORDER, statement) for name, statement in SQL.items()}
# locks on rows that a batch did not announce are out of key order: waiting could deadlock
SQL["lock_sessions_now"] = f"{SQL['lock_sessions']} nowait"


def columns(rows: Iterable[Sequence[Any]]) -> list[str | bytes | None]:
    """Return one array per column of rows; `unnest` turns them back into rows.

    None stands for a column of nothing else: `unnest` fills shorter columns up with nulls.
    This takes a third of the CPU of the driver's array adaptation. Unlike COPY it needs no extra
    round trip.
    """
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(column: Sequence[Any]) -> str | bytes | None:
    kinds = {*map(type, column)}
    if kinds == {type(None)}:
        return None
    if bytes in kinds:
        return _binary_array(column)
    if kinds == {float}:  # as text they take five times as long
        parts = chain.from_iterable(zip(repeat(8), column, strict=False))
        head = _ARRAY_HEADER.pack(1, 0, FLOAT8, len(column), 1)
        return head + pack("!" + "id" * len(column), *parts)
    if kinds == {str}:
        text = '","'.join(column)
        if "\\" not in text and text.count('"') == 2 * len(column) - 2:
            return f'{{"{text}"}}'
    if len(kinds) == 1:
        return "{" + ",".join(map(_LITERALS[kinds.pop()], column)) + "}"
    return "{" + ",".join([_LITERALS[type(value)](value) for value in column]) + "}"


def _binary_array(column: Sequence[bytes | None]) -> bytes:
    """Return an array of `bytea` in PostgreSQL's binary format: half of what its text takes."""
    parts = [_ARRAY_HEADER.pack(1, 1, BYTEA, len(column), 1)]  # one dimension, may have nulls
    for value in column:
        parts += [_LENGTH.pack(-1)] if value is None else [_LENGTH.pack(len(value)), value]
    return b"".join(parts)


_LITERALS: dict[type, Callable[[Any], str]] = {
    str: lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"',
    int: repr,
    float: repr,
    bool: repr,
    type(None): lambda value: "NULL",
}


def _holds_zero_byte(values: tuple[Any, ...]) -> bool:
    """Return whether a value holds a zero byte: PostgreSQL stores none, so no row matches."""
    return any(isinstance(value, str) and "\0" in value for value in values)


class PostgresReader(Reader):
    """Reads on one connection, inside the transaction that the caller has begun."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._open: set[psycopg.RawServerCursor[Any]] = set()

    def close(self) -> None:
        """Close what is left unread, once the transaction has ended.

        Closed later, it would ask on a connection that another reader has by then.
        """
        while self._open:
            self._open.pop().close()

    def _all(self, name: str, *values: Any) -> list[Any]:
        with translated():
            try:
                return self.connection.execute(SQL[name], values, binary=True).fetchall()
            except psycopg.DataError:
                if _holds_zero_byte(values):
                    return []
                raise

    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        if _holds_zero_byte(values):
            return
        # not `stream`: leaving it early cancels the statement and fails the transaction
        portal = psycopg.RawServerCursor(self.connection, f"each_{next(_NUMBER)}")
        self._open.add(portal)
        with translated(), portal as cursor:
            cursor.execute(SQL[name], values, binary=True)
            n = FIRST_ROWS
            while rows := cursor.fetchmany(n):
                yield from giving_way(rows)
                n = min(8 * n, N_ROWS_AT_ONCE)
        self._open.discard(portal)

    def check(self) -> None:
        """Raise `Unavailable` if the database does not answer, or may lose commits."""
        check_settings(self._all("settings_now"))

    def fit_queue(self) -> FitQueue:
        """Return the number of due fits, since when the oldest is due, and the worker count."""
        return FitQueue(*self._one("queue"))


ResultRows = list[tuple[Any, ...]]
Returned = TypeVar("Returned")
Exchange = Generator[Wait, Any, Returned]  # yields whenever it has to wait for the server
LOOK_SECONDS = 1.0  # the driver checks for input at least this often
_FORMATS = (PyFormat.TEXT, pq.Format.TEXT), (PyFormat.BINARY, pq.Format.BINARY)
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.PIPELINE_ABORTED)


class Pipeline:
    """One connection and its prepared statements: several are sent in one round trip, one wait.

    The driver's own pipeline mode waits about ten times per batch. In a thread each of these waits
    also competes with the event loop for the GIL.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._prepared: dict[str, bytes] = {}
        self._numbers = count()

    def wait(self, exchange: Exchange[Returned]) -> Returned:
        """Run an exchange in the calling thread, blocking it."""
        return self.connection.wait(exchange)  # bounded by the connection

    async def wait_async(self, exchange: Exchange[Returned]) -> Returned:
        """Run an exchange in the event loop."""
        return await waiting.wait_async(exchange, self.connection.pgconn.socket, LOOK_SECONDS)

    def exchange(self, statements: Iterable[Statement]) -> Exchange[list[ResultRows]]:
        """Run statements in one round trip, in a transaction; return the rows of each.

        A transaction is begun before the first statement if none is open. It yields while it waits.
        The error of the first statement that failed is raised; later statements were not run.
        """
        server = self.connection.pgconn
        dumped = Transformer(self.connection).dump_sequence
        sent = []  # as text, bytes as they are; the server infers types from the statement
        for name, values in statements:
            pairs = [_FORMATS[type(value) is bytes] for value in values]
            formats = [one for _, one in pairs]
            sent.append((name, dumped(values, [one for one, _ in pairs]), formats))
        begins = server.transaction_status == pq.TransactionStatus.IDLE
        if begins:
            sent.insert(0, ("begin", [], []))
        elif server.transaction_status == pq.TransactionStatus.INERROR and sent[0][0] != "rollback":
            raise errors.InFailedSqlTransaction("a statement before these has failed")
        unknown = dict.fromkeys(name for name, *_ in sent if name not in self._prepared)
        new = {name: b"lhb_%d" % next(self._numbers) for name in unknown}
        prepared = {**self._prepared, **new}
        try:
            server.enter_pipeline_mode()
            for name, number in new.items():
                server.send_prepare(number, SQL[name].encode())
            for name, values, kinds in sent:
                server.send_query_prepared(prepared[name], values, kinds, pq.Format.BINARY)
            server.pipeline_sync()
            results = yield from bounded(
                self._results(), lambda: sum(len(one or b"") for _, some, _ in sent for one in some)
            )
            server.exit_pipeline_mode()
        except BaseException:
            self.connection.close()  # its protocol state is unknown
            raise
        for result in results:
            if result.status not in _FINE:
                raise self._error(result)
        self._prepared = prepared
        return self._rows(results[len(new) + begins :])

    def rollback(self) -> None:
        """Roll back; close the connection if that fails.

        The driver's own rollback would deallocate the prepared statements.
        """
        if self.connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):  # it closes the connection
                self.wait(self.exchange([("rollback", ())]))

    def _results(self) -> Exchange[list[pq.abc.PGresult]]:
        """Collect the results of all sent messages, one each."""
        server = self.connection.pgconn
        while server.flush():
            yield Wait.RW
            server.consume_input()  # read too: a server that cannot send stops reading
        results: list[pq.abc.PGresult] = []
        while True:
            while server.is_busy():
                yield Wait.R
                server.consume_input()
            result = server.get_result()
            if result is None:  # between two results
                if server.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection is lost")
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            else:
                results.append(result)

    def _rows(self, results: list[pq.abc.PGresult]) -> list[ResultRows]:
        load = Transformer(self.connection)
        answers: list[ResultRows] = []
        for result in results:
            load.set_pgresult(result)
            answers.append(load.load_rows(0, result.ntuples, tuple))
        return answers

    def _error(self, result: pq.abc.PGresult) -> psycopg.Error:
        if self.connection.pgconn.status == pq.ConnStatus.BAD:
            return psycopg.OperationalError(result.get_error_message())
        return errors.error_from_result(result)
