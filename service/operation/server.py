"""A server process: `lhb serve` calls `run`."""

import asyncio
import gc
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn

from service.base.server_settings import Settings
from service.operation.app import create_app
from service.storage.database_url import is_sqlite, open_store, sqlite_path
from service.storage.ports import Refused
from service.storage.transactions import Store
from service.web.connection import connection_class

MOST_AT_ONCE = 256
# Interval after which a Python thread hands over the GIL, on PostgreSQL. There the writer thread
# wakes for every answer of the database and then waits for the GIL while requests are parsed, 5 ms
# by default. On SQLite a shorter interval brings nothing and costs switches.
WRITER_WAITS_SECONDS = 0.0005


class Backlog:
    """Accepts the connections that wait at a listening socket, beside the server that listens."""

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


class AnnouncingServer(uvicorn.Server):
    """A uvicorn server that prints its address once it listens: port 0 picks any free port."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and print the address."""
        await super().startup(sockets)
        if self.started:
            # Exempt the objects made at start-up from garbage collection, and collect less often. A
            # request leaves no cycles, but the lists of its body trigger collections, each of which
            # would walk over all imported objects: 5 to 8% of a request, in which the loop stalls.
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 20)
            listening = [socket.fileno() for server in self.servers for socket in server.sockets]
            self._backlogs = [Backlog(number, self._protocol) for number in listening]
            bound = self.servers[0].sockets[0]
            host, port = bound.getsockname()[:2]
            shown = f"[{host}]" if bound.family == socket.AF_INET6 else host
            print(f"listening on http://{shown}:{port}", flush=True)

    def _protocol(self) -> asyncio.BaseProtocol:
        make: Any = self.config.http_protocol_class
        made: asyncio.BaseProtocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen no more, and finish what is under way."""
        for backlog in self._backlogs:
            backlog.close()
        await super().shutdown(sockets)


def run(
    host: str = "127.0.0.1",
    port: int = 8080,
    settings: Settings | None = None,
    store: Store | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish the requests that are under way.

    Port 0 is any free one. Settings are read from the environment by default, and a store is opened
    by them; a store is closed at the end.

    Raises `Refused`: the address is beyond loopback, and the database has no key; or the database
    cannot be served: another process owns it, its schema is another, ... Raises `SystemExit` with
    status 3: the server did not start, for instance since the port is in use.
    """
    settings = settings or Settings()
    if store is None:
        refuse_lost(settings)
    store = store or open_store(settings.database_url)  # a refusal here is a line, no traceback
    try:
        check_bind(host, settings, store)
    except BaseException:
        store.close()
        raise
    if not is_sqlite(settings.database_url):
        sys.setswitchinterval(WRITER_WAITS_SECONDS)
    server = AnnouncingServer(server_config(host, port, settings, store))
    server.run()
    if not server.started:
        raise SystemExit(3)


def server_config(
    host: str, port: int, settings: Settings, store: Store | None = None, **more: Any
) -> uvicorn.Config:
    """Return uvicorn's configuration of the app; `more` are further arguments of it."""
    app = create_app(settings, store)
    app.outer_middleware.cross_site.accept(host)
    return uvicorn.Config(
        app.outer_middleware,
        http=connection_class(settings, app.outer_middleware.admission),
        host=host,
        port=port,
        access_log=False,
        log_config=None,  # its lines become lines of our log
        log_level="warning",
        server_header=False,
        date_header=False,
        ws="none",  # an upgraded connection would have no deadline
        proxy_headers=False,  # forwarded addresses are not trusted, and parsing them costs time
        timeout_graceful_shutdown=30,
        lifespan="on",
        **more,
    )


def check_bind(host: str, settings: Settings, store: Store) -> None:
    """Raise `Refused` for an address beyond loopback without a valid key in the database.

    With `insecure_bind` any address is taken.
    """
    if settings.insecure_bind or is_loopback(host):
        return
    with store.reader() as reader:
        if any(key.is_in_use(time.time()) for key in reader.api_keys()):
            return
    raise Refused(
        f"refusing to listen on {host} without a key in the database: anybody who reaches it could "
        "read and write everything. Make a key with `lhb keys create`, or listen on 127.0.0.1, or "
        "set LHB_INSECURE_BIND=true where a container network or a proxy decides who may ask."
    )


def refuse_lost(settings: Settings) -> None:
    """Raise `Refused` where a SQLite database is missing and the folder of backups has files.

    A server that is started again by the system would have no keys and no sessions.
    """
    folder = settings.backup_folder
    if folder is None or not is_sqlite(settings.database_url):
        return
    path = sqlite_path(settings.database_url)
    if path.exists() or not folder.is_dir() or not any(folder.iterdir()):
        return
    raise Refused(
        f"{path} is missing, and {folder} holds backups: bring one back with `lhb restore`, or "
        "begin an empty database with `lhb migrate`"
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address or a name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        try:
            addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
        except OSError:
            return False
        return all(ipaddress.ip_address(address).is_loopback for address in addresses)
