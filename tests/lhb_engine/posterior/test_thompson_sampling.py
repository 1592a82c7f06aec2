"""Whether greedy play has stopped teaching, told from the selected contexts alone."""

import numpy as np
import pytest

from lhb_engine.design.aligned_rounds import align
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from lhb_engine.posterior.thompson_sampling import candidates, stops_teaching

RNG = np.random.default_rng(1)
VARIED = RNG.uniform(-1, 1, (80, 3))
ARMS = np.eye(3)[RNG.integers(3, size=80)]


def rows(contexts, keep=slice(None), scale=1.0):
    n = len(contexts)
    numbers = np.arange(1, n + 1)[keep]
    reward = contexts[:, 0] + 0.1 * np.random.default_rng(2).standard_normal(n)
    part = Trajectory(contexts * scale, Measurements.single(numbers, reward[keep]))
    return align(History(contexts.shape[1], {"": part}).over(FitWindow(1, 1, n, 4, n)))


def stuck(contexts, at):
    """Return the contexts, the one of round `at` for good from there on."""
    return np.concatenate([contexts[:at], np.tile(contexts[at], (len(contexts) - at, 1))])


@pytest.mark.parametrize("contexts", [VARIED, ARMS])
@pytest.mark.parametrize("scale", [1.0, 1e-6, np.array([1e3, 1.0, 1e-3])])
def test_it_stops_where_one_context_is_selected_for_good(contexts, scale):
    assert not stops_teaching(rows(contexts, scale=scale))
    assert stops_teaching(rows(stuck(contexts, 39), scale=scale))
    assert not stops_teaching(rows(stuck(contexts, 60), scale=scale))


def test_two_of_three_arms_leave_the_third_untaught():
    late = np.where(np.arange(80)[:, None] < 30, ARMS, np.eye(3)[np.arange(80) % 2])
    assert stops_teaching(rows(late))


def test_it_stops_where_nothing_ever_varied():
    assert stops_teaching(rows(np.tile(VARIED[0], (80, 1))))


def test_a_feature_that_is_the_same_for_all_arms_does_not_count():
    constant = VARIED.copy()
    constant[:, 2] = 5.0
    assert not stops_teaching(rows(constant))
    assert stops_teaching(rows(stuck(constant, 30)))


def test_few_rows_do_not_tell():
    assert not stops_teaching(rows(stuck(VARIED, 10)[:39]))
    assert stops_teaching(rows(stuck(VARIED, 10)[:40]))
    wide = np.random.default_rng(3).uniform(-1, 1, (80, 6))
    assert not stops_teaching(rows(stuck(wide, 10)[:47]))
    assert stops_teaching(rows(stuck(wide, 10)[:48]))


def test_rounds_without_a_reward_do_not_count():
    """The rounds from 41 on vary, and none of them is measured."""
    early = np.concatenate([stuck(VARIED[:60], 25), VARIED[:20]])
    assert stops_teaching(rows(early, keep=slice(0, 60)))
    assert not stops_teaching(rows(early))


def test_candidates_are_the_posterior_draws_of_what_an_arm_is_worth():
    found = rank_one_posterior(rows(VARIED), [1, 2])
    drawn = candidates(found)
    assert drawn.shape == (64, 3)
    assert np.linalg.norm(drawn, axis=1).mean() == pytest.approx(1.0)
    mean = drawn.mean(axis=0)
    assert mean @ found.theta / np.linalg.norm(mean) > 0.995
    spread, expected = (
        np.sqrt(np.mean(np.arccos(one @ found.theta / np.linalg.norm(one, axis=1)) ** 2))
        for one in (drawn, found.totals)
    )
    assert spread == pytest.approx(expected, rel=0.3)
