"""Syncs of a running process that fail: strace answers them with EIO; writes are left alone."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self


class FailingSync:
    """`with FailingSync(pid, log)`: every fsync and fdatasync of the process fails with EIO.

    With `first_only`, one of each thread fails and the next ones succeed.
    """

    def __init__(self, pid: int, log: Path, *, first_only: bool = False) -> None:
        self._pid, self._log = pid, log
        self._when = ":when=1" if first_only else ""

    def __enter__(self) -> Self:
        fault = f"inject=fdatasync,fsync:error=EIO{self._when}"
        calls = ("-e", "trace=fdatasync,fsync", "-e", fault, "-o", str(self._log))
        self._tracer = subprocess.Popen(
            ["strace", "-f", "-y", *calls, "-p", str(self._pid)], stderr=subprocess.PIPE
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

    @property
    def n_failed(self) -> int:
        """How many calls have failed."""
        return self._log.read_text().count("(INJECTED)")

    def __exit__(self, *_: object) -> None:
        if self._tracer.poll() is None:
            os.kill(self._tracer.pid, signal.SIGINT)
        self._tracer.communicate(timeout=20)
