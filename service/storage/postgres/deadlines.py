"""The longest wait for PostgreSQL: a server that is frozen answers nothing and closes nothing."""

from collections.abc import Callable, Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.rows import TupleRow

Found = TypeVar("Found")
ANSWER_SECONDS = 15.0  # longer than the server waits for a lock
BYTES_A_SECOND = 2**20  # statements that send much may take so much longer


def bounded(
    exchange: Generator[Any, Any, Found], n_bytes: Callable[[], int] = lambda: 0
) -> Generator[Any, Any, Found]:
    """Return the exchange with a longest wait.

    Parameters
    ----------
    exchange : generator
        Yields whenever it waits for the server; is sent 0 where nothing came for a while.
    n_bytes : callable
        Returns the number of bytes that were sent.

    Raises
    ------
    psycopg.OperationalError
        The server did not answer in time.
    """
    began = monotonic()
    try:
        wait = next(exchange)
        while True:
            ready = yield wait
            if not ready:
                seconds = ANSWER_SECONDS + n_bytes() / BYTES_A_SECOND
                if monotonic() > began + seconds:
                    raise psycopg.OperationalError(f"no answer within {seconds:.0f} s")
            wait = exchange.send(ready)
    except StopIteration as done:
        found: Found = done.value
        return found


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection whose every wait is bounded; it is closed when one takes too long."""

    def wait(self, gen: Generator[Any, Any, Found], *how: Any, **more: Any) -> Found:
        """Run a generator of the driver."""
        try:
            found: Found = super().wait(bounded(gen), *how, **more)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.close()
            raise
        return found
