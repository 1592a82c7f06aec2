"""Many users in one session: in process, and over HTTP with many clients at once."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner

from clients.cli.main import app
from clients.simulation_options import TransportOptions
from clients.simulator import simulate_all
from clients.user_simulator import (
    UserLog,
    UserSettings,
    _play_share,
    play_users_in_process,
    users_over_http,
)
from lhb import Client
from lhb_engine.simulation.users import Transport

SMALL = UserSettings(
    algorithms=("anytime",), rounds=10, users=12, horizon=6, dim=3, arms=4, seeds=1, sparsity=2,
    lengths="geometric",
)  # fmt: skip
SHARED = {"profiles": "shared"}  # the other forms are the engine's alone
ROUGH = Transport(delay=3.0, lost=0.2, doubled=0.4, reordered=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("profiles", ["shared", "each"])
def test_one_client_does_what_is_done_in_process(url: str, profiles: str) -> None:
    """Also where half of what it sends comes twice, and features pay at lags of their own."""
    told = {"users": 6, "transport": Transport(doubled=0.5), "profiles": profiles}
    settings = replace(SMALL, **told, options={"anytime": SHARED})
    [here] = simulate_all(settings, player=play_users_in_process)["anytime"]
    [there] = simulate_all(settings, url, player=users_over_http(url, 1))["anytime"]
    for name in ("arms", "rewards", "regret"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
    assert [e.status for e in here.estimates] == [e.status for e in there.estimates]
    found = [[e.theta for e in run.estimates if e.theta is not None] for run in (here, there)]
    np.testing.assert_allclose(*found, rtol=0, atol=1e-9)
    assert len(found[0]) > 3


@pytest.mark.slow
def test_own_responses_decide_over_http_as_in_process(url: str) -> None:
    """By each user's own theta, once a fit has shown that they differ."""
    world = {"spread": 2.0, "users": 8, "dim": 2, "horizon": 2, "sparsity": 1, "lengths": "fixed"}
    settings = replace(SMALL, options={"anytime": {"own": True, "profiles": "shared"}}, **world)
    [here] = simulate_all(settings, player=play_users_in_process)["anytime"]
    [there] = simulate_all(settings, url, player=users_over_http(url, 1))["anytime"]
    np.testing.assert_array_equal(here.arms, there.arms)
    shown = [e.last_round for e in here.estimates if e.own and e.own["gain"] > 5.0]
    assert shown[0] < 60


def test_the_command_line_has_the_defaults_of_the_engine() -> None:
    """The options are listed without the engine, so they say its defaults once more."""
    named = get_type_hints(TransportOptions)
    assert asdict(Transport()) == {name: getattr(TransportOptions, name) for name in named}


def test_what_many_clients_deliver_is_stored_once(url: str) -> None:
    """Late, lost, doubled and reordered: the log holds each reward that came, and no other."""
    log = UserLog(SMALL.users_world(0), ROUGH)
    visits, n_clients = log.users.visits, 5
    with Client(url) as client, ThreadPoolExecutor(n_clients) as pool:
        session = client.create_session(dim=3, horizon=6, refit="blocking", options=SHARED)
        shares = [
            pool.submit(_play_share, url, session.id, log, i, n_clients, lambda n: None)
            for i in range(n_clients)
        ]
        for share in shares:
            share.result()
        missing = {item["trajectory"]: item["n_missing"] for item in session.trajectories()}
        come = set(log.deliveries.reward.tolist())
        assert len(come) < len(visits), "some are lost"
        assert len(log.deliveries) > len(come), "some come twice"
        for user in np.unique(visits.user).tolist():
            rows = np.flatnonzero(visits.user == user).tolist()
            expected = [log.rewards[row] if row in come else None for row in rows]
            stored = list(session.rounds(trajectory=log.users.key(user)))
            assert [item["reward"] for item in stored] == expected
            assert [item["arm"] for item in stored] == [log.arms[row] for row in rows]
            assert missing[log.users.key(user)] == expected.count(None)
        session.delete()


def test_a_reward_is_delivered_after_its_round_and_before_the_next_that_comes_later() -> None:
    log = UserLog(SMALL.users_world(1), ROUGH)
    at, delivered = log.users.visits.at, []
    for client in range(3):
        decided = set()
        for row, rewards in log.share(client, 3):
            assert decided.issuperset(rewards)
            decided.add(row)
            delivered += rewards
    assert sorted(delivered) == sorted(log.deliveries.reward.tolist())
    assert (np.diff(at) > 0).all()


def test_impossible_users_are_refused() -> None:
    for wrong in ({"users": 0}, {"rounds": 0}, {"lengths": "normal"}, {"arriving": 0.0},
                  {"spread": -1.0}, {"levels": -1.0}, {"weights": "none"}):  # fmt: skip
        with pytest.raises(ValueError, match=r"users|user has|lengths|spread|levels|weights"):
            replace(SMALL, **wrong)
    with pytest.raises(ValueError, match="profiles: users of such a world have one theta"):
        replace(SMALL, profiles="each", spread=0.5).users_world(0)


def test_the_command_plays_users_and_refuses_their_options_without_them(tmp_path: Path) -> None:
    plot = tmp_path / "regret.png"
    sizes = {"rounds": 8, "horizon": 4, "sparsity": 2, "dim": 2, "seeds": 2}
    small = [f"--{name}={n}" for name, n in sizes.items()] + ["--json"]
    options = ["--users", "5", "--lengths", "uniform", "--lost", "0.5", "--plot", str(plot)]
    answer = CliRunner().invoke(app, ["simulate", *small, *options])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert len(told["algorithms"]["anytime"]["regret"]) == 2
    assert told["settings"]["transport"]["lost"] == 0.5
    assert plot.read_bytes().startswith(b"\x89PNG")
    for wrong in ("--lost 0.1", "--lengths uniform", "--arriving 2", "--users 3 --lengths none"):
        refused = CliRunner().invoke(app, ["simulate", *small, *wrong.split()])
        assert refused.exit_code == 2, wrong
