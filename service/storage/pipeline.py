"""Statements that go to PostgreSQL together and come back together: one round trip, and one wait.

The driver's own pipeline waits ten times a batch. After each the writer's thread must get the
interpreter's lock back from a busy event loop, which cost a fifth of the throughput.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer
from psycopg.waiting import Wait

from service.storage.postgres_reader import SQL, Connection

Statement = tuple[str, Sequence[Any]]  # a query's name, and its values
Rows = list[tuple[Any, ...]]
_ROWS, _DONE = pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK
_SYNC, _SKIPPED = pq.ExecStatus.PIPELINE_SYNC, pq.ExecStatus.PIPELINE_ABORTED


class Pipeline:
    """One connection, and the queries that it has prepared."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._prepared: set[str] = set()

    def run(self, statements: Iterable[Statement]) -> list[Rows]:
        """The rows of each statement; a transaction begins with the first.

        Raises
        ------
        psycopg.Error
            What the first statement that failed met; the ones after it were not run.
        """
        server = self.connection.pgconn
        if server.transaction_status == pq.TransactionStatus.INERROR:
            raise errors.InFailedSqlTransaction("a statement before these has failed")
        sent = [(name, self._dumped(values)) for name, values in statements]
        begins = server.transaction_status == pq.TransactionStatus.IDLE
        if begins:
            sent.insert(0, ("begin", []))
        for name in {name for name, _ in sent} - self._prepared:
            self._prepare(name)
        try:
            server.enter_pipeline_mode()
            for name, values in sent:
                server.send_query_prepared(name.encode(), values, None, pq.Format.BINARY)
            server.pipeline_sync()
            found, failed = self.connection.wait(self._results())
            server.exit_pipeline_mode()
        except BaseException:
            self.connection.close()  # nobody knows what it would say next
            raise
        if failed is not None:
            raise self._error(failed)
        return found[begins:]

    def rollback(self) -> None:
        """Leave the transaction; a connection that cannot is closed. The driver's own rollback
        would have the server forget what is prepared."""
        server = self.connection.pgconn
        try:
            left = server.transaction_status == pq.TransactionStatus.IDLE or (
                server.exec_(b"rollback").status == _DONE
            )
        except psycopg.Error:
            left = False
        if not left:
            self.connection.close()

    def _dumped(self, values: Sequence[Any]) -> Sequence[Buffer | None]:
        """As text: the server knows each value's type from its place in the query."""
        formats = [PyFormat.TEXT] * len(values)
        return Transformer(self.connection).dump_sequence(values, formats)

    def _prepare(self, name: str) -> None:
        result = self.connection.pgconn.prepare(name.encode(), SQL[name].encode())
        if result.status != _DONE:
            raise self._error(result)
        self._prepared.add(name)

    def _error(self, result: pq.abc.PGresult) -> psycopg.Error:
        if self.connection.pgconn.status == pq.ConnStatus.BAD:
            return psycopg.OperationalError(result.get_error_message())
        return errors.error_from_result(result)

    def _results(self) -> Generator[Wait, Any, tuple[list[Rows], pq.abc.PGresult | None]]:
        """What comes back until all has, and the first failure."""
        server = self.connection.pgconn
        while server.flush():
            yield Wait.RW
            server.consume_input()  # a server that cannot answer does not read on
        load = Transformer(self.connection)
        found: list[Rows] = []
        failed = None
        while True:
            while server.is_busy():
                yield Wait.R
                server.consume_input()
            result = server.get_result()
            if result is None:  # between two statements
                if server.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection is lost")
            elif result.status == _SYNC:
                return found, failed
            elif result.status == _ROWS:
                load.set_pgresult(result)
                found.append(load.load_rows(0, result.ntuples, tuple))
            elif result.status == _DONE:
                found.append([])
            elif result.status != _SKIPPED and failed is None:
                failed = result
