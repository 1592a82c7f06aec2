"""What is corrected, void or erased, or may still change, is in no kept sum."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.fits.install import FinishFit
from service.fits.job import run_fit
from tests.examples import on_one_database
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.fits.kept_rounds import (  # noqa: F401
    DIM,
    THETA,
    WEIGHTS,
    World,
    low_limits,
    reopen,
    store,
)
from tests.service.fits.test_sums_by_time import SHARED
from tests.service.service_harness import ServiceHarness


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database_url", "names"), [("sqlite", ("", "a"))], indirect=["database_url"]
)
def test_a_corrected_value_leaves_the_sums(
    harness: ServiceHarness, names: tuple[str, ...], database_url: str
) -> None:
    """Of settled rows and of later ones, and once more; so do the rows that a void changes."""
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30, "options": SHARED}
    harness.create(algorithm="anytime", **made)
    world = World(harness, names, database_url)
    world.play(170)
    assert world.n_from_sums
    for oldest in (3, 20, -1, 3, None):
        row, n, n_fits = world.kept(), world.n_from_sums, world.n_fits
        assert row is not None
        assert row.n_settled > 20
        if oldest is None:
            world.void("a", 7)
        else:
            world.correct(oldest)
        world.ask()
        assert world.n_from_sums == n + 1
        world.play(25)
        world.ask()
        assert world.n_fits > n_fits
        world.play(12)
        world.ask()
        assert world.n_from_sums > n  # the next fits go on from new sums
    world.replayed()


@on_one_database
@pytest.mark.parametrize("options", [{}, {"levels": True, "zero_start": False}])
def test_voids_at_any_time_leave_the_sums(
    harness: ServiceHarness,
    options: dict[str, Any],
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of decisions of any age, beside corrections and spans, and fits go on from these sums."""
    have_sizes(monkeypatch, least_stretch=8, horizons=1)
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30}
    harness.create(algorithm="anytime", **made, options=SHARED | options)
    world = World(harness, ("", "a"), database_url)
    world.play(120)
    rng, void = np.random.default_rng(8), set[tuple[str, int]]()
    assert world.n_from_sums
    n, n_fits = world.n_from_sums, world.n_fits
    for i in range(8):
        world.play(6)
        for name in ("", "a"):
            chosen, value = world.chosen[name], 0.0
            for contexts in world.rng.uniform(-1, 1, (2, 4, DIM)):
                chosen.append(contexts[harness.decide(name, contexts=contexts).arm])
                value += float(WEIGHTS @ np.array([*reversed(chosen[-3:])]) @ THETA)
            n_rounds = len(chosen)
            harness.reward(value, name, first_round=n_rounds - 1, last_round=n_rounds)
            rounds = {int(rng.integers(1, n_rounds)), n_rounds - 2 * (i % 2)}
            for round in rounds - {k for of, k in void if of == name}:
                void.add((name, round))
                world.void(name, round)
        world.correct(int(rng.integers(len(world.rewarded))))
        world.ask()
    assert world.n_fits - n_fits >= 8
    # one may be after an alarm, since what is void here has paid
    assert world.n_from_sums - n >= world.n_fits - n_fits - 1
    world.replayed()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_every_value_that_an_estimate_used_may_be_corrected(
    harness: ServiceHarness, database_url: str
) -> None:
    """Nothing speaks for that estimate then, and the next fit does without it."""
    harness.create(algorithm="anytime", dim=DIM, horizon=6, options=SHARED)
    world = World(harness, ("a",), database_url)

    def make_due_fits() -> None:
        while harness.session.fit_due is not None:
            world.fit()

    def learn(correct: bool) -> int:
        """Tell all rewards, and return how many fits were made."""
        for i, mean in enumerate(means, 1):
            value = mean + 0.05 * world.rng.standard_normal()
            harness.reward(value, "a", round=i, correct=correct, reward_id=f"{correct}{i}")
        make_due_fits()
        with suppress(Problem):  # a due fit has had all
            harness.run(ask_fit(harness.key, harness.agents))
            make_due_fits()
        return [one.status for one in harness.estimates].count("ok")

    means = []
    for contexts in world.rng.uniform(-1, 1, (96, 4, DIM)):
        means.append(float(contexts[harness.decide("a", contexts=contexts).arm] @ THETA))
        world.n += 1
    make_due_fits()
    assert 0 < learn(correct=False) < learn(correct=True)
    assert "failed" not in {one.status for one in harness.estimates}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_value_that_was_far_too_large_leaves_no_rounding(
    harness: ServiceHarness, database_url: str
) -> None:
    """All is added anew without it; then fits go on from sums, and replay repeats them."""
    harness.create(algorithm="anytime", dim=DIM, horizon=6, reward_wait_seconds=30, options=SHARED)
    world = World(harness, ("", "a"), database_url)
    world.play(170)
    harness.decide("a", contexts=np.eye(DIM))
    last = {"trajectory": "a", "round": harness.decide("a", contexts=np.eye(DIM)).round}
    harness.reward(1e12, **last)
    world.play(40)
    before = world.kept()
    assert before is not None
    harness.reward(0.1, **last, correct=True, reward_id="typed")
    n, place = world.n_from_sums, harness.session.n_measurements
    for _ in range(3):
        world.ask()
        world.play(15)
    row = world.kept()
    assert row is not None
    assert before.anew < place <= row.anew
    assert world.n_from_sums > n + 1
    last_found = [one.estimate for one in harness.estimates if one.estimate][-1]
    assert json.loads(last_found)["sigma_hat"] < 0.2
    world.replayed()


@on_one_database
def test_an_erased_trajectory_is_in_no_sum(harness: ServiceHarness, database_url: str) -> None:
    """Later fits equal those from the rows that are left; sums settle beyond the gaps."""
    made = {
        "dim": DIM,
        "horizon": 6,
        "reward_wait_seconds": 30,
        "options": {"most_stale": 0.1, **SHARED},
    }
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("", "a", "b"), database_url)
    world.play(200)
    before = world.kept()
    assert before is not None
    _, due = harness.run(ask_fit(harness.key, harness.agents))
    running = run_fit(database_url, *harness.key, due.key, 0.0)
    assert running is not None
    harness.run_large(erase_trajectory(harness.key, "a"))
    assert world.kept() is None
    assert running.sums is not None
    harness.run(FinishFit(harness.key, due.key, running, harness.agents))
    assert world.kept() is None  # a fit that had read the rows
    world.forget("a")
    n_fits, n_from_sums = world.n_fits, world.n_from_sums
    world.play(150)
    after = world.kept()
    assert after is not None
    assert after.n_settled > harness.session.n_measurements - 100 > before.n_settled
    assert world.n_fits > n_fits + 3
    assert world.n_from_sums > n_from_sums + 1
    assert 0 < world.replayed().estimates_erased <= n_fits + 1
