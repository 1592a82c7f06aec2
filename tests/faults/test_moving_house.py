"""`lhb export | lhb import` between SQLite and PostgreSQL: the session goes on as if nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.simulator import SimulationSettings, play_in_process, settled_estimates
from lhb import Client, Session
from tests.faults.server_process import Server, WorkerProcess
from tests.forked_process import run_lhb

SETTINGS = SimulationSettings(("ad_lasso",), rounds=240, horizon=20, dim=3, arms=4, sparsity=2)


def lhb(url: str, *arguments: str, stdin: bytes = b"") -> bytes:
    done = run_lhb(*arguments, stdin=stdin, LHB_DATABASE_URL=url)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@contextmanager
def served(url: str) -> Iterator[Client]:
    """A server on this database, with a worker where it needs one."""
    if url.startswith("sqlite"):
        with Server(url) as server, Client(server.url) as client:
            yield client
    else:
        with Server(url) as server, WorkerProcess(url), Client(server.url) as client:
            yield client


def play(session: Session, first: int, last: int, late: list[dict[str, Any]]) -> list[int]:
    """Rounds first..last; `late` is the reward of the round before, then of the last one."""
    arms = []
    for t in range(first, last + 1):
        [contexts] = WORLD.contexts(t, t)
        decision = session.decide(contexts, rewards=late, event_id=f"round-{t}")
        assert decision.round == t
        arms.append(decision.arm)
        CHOSEN[t - 1] = WORLD.signals(contexts)[decision.arm]
        late[:] = [{"round": t, "value": float(WORLD.rewards(CHOSEN[:t], t)[0])}]
    return arms


WORLD = SETTINGS.world(0)
CHOSEN = np.zeros(SETTINGS.rounds)  # <xi_t, theta>


@pytest.mark.parametrize("to_postgres", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_half_here_half_there_equals_an_unbroken_run(
    tmp_path: Path, postgres_url: str, to_postgres: bool
) -> None:
    urls = [f"sqlite:///{tmp_path / 'lhb.db'}", postgres_url]
    here, there = urls if to_postgres else urls[::-1]
    if not to_postgres:
        lhb(there, "migrate")
    half = SETTINGS.rounds // 2 + 7
    late: list[dict[str, Any]] = []
    with served(here) as client:
        session = client.create_session(
            "moves", algorithm="ad_lasso", dim=3, horizon=20, seed=0, refit="blocking"
        )
        arms = play(session, 1, half, late)
        settled_estimates(session)
        old = session.id
    moved = lhb(here, "export", old, "--move")
    new = lhb(there, "import", stdin=moved).decode().strip()
    with served(there) as client:
        session = client.session(new)
        arms += play(session, half + 1, SETTINGS.rounds, late)
        session.rewards(late)
        found = settled_estimates(session)
        again = session.decide(
            WORLD.contexts(1, 1)[0], event_id="round-1"
        )  # the first answer, taken elsewhere
        assert (again.round, again.arm) == (1, arms[0])
    [report] = replay_of(there)
    assert report["equal"], report
    expected = play_in_process(SETTINGS, "ad_lasso", 0, lambda n: None)
    assert arms == expected.arms.tolist()
    thetas = [None if e.theta is None else e.theta.tolist() for e in expected.estimates]
    assert [item["theta"] for item in found] == thetas
    assert sum(theta is not None for theta in thetas) > 1


def replay_of(url: str) -> list[Any]:
    return list(json.loads(lhb(url, "replay", "--json"))["sessions"])
