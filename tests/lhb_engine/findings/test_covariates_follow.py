"""Covariates that follow from earlier choices are left out: they hide what choices earn later."""

import numpy as np
import pytest

from benchmarks.other_worlds.one_session import OneSession
from benchmarks.worlds import Activity, ActivityByItself
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.covariates import Covariates, with_means
from lhb_engine.findings.check_side_effects import following
from lhb_engine.history import FitWindow, Floats, History, Measurements, Trajectory
from tests.examples import repeats

DIM, N_ARMS, HORIZON = 3, 5, 12


def played(kind: type[Activity], seed: int) -> tuple[OneSession, float]:
    """Return a session that is told the activity, and its share of the possible in the end."""
    world = kind.draw(dim=DIM, horizon=HORIZON, n_arms=N_ARMS, noise=0.3, sparsity=2, seed=seed)
    session = OneSession(DIM, HORIZON, seed, covariates=["activity"])
    paid = world.play(session, 600)[300:].mean()
    # of five arms the best has a score of 1.163 standard deviations; theta is a unit vector
    return session, float(paid / (1.163 / np.sqrt(3.0)))


@pytest.mark.parametrize("seed", [17, *repeats(2, 3, 6, 7)])
def test_an_activity_that_choices_move_is_left_out_and_named(seed: int) -> None:
    """With the activity in the regression the agent takes the worst arms: they pay at once."""
    session, share = played(Activity, seed)
    [found] = [one for one in session.fits[-1].findings if one["code"] == "covariates_follow"]
    assert found["message"].startswith("activity follows from earlier choices")
    assert session.fits[-1].diagnostics["left_out"] == [0]
    assert share > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_an_activity_that_goes_by_itself_counts(seed: int) -> None:
    session, _ = played(ActivityByItself, seed)
    assert not any("left_out" in one.diagnostics for one in session.fits)
    last = next(one for one in reversed(session.fits) if one.effects)
    assert last.effects is not None
    assert last.effects["values"][0] == pytest.approx(1.0, abs=0.2)


def is_found(told: Floats, contexts: Floats, chosen: Floats, rewards: Floats) -> bool:
    """Return whether a covariate of the rounds of one trajectory is found to follow."""
    n = len(told)
    given = with_means(chosen, contexts)
    measured = Measurements.single(np.arange(1, n + 1), rewards)
    part = Trajectory(given, measured, covariates=told[:, None])
    history = History(DIM, {"": part}, FitWindow(1, 1, n, HORIZON, n), groups=(1,))
    covariates = Covariates(names=("told",), means=DIM)
    rows = align(covariates.told(history))
    return bool(following(rows, 1, covariates.n_means)[0])


@pytest.mark.parametrize("seed", [1, *repeats(2, 3)])
@pytest.mark.parametrize("weekly", ["scale", "day before"])
def test_a_week_that_offers_go_by_does_not_follow(seed: int, weekly: str) -> None:
    """What is chosen goes with the weekend to come; so does the size of what is chosen."""
    rng = np.random.default_rng(seed)
    day = np.arange(1500) % 7
    weekend = (day >= 5).astype(float)
    contexts = rng.uniform(-1.0, 1.0, (len(day), N_ARMS, DIM))
    contexts[..., 0] *= (weekend if weekly == "scale" else 1.0 * (day == 4))[:, None]
    scores = contexts @ np.array([0.8, 0.5, 0.3])
    chosen = contexts[np.arange(len(day)), scores.argmax(axis=1)]
    rewards = scores.max(axis=1) + weekend + 0.3 * rng.standard_normal(len(day))
    assert not is_found(weekend, contexts, chosen, rewards)


@pytest.mark.parametrize("pays", [0.0, 1.0])
def test_a_covariate_that_pays_nothing_hides_nothing(pays: float) -> None:
    rng = np.random.default_rng(1)
    contexts = rng.uniform(-1.0, 1.0, (600, N_ARMS, DIM))
    chosen, told = contexts[:, 0], np.zeros(600)
    for t in range(1, 600):
        told[t] = 0.5 * told[t - 1] + chosen[t - 1, 0] + 0.1 * rng.standard_normal()
    rewards = chosen[:, 1] + pays * told + 0.3 * rng.standard_normal(600)
    assert is_found(told, contexts, chosen, rewards) == (pays > 0.0)
