"""Worlds whose features pay at lags of their own."""

import numpy as np
import pytest

from benchmarks.profile_worlds import (
    Clickbait,
    SmoothClickbait,
    with_mismatch,
)
from lhb_engine.simulation.environment import LongHorizonEnvironment, OwnLags, ProfileEnvironment
from lhb_engine.simulation.play import simulate

TRUTH = {"dim": 4, "horizon": 20, "noise": 0.0, "sparsity": 3, "seed": 5}
KINDS = (Clickbait, SmoothClickbait, OwnLags, with_mismatch(0.4))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reward_is_the_sum_over_lags_and_features(kind):
    world = kind.draw(**TRUTH)
    selected = world.contexts(1, 60)[:, 0]
    rewards = world.rewards(selected)
    for t in (1, 7, 60):
        expected = sum(selected[t - 1 - k] @ world.profiles[k] for k in range(min(t, 20)))
        assert rewards[t - 1] == pytest.approx(expected, abs=1e-12)
        assert (world.rewards(selected[:t], t) == rewards[t - 1 : t]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_an_arm_is_worth_its_product_with_the_total(kind):
    world = kind.draw(**TRUTH)
    total = world.profiles.sum(axis=0)
    np.testing.assert_allclose(world.weights.sum() * world.theta, total, atol=1e-12)
    played = simulate("uniform", world, n_rounds=50, seed=1)
    best = (world.contexts(1, 50) @ total).max(axis=1)
    assert played.regret[-1] == pytest.approx(float((best - played.selected @ total).sum()))
    np.testing.assert_array_equal(played.rewards, world.rewards(played.selected))


def test_without_other_profiles_the_world_is_the_plain_one():
    world, plain = ProfileEnvironment.draw(**TRUTH), LongHorizonEnvironment.draw(**TRUTH)
    contexts = plain.contexts(1, 40)[:, 0]
    expected = plain.rewards(plain.signals(contexts))
    np.testing.assert_allclose(world.rewards(contexts), expected, atol=1e-12)


def test_profiles_are_what_their_names_say():
    for kind in (Clickbait, SmoothClickbait):
        bait = kind.draw(**TRUTH).profiles[:, 0]
        assert bait[0] > 0.0
        assert bait.sum() == pytest.approx(-0.6)
    own = OwnLags.draw(**TRUTH).profiles
    assert ((own != 0).sum(axis=0) == 3).all()
    assert len({tuple(np.flatnonzero(one)) for one in own.T}) > 1
    sizes = np.linalg.svd(with_mismatch(0.37).draw(**TRUTH).profiles, compute_uv=False)
    assert sizes[1] / sizes[0] == pytest.approx(0.37)
    assert sizes[2] < 1e-12
