"""Processes that begin with the service's modules loaded: one loads them, and the others fork.

A new interpreter takes a second of CPU to import them, and tests start hundreds of processes.
"""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from multiprocessing import forkserver, reduction
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import IO, Any

from service.base import process_pool

FORKS = multiprocessing.get_context("forkserver")
# the last of them are what fits and plays load, with scipy, when they begin
LOADED = (
    *("service.operation.server", "service.operation.worker", "clients.cli.main", __name__),
    *("lhb_engine.agents.anytime_fit", "lhb_engine.agents.epoch_agent", "clients.simulator"),
    *("lhb_engine.findings.all_checks", "lhb_engine.posterior.sparse_profiles", "scipy.sparse"),
)
FORKS.set_forkserver_preload(list(LOADED))
_received: Any = reduction.recvfds  # type: ignore[attr-defined]
LHB = "import sys; sys.argv = ['lhb', *{arguments!r}]; from clients.cli.main import main; main()"


class ForkedProcess:
    """A process that runs code; its methods are those of `subprocess.Popen`.

    `files` are its standard input, output and errors; without an output, it is a pipe. If it
    `forks_fits`, the processes of its fits are forked, too: with this environment, not its own.
    """

    def __init__(
        self,
        code: str,
        environment: Mapping[str, str],
        files: tuple[IO[Any] | None, IO[Any] | None, IO[Any]],
        *,
        forks_fits: bool = False,
    ) -> None:
        reads, writes = os.pipe()
        numbers = [writes if n == 1 and not file else file and file.fileno()
                   for n, file in enumerate(files)]  # fmt: skip
        shared = [None if n is None else Connection(os.dup(n)) for n in numbers]
        # the process that forks began with those of an earlier time
        processors = os.sched_getaffinity(0)
        given = code, dict(environment), shared, processors, forks_fits
        self._process = FORKS.Process(target=_run, args=given)
        self._process.start()
        os.close(writes)
        for connection in shared:
            if connection is not None:
                connection.close()
        self.stdout = os.fdopen(reads, encoding="utf-8")
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._printed = ""

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As `returncode`."""
        return self.returncode

    def send_signal(self, how: int) -> None:
        """Signal it, if it runs: its end may be known to the process that forked it alone."""
        with suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, how)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """What it printed, once it has ended."""
        self.wait(timeout)
        if not self.stdout.closed:
            with self.stdout:
                self._printed = self.stdout.read()
        return self._printed, None


def run_lhb(
    *arguments: str, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command line to its end."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin)
        files[0].seek(0)
        code = LHB.format(arguments=arguments)
        process = ForkedProcess(code, {**os.environ, **environment}, tuple(files))
        try:
            process.communicate(timeout=120)
        finally:
            process.send_signal(signal.SIGKILL)
        for file in files[1:]:
            file.seek(0)
        output = [file.read() for file in files[1:]]
        return subprocess.CompletedProcess(arguments, process.wait(), *output)


def lhb_text(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As `run_lhb`, with its output as text."""
    done = run_lhb(*arguments, **environment)
    output = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(arguments, done.returncode, *output)


def _files_received(asks: Any, most: int) -> list[int]:
    """Receive the files of a process to fork; a server that is killed while it asks gets none.

    Its end would end who forks, too, and with that all others' exit codes.
    """
    try:
        files: list[int] = _received(asks, most)
        return files
    except EOFError:
        raise OSError(errno.ECONNABORTED, "who asked is gone") from None


reduction.recvfds = _files_received  # type: ignore[attr-defined]


def _run(
    code: str,
    environment: dict[str, str],
    files: list[Connection | None],
    processors: set[int],
    forks_fits: bool,
) -> None:
    os.sched_setaffinity(0, processors)
    if forks_fits:
        forkserver._forkserver.ensure_running = lambda: None  # type: ignore[method-assign]
        contexts = SimpleNamespace(get_context=lambda _: FORKS)
        process_pool.multiprocessing = contexts  # type: ignore[assignment]
    for number, file in enumerate(files):
        if file is not None:
            os.dup2(file.fileno(), number)
            file.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 -- until it ends
    os.environ.clear()
    os.environ.update(environment)
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
