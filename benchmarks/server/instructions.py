"""The user instructions of a server for a decision, counted by valgrind.

They are the same on any machine, whatever else it does. What the kernel does for the server is not
counted. Decisions come in waves, each as large as a commit is under full load: how many commits a
decision costs would else depend on how fast the generator is.
"""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path

from benchmarks.server.featured_server import FeaturedServer

SLOWNESS = 20  # a server under valgrind takes about so many times as long
WAVE = 32  # decisions at once


def valgrind(folder: Path) -> list[str]:
    """Return the command that runs another, whose instructions `counting` can count.

    Parameters
    ----------
    folder : Path
        For what valgrind writes.
    """
    out = f"--callgrind-out-file={folder}/counts"
    return ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", out]


@contextmanager
def counting(pid: int, folder: Path) -> Iterator[list[int]]:
    """Count the instructions of a process meanwhile; afterwards the list yielded holds them."""
    found: list[int] = []
    _control("--instr=on", pid)
    yield found
    _control("--dump", pid)
    text = (folder / "counts.1").read_text()
    found += map(int, re.findall(r"(?m)^totals: (\d+)", text))


def _control(what: str, pid: int) -> None:
    command = ["callgrind_control", what, str(pid)]
    subprocess.run(command, check=True, capture_output=True)


def send_waves(
    server: FeaturedServer, requests: Iterator[bytes], n_waves: int, n_at_once: int = WAVE
) -> int:
    """Send waves of requests, each while the server is stopped, and take their answers.

    Parameters
    ----------
    server : FeaturedServer
        A child of this process.
    requests : iterator of bytes
        Whole requests, without end.
    n_waves : int
    n_at_once : int
        Requests of a wave.

    Returns
    -------
    int
        How many were answered, all with success.
    """
    host, _, port = server.url.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        opened = [socket.create_connection((host, int(port))) for _ in range(n_at_once)]
        connections = [stack.enter_context(one) for one in opened]
        for _ in range(n_waves):
            os.kill(server.pid, signal.SIGSTOP)
            os.waitpid(server.pid, os.WUNTRACED)  # it has stopped
            for connection in connections:
                connection.sendall(next(requests))
            os.kill(server.pid, signal.SIGCONT)
            for connection in connections:
                with HTTPResponse(connection, method="POST") as answer:
                    answer.begin()
                    body = answer.read()
                    if answer.status not in (200, 201) or b'"problem"' in body:
                        raise SystemExit(f"the server answered {answer.status} {body!r}")
    return n_waves * n_at_once
