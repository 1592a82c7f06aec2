"""kill -9 between the folds of a session whose rounds time closes, as old rounds get values."""

import os
import random
import subprocess
import sys
import time
from typing import Any

import pytest

from service.storage.database_url import open_reader
from service.storage.reader import FOR_EVER
from service.transfer.without_server import all_sessions
from tests.faults.test_kill import wait_for_fits
from tests.faults.test_large_writes import until
from tests.faults.test_retention_killed import (
    DEFAULT,
    HORIZON,
    LEVELS,
    LIMITS,
    Player,
    fitted,
    served,
)

N_KILLS = 4  # one at each of the points
REPLAY = """
import sys
from service.storage.database_url import open_reader
from service.transfer.replay import replay_session
from service.transfer.without_server import all_sessions

with open_reader(sys.argv[1]) as reader:
    [session] = all_sessions(reader)
    print(replay_session(reader, session).differences)
"""
BODY = {"dim": 2, "horizon": HORIZON, "seed": 1}
pytestmark = pytest.mark.slow


def values_of(database_url: str, kill: int, *, adds_up: bool) -> list[dict[str, Any]]:
    """A correction of an old round, and one more value of another where values add up.

    No value is so far from the others that the fit would take it for a change.
    """
    round = 3 + 2 * kill
    with open_reader(database_url) as reader:
        [session] = all_sessions(reader)
        known = reader.measurements((*session.key, ""), round, round)[0].value
    old = {"value": known + 0.05, "reward_id": f"c{kill}"}
    if not adds_up:
        return [{**old, "round": round, "correct": True}]
    more = {"value": 0.05, "round": round + 1, "reward_id": f"l{kill}"}
    return [{**old, "replaces": f"r{round}"}, more]


@pytest.mark.parametrize(
    ("database_url", "settings"),
    [("sqlite", {"reward_mode": "sum"}), ("postgres", DEFAULT | LEVELS)],
    indirect=["database_url"],
    ids=["sum", "postgres default levels"],
)
def test_no_late_value_is_lost_or_stands_twice(database_url: str, settings: dict[str, Any]) -> None:
    """Killed when values are in and no fit is due yet, as one is, runs, or has kept its sums."""
    rng, player, adds_up = random.Random(5), Player(), "reward_mode" in settings
    with served(database_url) as (server, fitting):
        with server.client() as client:
            answer = client.post("/v1/sessions", json=BODY | settings)
            assert answer.status_code == 201, answer.text
            path = f"/v1/sessions/{answer.json()['id']}"
            player.play(client, path, 160)
            client.post(f"{path}/fits")
            assert not wait_for_fits(client, path.rpartition("/")[2])["fit_due"]
        told: list[dict[str, Any]] = []
        for kill in range(N_KILLS):
            with server.client() as client:
                player.play(client, path, 6)
                told += values_of(database_url, kill, adds_up=adds_up)
                answer = client.post(f"{path}/rewards", json={"rewards": told})  # old ones again
                assert answer.status_code == 200, answer.text
                if kill % 4:
                    client.post(f"{path}/fits")
                time.sleep(rng.uniform(0.0, 0.3) * (kill % 4))
            for one in {server, fitting}:
                one.kill()
                one.start()
        with server.client() as client:
            client.post(f"{path}/rewards", json={"rewards": told})
            until(lambda: fitted(client, path) + adds_up == player.n)  # the last round may be open
            assert not wait_for_fits(client, path.rpartition("/")[2])["fit_due"]
    with open_reader(database_url) as reader:
        [session] = all_sessions(reader)
        assert session.n_measurements == player.n + len(told)
        row = reader.kept_sums(session.key)
        assert row is not None
        assert row.n_settled > 64
        assert len(reader.late_rounds(session.key, 0, FOR_EVER, FOR_EVER)) >= N_KILLS
    replay = [sys.executable, "-c", REPLAY, database_url]  # with the limits that fits had
    found = subprocess.run(replay, env=os.environ | LIMITS, capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stdout + found.stderr
