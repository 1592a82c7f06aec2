"""The way to a server, which can be shut: for its clients the server is away then."""

import socket
from contextlib import suppress
from threading import Thread
from typing import Self

from tests.free_port import free_port


class Gate:
    """`with Gate(url) as gate`: `gate.url` leads to `url` until it is shut."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self._port = free_port()
        self._sockets: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> Self:
        listener = socket.create_server(("127.0.0.1", self._port))
        self._sockets = [listener]
        Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self

    def shut(self) -> None:
        """Refuse connections, and end those that are open."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                for pair in ((client, server), (server, client)):
                    Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.shut()
