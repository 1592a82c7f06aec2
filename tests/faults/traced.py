"""A running process under strace: its calls are written down, or its syncs fail."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self


class Traced:
    """`with Traced(pid, log, arguments)`: strace writes calls of all threads of a process."""

    def __init__(self, pid: int, log: Path, *arguments: str) -> None:
        self._pid, self._log, self._arguments = pid, log, arguments

    def __enter__(self) -> Self:
        self._tracer = subprocess.Popen(
            ["strace", "-f", "-y", *self._arguments, "-o", str(self._log), "-p", str(self._pid)],
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + 120
        while not self._is_attached():
            assert self._tracer.poll() is None, "strace may not attach"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return self

    def _is_attached(self) -> bool:
        """Whether every thread has a tracer."""
        try:
            threads = list(Path(f"/proc/{self._pid}/task").iterdir())
            return all("TracerPid:\t0" not in (t / "status").read_text() for t in threads)
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        if self._tracer.poll() is None:
            os.kill(self._tracer.pid, signal.SIGINT)
        self._tracer.communicate(timeout=120)


class FailingSync(Traced):
    """`with FailingSync(pid, log)`: every fsync and fdatasync of the process fails with EIO.

    With `first_only`, one of each thread fails and the next ones succeed.
    """

    def __init__(self, pid: int, log: Path, *, first_only: bool = False) -> None:
        fault = f"inject=fdatasync,fsync:error=EIO{':when=1' if first_only else ''}"
        super().__init__(pid, log, "-e", "trace=fdatasync,fsync", "-e", fault)

    @property
    def n_failed(self) -> int:
        """How many calls have failed."""
        return self._log.read_text().count("(INJECTED)")
