"""Accepting connections: all that wait, not one in each turn of the event loop.

libuv accepts a single connection in each turn. Under load a turn takes a tenth of a second, and a
thousand new connections, a health check among them, would wait for a hundred.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress

MOST_AT_ONCE = 256


class Backlog:
    """Accepts the connections that wait at a listening socket, beside the server that listens.

    Parameters
    ----------
    listening : int
        File descriptor of the server's listening socket; it stays the server's.
    protocol : callable
        Makes the protocol of a connection.
    """

    def __init__(self, listening: int, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._listening = socket.socket(fileno=os.dup(listening))
        self._listening.setblocking(False)
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[object]] = set()
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # none waits any more, or no file is left: the server sees to that
            for _ in range(MOST_AT_ONCE):
                connection, _ = self._listening.accept()
                if connection.family != socket.AF_UNIX:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                opening = self._loop.connect_accepted_socket(self._protocol, connection)
                task: asyncio.Task[object] = self._loop.create_task(opening)
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
