"""A real server process over a database, and a client quick enough to keep it busy."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

import httpx

from lhb_engine.blas import one_thread
from service.storage.database_url import open_reader
from service.transfer.replay import replay_session
from service.transfer.without_server import all_sessions
from tests.forked_process import ForkedProcess

ROOT = Path(__file__).parents[2]


def url_of(database: Path | str) -> str:
    """A URL as it is; a file as SQLite's."""
    return f"sqlite:///{database}" if isinstance(database, Path) else database


def assert_replay_equals_live(url: str) -> int:
    """Every session that is left decides and fits again as it did; how many decisions there are."""
    n_decisions = 0
    with one_thread(), open_reader(url) as reader:
        for session in all_sessions(reader):
            replay = replay_session(reader, session)
            assert not replay.differences, (session.id, replay.differences[:3])
            n_gone = session.n_erased_rounds + session.n_dropped_rounds
            assert replay.decisions == session.n_rounds - n_gone
            n_decisions += session.n_rounds
    return n_decisions


class Server:
    """`with Server(path or URL) as server`: listens on a port of its own.

    What it leaves behind is replayed, whatever was done to it.
    """

    leaves_sessions = True
    is_forked = True  # begins with the service's modules loaded; else as a new interpreter
    forks_fits = True  # they are forked too, and do not have its environment
    code = "from service.operation.server import run; run(port=0)"
    ready = "listening on"

    def __init__(self, database: Path | str, *prefix: str, **settings: str) -> None:
        self.database = url_of(database)
        self.settings = settings
        self.prefix = prefix
        self.process: subprocess.Popen[str] | ForkedProcess | None = None
        self._errors: IO[str] | None = None  # a file: a full pipe would stop the server
        self.url = ""
        self.output = ""  # what it printed, once it has ended

    def start(self) -> Self:
        """Returns once it listens."""
        environment = {
            **os.environ,
            "LHB_DATABASE_URL": self.database,
            "LHB_LOG_LEVEL": "error",
            "LHB_FIT_WAIT_SECONDS": "120",  # fits of a busy machine
            **self.settings,
        }
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- `stop` closes it
        are_read_late = all(name.startswith(("LHB_", "OTEL_")) for name in self.settings)
        if self.is_forked and not self.prefix and are_read_late:
            files = None, None, self._errors
            self.process = ForkedProcess(self.code, environment, files, forks_fits=self.forks_fits)
        else:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, "-c", self.code],
                env=environment,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(self.ready):
            self.stop()
            raise AssertionError(f"the server did not start: {line}{self.output}")
        self.url = line.split()[-1]
        return self

    def kill(self) -> None:
        """As the power would, for this process."""
        self.stop(signal.SIGKILL)

    def stop(self, how: int = signal.SIGTERM) -> int | None:
        """End it, and give its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        printed = self.process.communicate(timeout=120)[0] or ""
        if self._errors is not None:
            self._errors.seek(0)
            self.output = printed + self._errors.read()
            self._errors.close()
            self._errors = None
        return self.process.returncode

    def client(self) -> httpx.Client:
        """A plain client, which reads no certificates: they take 30 ms of CPU."""
        json = {"content-type": "application/json"}
        return httpx.Client(base_url=self.url, timeout=150, headers=json, verify=False)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop(signal.SIGKILL)
        if kind is None and self.leaves_sessions:
            assert_replay_equals_live(self.database)


@contextmanager
def served(database: Path) -> Iterator[str]:
    """The URL of a server like that of `lhb demo`, whose processes are forked."""
    server = Server(database, LHB_ALLOW_ORACLES="true")
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


class WorkerProcess(Server):
    """A real worker process."""

    leaves_sessions = False
    code = "from service.operation.worker import run; run()"
    ready = "working"


OURS = "host: localhost\r\ncontent-type: application/json\r\n"  # what a server without keys wants


class RawConnection:
    """One kept connection that posts JSON: a few system calls a request."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port = int(port)

    async def open(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Status and JSON; raises ConnectionError when the server goes away."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{OURS}content-length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        try:
            head_bytes = await self._reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head_bytes.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            answer = await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the server went away") from error
        return int(head_bytes.split(b" ", 2)[1]), json.loads(answer)

    def close(self) -> None:
        self._writer.close()
