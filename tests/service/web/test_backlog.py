"""Connections that wait are all accepted in one turn of the event loop."""

import asyncio
import socket

import uvloop

from service.operation.server import Backlog

N = 50


def test_all_that_wait_are_accepted_at_once() -> None:
    made: list[asyncio.BaseProtocol] = []

    def protocol() -> asyncio.BaseProtocol:
        made.append(asyncio.Protocol())
        return made[-1]

    async def accepted() -> tuple[int, int]:
        listening = socket.create_server(("127.0.0.1", 0), backlog=2 * N)
        address = listening.getsockname()
        clients = [socket.create_connection(address) for _ in range(N)]
        backlog = Backlog(listening.fileno(), protocol)
        while not made:
            await asyncio.sleep(0)
        for _ in range(5):  # turns in which each of them is made
            await asyncio.sleep(0)
        n_first = len(made)
        backlog.close()
        clients.append(socket.create_connection(address))  # the listening socket is the server's
        for _ in range(20):
            await asyncio.sleep(0.001)
        for client in clients:
            client.close()
        listening.close()
        return n_first, len(made)

    assert uvloop.run(accepted()) == (N, N)
