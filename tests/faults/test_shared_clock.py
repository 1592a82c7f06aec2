"""Two servers decide, a third process tells totals; none of them knows of the others."""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from clients.sdk.client import Client
from service.storage.maintenance import migrate
from tests.faults.server_process import Server, WorkerProcess

DAYS, HOURS = 6, 24
THETA = np.array([0.8, -0.6])
# what the shop's books know: the totals of whole days, by the hour or not; and no decision
NIGHTLY_JOB = """
import json, sys
from datetime import datetime, timedelta
from clients.sdk.client import Client

start, hourly = datetime.fromisoformat(sys.argv[2]), json.loads(sys.argv[3])
with Client(sys.argv[1]) as client:
    shop = client.session("shop")
    rewards = [
        {"value": value, "from": start + timedelta(hours=i), "to": start + timedelta(hours=i + 1)}
        for i, value in enumerate(hourly)
    ]
    print(shop.rewards(rewards)["accepted"])
"""


@pytest.mark.slow
def test_two_servers_and_a_nightly_job_drive_one_session(postgres_url: str) -> None:
    migrate(postgres_url)
    rng = np.random.default_rng(3)
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = now - timedelta(days=DAYS)
    with (
        Server(postgres_url) as first,
        Server(postgres_url) as second,
        WorkerProcess(postgres_url),
        Client(first.url) as one,
        Client(second.url) as two,
    ):
        clock = {"slot_seconds": 3600, "start": start.isoformat()}
        shops = [
            client.get_or_create("shop", dim=2, horizon=4, seed=1, clock=clock)
            for client in (one, two)
        ]
        sums = np.zeros((DAYS * HOURS, 2))
        for day in range(DAYS):
            for hour in range(day * HOURS, (day + 1) * HOURS):
                for i in range(int(rng.integers(0, 5))):
                    arms = rng.uniform(-1, 1, (3, 2))
                    at = start + timedelta(hours=hour, minutes=float(rng.uniform(0, 59)))
                    user = f"user {rng.integers(0, 20)}"
                    # at first something else decides, so that what is there to learn from is fixed
                    forced = int(rng.integers(0, 3)) if day < DAYS // 2 else None
                    taken = shops[i % 2].decide(arms, trajectory=user, at=at, forced_arm=forced)
                    sums[hour] += arms[taken.arm]
            signal = sums @ THETA
            totals = 0.5 * signal + 0.5 * np.append([0.0, 0.0], signal[:-2])
            today = slice(day * HOURS, (day + 1) * HOURS)
            told = (totals[today] + 0.05 * rng.standard_normal(HOURS)).tolist()
            midnight = (start + timedelta(days=day)).isoformat()
            night = [sys.executable, "-c", NIGHTLY_JOB, second.url, midnight, str(told)]
            done = subprocess.run(night, capture_output=True, text=True, check=False)
            assert done.stdout.strip() == str(HOURS), done.stderr
        for _ in range(600):
            asked = shops[0].ask_fit()["asked"]
            if asked == "nothing_new":
                break
            time.sleep(0.2)
        assert asked == "nothing_new"
        found = shops[1].estimate()
        assert found["slot_seconds"] == 3600
        assert float(np.dot(found["theta"], THETA)) > 0.99
        assert np.argsort(found["lag_weights"])[-2:].tolist() in ([0, 2], [2, 0])
        info = shops[0].read()
        assert info["n_trajectories"] == 20
        assert info["clock"] is not None
        assert info["clock"]["n_slots"] == DAYS * HOURS + 1
