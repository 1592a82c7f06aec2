"""Send several statements to PostgreSQL in one round trip, with one wait.

The driver's own pipeline mode waits about ten times per batch. In a thread each of these waits also
competes with the event loop for the GIL.
"""

from collections.abc import Generator, Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors, generators, pq, waiting
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer
from psycopg.waiting import Wait

from service.storage.postgres.connection import Connection, bounded
from service.storage.postgres.statements import SQL
from service.storage.sql.transactions import Statement

ResultRows = list[tuple[Any, ...]]
Returned = TypeVar("Returned")
Exchange = Generator[Wait, Any, Returned]  # yields whenever it has to wait for the server
LOOK_SECONDS = 1.0  # the driver checks for input at least this often
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.PIPELINE_ABORTED)


class Pipeline:
    """One connection and its prepared statements."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._prepared: dict[str, bytes] = {}
        self._numbers = count()

    def wait(self, exchange: Exchange[Returned]) -> Returned:
        """Run an exchange in the calling thread, blocking it."""
        return self.connection.wait(exchange)  # bounded by the connection

    async def wait_async(self, exchange: Exchange[Returned]) -> Returned:
        """Run an exchange in the event loop."""
        socket = self.connection.pgconn.socket
        return await waiting.wait_async(exchange, socket, LOOK_SECONDS)

    def exchange(self, statements: Iterable[Statement]) -> Exchange[list[ResultRows]]:
        """Run statements in one round trip, in a transaction; return the rows of each.

        A transaction is begun before the first statement if none is open. It yields while it waits.
        The error of the first statement that failed is raised; later statements were not run.
        """
        server = self.connection.pgconn
        if server.transaction_status == pq.TransactionStatus.INERROR:
            raise errors.InFailedSqlTransaction("a statement before these has failed")
        dumped = Transformer(self.connection).dump_sequence
        sent = []  # as text, bytes as they are; the server infers types from the statement
        for name, values in statements:
            formats = [pq.Format(isinstance(value, bytes)) for value in values]
            sent.append((name, dumped(values, list(map(PyFormat.from_pq, formats))), formats))
        begins = server.transaction_status == pq.TransactionStatus.IDLE
        if begins:
            sent.insert(0, ("begin", [], []))
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
            results = yield from bounded(self._results(), lambda: _size(sent))
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
        server = self.connection.pgconn
        try:
            left = server.transaction_status == pq.TransactionStatus.IDLE or self.wait(
                self._rolled_back()
            )
        except psycopg.Error:
            left = False
        if not left:
            self.connection.close()

    def _rolled_back(self) -> Exchange[bool]:
        """Roll back; return whether the server says so."""
        self.connection.pgconn.send_query(b"rollback")
        results = yield from generators.execute(self.connection.pgconn)
        return bool(results[-1].status == pq.ExecStatus.COMMAND_OK)

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


def _size(sent: Iterable[tuple[str, Sequence[Buffer | None], Any]]) -> int:
    """Return the number of bytes of the statements' values."""
    return sum(len(value) for _, values, _ in sent for value in values if value is not None)
