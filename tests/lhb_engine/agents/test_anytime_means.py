"""Contexts whose shared part goes with the rewards by itself."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.worlds import ContextsAlike, FixedArms, SharedWithRewards
from lhb_engine.agents import make_agent
from lhb_engine.design.covariates import SHARED, with_means
from lhb_engine.estimate import Estimate
from lhb_engine.findings.all_checks import _of_choices
from lhb_engine.findings.finding import Unchecked
from lhb_engine.history import FitWindow, Measurements, Trajectory
from lhb_engine.posterior.covariate_effects import CovariateEffects
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from tests.examples import repeats
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401

DIM, HORIZON, ROUNDS = 3, 8, 256  # where sets are kept the most


def last_found(kind: type[LongHorizonEnvironment], seed: int) -> Estimate:
    """Return what the last fit found of a world in which chance played."""
    world = kind.draw(dim=DIM, horizon=HORIZON, n_arms=4, noise=0.2, sparsity=2, seed=seed)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, epsilon=1.0)
    found = simulate(
        agent, world, n_rounds=ROUNDS, seed=seed, run_fit=lambda one, past: one.checked_fit(past)
    ).estimates
    return [one for one in found if one.theta is not None][-1]


def unchecked(estimate: Estimate) -> dict[str, str]:
    """Return what each check that could not be made lacks, by its code."""
    return {code: one["missing"] for one in estimate.unchecked for code in one["codes"]}


@pytest.mark.parametrize(("horizon", "arms", "missing"), [(334, 4, "features"), (8, 1, "sets")])
def test_where_no_mean_is_known_the_fit_says_so(horizon: int, arms: int, missing: str) -> None:
    """With too many unknowns, and where there is one arm alone, as in a log."""
    world = ContextsAlike.draw(dim=DIM, horizon=horizon, n_arms=arms, noise=0.2, sparsity=2, seed=1)
    agent = make_agent("anytime", dim=DIM, horizon=horizon)
    fit = simulate(
        agent, world, n_rounds=64, seed=1, run_fit=lambda one, past: one.checked_fit(past)
    )
    assert unchecked(fit.estimates[-1])["shared_with_rewards"] == missing


@pytest.mark.parametrize(("known", "is_said"), [(0, True), (3, True), (4, False)])
def test_a_log_before_few_rounds_of_several_arms_is_not_told_apart(
    known: int, is_said: bool
) -> None:
    rows: Any = SimpleNamespace(covariates=np.zeros((8, 3)), n_rows=8)
    rows.covariates[:known, 1] = 1.0  # the group's 1, and its mean
    none = Measurements.single(np.zeros(0, np.int64), np.zeros(0))
    parts = {"": Trajectory(np.ones((8, 1)), none, covariates=rows.covariates)}
    history: Any = SimpleNamespace(trajectories=parts, latest_after=None)
    history.checked_window = lambda: FitWindow(1, 1, 8, 4, 8)
    said = [one for one in _of_choices(history, rows, None, 2, 4) if isinstance(one, Unchecked)]
    assert ("shared_with_rewards" in said[0].codes, said[0].missing == "sets") == (is_said, is_said)


@pytest.mark.parametrize("n", [23, 24])
def test_the_group_waits_for_four_rows_a_column(n: int) -> None:
    """Until then it changes nothing of what the columns that were told explain."""
    rng = np.random.default_rng(0)
    told, shared = rng.normal(size=(n, 1)), 3.0 + rng.normal(size=(n, 4))
    rewards = told[:, 0] + shared @ [1.0, -1.0, 1.0, -1.0] + 0.1 * rng.normal(size=n)
    columns = np.column_stack([np.ones(n), told, shared])
    variance, draws = {}, {}
    for groups in ((1,), (1, 4)):
        z = columns[:, : 1 + sum(groups)]
        known = CovariateEffects(z.T @ z, float(rewards @ rewards) / n, n, groups, 200)
        variance[groups] = known.variance(z.T @ rewards)
        known.draw(np.tile(z.T @ rewards, (200, 1)), np.full(200, 0.01), rng)
        draws[groups] = known.included.mean(axis=0)
    assert (variance[1, 4] == pytest.approx(variance[1,])) == (n < 24)
    assert draws[1, 4][2] == (0.0 if n < 24 else 1.0)


def test_told_columns_stand_as_they_do_alone() -> None:
    """A season over half its period is not taken about its mean there, and the means are."""
    rng = np.random.default_rng(0)
    told = np.sin(np.arange(30.0)[:, np.newaxis] / 10)
    z = np.column_stack([np.ones(30), told, 3.0 + rng.normal(size=(30, 4))])
    known = CovariateEffects(z.T @ z, 1.0, 30, (1, 4), 1)
    assert known.about[0, 1] == 0.0
    np.testing.assert_allclose((z @ known.about)[:, 2:].mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", [1, *repeats(2)])
def test_by_the_mean_of_arms_it_is_told_from_what_arms_do(seed: int) -> None:
    estimate = last_found(SharedWithRewards, seed)
    theta = SharedWithRewards.draw(dim=DIM, horizon=HORIZON, sparsity=2, seed=seed).theta
    assert estimate.theta is not None
    assert estimate.theta @ theta > 0.95
    assert estimate.findings == []
    assert estimate.gain is not None
    assert estimate.effects is not None
    assert estimate.effects["included"][-1] > 0.9
    # four fifths of a mean's variance are what the arms share, and a fifth is of four arms
    lower = np.array(estimate.effects["values"][1:]) @ theta
    assert lower == pytest.approx(0.8 * SharedWithRewards.BY_ITSELF, rel=0.15)


@pytest.mark.parametrize("kind", [ContextsAlike, FixedArms])
@pytest.mark.parametrize("seed", [1, *repeats(2)])
def test_what_moves_nothing_is_not_said(kind: type[LongHorizonEnvironment], seed: int) -> None:
    estimate = last_found(kind, seed)
    assert "shared_with_rewards" not in unchecked(estimate)
    assert estimate.effects is None
    assert not estimate.in_doubt


def test_a_round_has_the_same_mean_alone_and_among_others() -> None:
    rng = np.random.default_rng(0)
    for shape in ((5, 9, 1), (5, 40, 3), (5, 2, 20)):
        contexts = rng.normal(size=shape)
        every = with_means(contexts[:, 0], contexts)
        for one, found in zip(contexts, every, strict=True):
            assert with_means(one[0], one).tobytes() == found.tobytes()


def test_of_one_arm_alone_no_mean_is_known() -> None:
    assert with_means(np.ones(2), np.ones((1, 2))).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_its_label_is_the_last() -> None:
    agent = make_agent("anytime", dim=2, horizon=3, trend=True)
    assert agent.covariates.labels == ("trend", SHARED)
    assert agent.covariates.groups == (1, 3)
    assert make_agent("anytime", dim=20, horizon=100).covariates.groups == ()
