"""Servers of the benchmarks are forked here, as those of other tests are."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.server import processes
from benchmarks.server.beside_fits import CODE
from tests.forked_process import ForkedProcess


def _started(command: list[str], env: dict[str, str], stderr: Any, **pipes: Any) -> Any:
    is_plain = command[0] == sys.executable and CODE not in command
    if not is_plain:  # it runs under another program, or its fits do
        return subprocess.Popen(command, env=env, stderr=stderr, **pipes)
    files = None, None, stderr or sys.__stderr__
    return ForkedProcess(command[-1], env, files, forks_fits=True)


@pytest.fixture(autouse=True)
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would else take a second of CPU to import what the next one imports again."""
    forks = SimpleNamespace(Popen=_started, PIPE=subprocess.PIPE)
    monkeypatch.setattr(processes, "subprocess", forks)
