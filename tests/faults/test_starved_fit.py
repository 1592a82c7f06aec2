"""A machine that others keep busy: a fit finds no idle time, and is made all the same."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.faults.server_process import Server
from tests.faults.test_clock import create, wait_until_fitted

# a fit in idle time starves, other tests do not
BUSY = "import os; os.nice(10); print('busy', flush=True)\nwhile True: pass"


@contextmanager
def one_processor() -> Iterator[None]:
    """What begins here runs on one processor: on two, now and then one has nothing else to do."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def busy_processes() -> Iterator[None]:
    """Two busy processes."""
    command = [sys.executable, "-c", BUSY]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == b"busy\n"
        yield
    finally:
        for process in running:
            process.kill()
            process.communicate()


def past_of(n_rounds: int) -> dict[str, list[object]]:
    """Noise whose fit needs far more of a processor than a starving process gets by chance."""
    rng = np.random.default_rng(0)
    contexts, rewards = rng.normal(size=(n_rounds, 5)), rng.normal(size=n_rounds)
    return {"contexts": contexts.tolist(), "rewards": rewards.tolist()}


@pytest.mark.slow
def test_a_fit_is_made_though_every_processor_is_busy(tmp_path: Path) -> None:
    with (
        one_processor(),
        Server(tmp_path / "lhb.db", LHB_FIT_IDLE_SECONDS="0.5", LHB_LOG_LEVEL="info") as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        session = create(client, algorithm="anytime", dim=5, horizon=100, options={})["id"]
        with busy_processes():
            answer = client.post(f"/v1/sessions/{session}/history", json=past_of(1000))
            assert answer.status_code == 201, answer.text
            wait_until_fitted(client, session, 1, 120)
        server.stop()
    assert server.output.count("fit_begun_anew") == 1, server.output
