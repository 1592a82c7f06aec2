"""A client's process is killed, again and again, with the server there and away."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lhb import Client
from tests.faults.server_process import Server
from tests.free_port import free_port

CONTEXTS = [[0.3, -0.1], [0.2, 0.9]]
N_ROUNDS = 400
PROGRAM = """
import sys
from lhb import Client

url, buffer, name, first, last = sys.argv[1:]
client = Client(url, n_retries=0, buffer=buffer)
session = client.session_handle(name)
for i in range(int(first), int(last) + 1):
    print(f"begun {i}\\n", end="", flush=True)  # one write: a kill cuts no line
    session.reward(1.0, round=i)  # the client makes its reward_id
    print(f"given {i}\\n", end="", flush=True)
"""


class FixedServer(Server):
    """A server that comes back where it was."""

    def __init__(self, database: Path, **settings: str) -> None:
        super().__init__(database, **settings)
        self.code = f"from service.operation.server import run; run(port={free_port()})"


def give(url: str, buffer: Path, first: int, kill_after: int) -> tuple[int, int]:
    """Give rewards in a process until it has printed so many lines, and kill it with SIGKILL.

    Returns the last round whose reward was begun, and the last one that was given.
    """
    arguments = (url, str(buffer), "killed", str(first), str(N_ROUNDS))
    begun = given = first - 1
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for n, line in enumerate(process.stdout):
            what, number = line.split()
            begun = int(number)
            given = begun if what == "given" else given
            if n == kill_after:
                os.kill(process.pid, signal.SIGKILL)
        assert process.wait() in (0, -signal.SIGKILL)
    return begun, given


@pytest.mark.slow
def test_no_reward_is_lost_or_counted_twice_when_a_client_is_killed(tmp_path: Path) -> None:
    buffer = tmp_path / "rewards.db"
    with FixedServer(tmp_path / "lhb.db") as server:
        with Client(server.url) as client:
            session = client.create_session(
                "killed", algorithm="uniform", dim=2, horizon=5, reward_mode="sum"
            )
            item = {"session_id": session.id, "decision": {"contexts": CONTEXTS}}
            client.batch([item] * N_ROUNDS)
        unsure = set()  # begun when the process was killed: kept or not, but never twice
        next_round = 1
        for i, kill_after in enumerate((31, 30, 47, 2, 63, 40, 17, 10**9)):
            if i in (1, 4):
                server.kill()  # the client goes on without it
            if i in (3, 6):
                server.start()
            begun, given = give(server.url, buffer, next_round, kill_after)
            unsure |= set(range(given + 1, begun + 1))
            next_round = begun + 1
        assert next_round == N_ROUNDS + 1
        with Client(server.url, buffer=buffer) as client:
            assert client.flush() == 0
            assert client.refused_rewards() == []
            counts = {one["round"]: one["n_rewards"] for one in client.session("killed").rounds()}
    assert len(unsure) <= 7
    assert set(counts) == set(range(1, N_ROUNDS + 1))
    assert {round for round, n in counts.items() if n != 1} <= unsure
    assert max(counts.values()) == 1
