"""The same worlds in process and over HTTP, to the last bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clients.simulation_report import Runs, summary, warnings_of
from clients.simulator import SimulationSettings, play_session, simulate_all
from lhb import Client
from tests.examples import repeats
from tests.faults.server_process import served

SMALL = SimulationSettings(algorithms=("ad_lasso",), rounds=200, horizon=24, dim=3, arms=4, seeds=2)


def assert_same(settings: SimulationSettings, url: str) -> Runs:
    """Play both, and return the runs in process."""
    here, there = simulate_all(settings), simulate_all(settings, url)
    for algorithm in settings.algorithms:
        for mine, theirs in zip(here[algorithm], there[algorithm], strict=True):
            np.testing.assert_array_equal(mine.arms, theirs.arms)
            np.testing.assert_array_equal(mine.rewards, theirs.rewards)
            np.testing.assert_array_equal(mine.regret, theirs.regret)
            assert [replace(e, seconds=0.0).to_json() for e in mine.estimates] == [
                replace(e, seconds=0.0).to_json() for e in theirs.estimates
            ]
            assert mine.estimates or algorithm in ("uniform", "oracle")
    return here


@pytest.mark.parametrize(
    "settings",
    [
        SMALL,
        replace(SMALL, options={"ad_lasso": {"fit_intercept": True}}, seeds=1),
        replace(SMALL, algorithms=("uniform", "oracle", "oracle_w"), rounds=150, seeds=1),
        *repeats(
            # a fit is due exactly after the last round: 3 h
            replace(SMALL, rounds=72, seeds=1),
            # below both are together
            replace(SMALL, dim=10, arms=10, seeds=1),
            replace(SMALL, algorithms=("doubling_lasso",), horizon=400, dim=4, rounds=300, seeds=1),
        ),
    ],
    ids=["plain", "intercept", "oracles", "fit at the end", "ten dims", "differenced"],
)
def test_over_http_equals_in_process(settings: SimulationSettings, url: str) -> None:
    assert_same(settings, url)


@pytest.mark.parametrize("profiles", ["shared", "each"])
def test_weather_is_told_over_http_as_in_process(url: str, profiles: str) -> None:
    """What the service reads of covariates is what the engine was told, to the last bit."""
    settings = replace(SMALL, algorithms=("anytime",), rounds=60, horizon=8, weather=3.0, seeds=1)
    settings = replace(settings, profiles=profiles)
    [mine], [theirs] = (simulate_all(settings, *at)["anytime"] for at in ((), (url,)))
    np.testing.assert_array_equal(mine.arms, theirs.arms)
    np.testing.assert_array_equal(mine.rewards, theirs.rewards)
    assert mine.estimates[-1].effects is not None
    for one, other in zip(mine.estimates, theirs.estimates, strict=True):
        np.testing.assert_array_equal(one.lag_weights, other.lag_weights)
        assert (one.effects is None) == (other.effects is None)
        if one.effects is not None and other.effects is not None:  # the service adds their names
            assert one.effects == {name: other.effects[name] for name in one.effects}


def test_features_pay_at_lags_of_their_own_over_http_as_in_process(url: str) -> None:
    settings = replace(SMALL, rounds=60, horizon=8, profiles="each", seeds=1)
    profiles = settings.world(0).profiles
    assert len({tuple(np.flatnonzero(one)) for one in profiles.T}) > 1
    assert_same(settings, url)
    with pytest.raises(ValueError, match="profiles: 'own' is none of shared, each"):
        replace(SMALL, profiles="own")
    np.testing.assert_array_equal(replace(settings, weather=3.0).world(0).profiles, profiles)
    with pytest.raises(ValueError, match="there is no feature 9"):
        replace(SMALL, algorithms=("anytime",), options={"anytime": {"profiles": [[0, 9]]}})


def test_a_differenced_phase_in_ten_dims(url: str) -> None:
    settings = replace(SMALL, horizon=400, dim=10, arms=10, rounds=420, seeds=1)
    designs = [e.design for e in assert_same(settings, url)["ad_lasso"][0].estimates]
    assert designs == ["differenced", "differenced"]


def test_the_log_is_what_the_client_saw(url: str) -> None:
    world = SMALL.world(0)
    with Client(url) as client:
        session = client.create_session(
            algorithm="ad_lasso", dim=3, horizon=24, seed=0, refit="blocking"
        )
        arms, rewards, _ = play_session(session, world, 200, lambda n: None)
        log = list(session.rounds())
    contexts = world.contexts(1, 200)
    assert [item["round"] for item in log] == list(range(1, 201))
    assert [item["arm"] for item in log] == arms.tolist()
    assert [item["reward"] for item in log] == rewards.tolist()
    assert [item["context"] for item in log] == contexts[np.arange(200), arms].tolist()


def test_algorithms_meet_the_same_worlds() -> None:
    runs = simulate_all(replace(SMALL, algorithms=("uniform", "oracle"), seeds=1))
    world = SMALL.world(0)
    assert runs["oracle"][0].regret[-1] == 0
    signals = world.signals(world.contexts(1, SMALL.rounds))
    arms = runs["uniform"][0].arms
    gaps = signals.max(axis=1) - signals[np.arange(len(arms)), arms]
    np.testing.assert_allclose(runs["uniform"][0].regret[-1], gaps.sum() * world.weights.sum())


def test_all_zero_estimates_are_announced() -> None:
    settings = replace(
        SMALL, algorithms=("ad_lasso", "uniform"), options={"ad_lasso": {"reg": "theory"}}
    )
    runs = simulate_all(settings)
    assert any("every estimate was zero" in text for text in warnings_of(runs))
    regret = summary(settings, runs)["algorithms"]
    assert regret["ad_lasso"]["regret"] == regret["uniform"]["regret"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ("nothing",)},
        {"weights": "nothing"},
        {"sparsity": 25},
        {"options": {"ad_lasso": {"nothing": 1}}},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        replace(SMALL, **wrong)


def test_a_simulation_leaves_no_sessions_behind(tmp_path: Path) -> None:
    short = replace(SMALL, rounds=30)
    with served(tmp_path / "simulated.db") as url, Client(url) as client:
        simulate_all(short, url)
        assert list(client.sessions(archived=True)) == []
        simulate_all(short, url, keep_sessions=True)
        assert len(list(client.sessions())) == len(short.algorithms) * short.seeds
