"""Lift of an agent's group over a control group, by trajectories."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhb_engine.evaluation.batch_ratio import Refusal
from lhb_engine.evaluation.lift import (
    GroupSums,
    Lift,
    Narrowing,
    are_drawn_otherwise,
    lift,
    of_past,
    rounds_differ,
)
from lhb_engine.history import Floats
from tests.examples import examples


def made(seed: int, n: int, mean: float, slope: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Return rounds, rewards and predictions of n trajectories, of unequal length."""
    rng = np.random.default_rng(seed)
    rounds = rng.integers(1, 40, size=n).astype(float)
    predicted = rounds * rng.standard_normal(n)
    own = rounds * rng.standard_normal(n)  # a trajectory's own level
    rewards = mean * rounds + slope * predicted + own + np.sqrt(rounds) * rng.standard_normal(n)
    return rounds, rewards, predicted


def found(agent: GroupSums, control: GroupSums, planned: float = 1e4) -> Lift:
    result = lift(agent, control, planned)
    assert isinstance(result, Lift)
    return result


@given(st.integers(0, 1000), st.integers(2, 60))
@settings(deadline=None, max_examples=examples(50))
def test_sums_of_parts_add_up(seed: int, cut: int) -> None:
    rows = made(seed, 62, 1.0)
    whole = GroupSums.of(*rows)
    one, other = (GroupSums.of(*(r[part] for r in rows)) for part in (slice(cut), slice(cut, None)))
    assert one.n_trajectories + other.n_trajectories == whole.n_trajectories
    np.testing.assert_allclose(one.totals + other.totals, whole.totals)
    np.testing.assert_allclose(one.products + other.products, whole.products)


def test_the_standard_error_is_that_of_trajectories_not_of_rounds() -> None:
    groups = [made(seed, 400, 1.0) for seed in range(300)]
    pairs = [
        (GroupSums.of(*a), GroupSums.of(*c)) for a, c in zip(groups[::2], groups[1::2], strict=True)
    ]
    results = [found(a, c) for a, c in pairs]
    spread = np.std([r.difference for r in results])
    said = np.mean([r.standard_error for r in results])
    assert said == pytest.approx(spread, rel=0.15)
    # rounds taken as independent would say far less
    rounds = np.mean([a.rounds for a, _ in pairs])
    assert np.sqrt(2 * 2.0 / rounds) < 0.4 * spread


def test_a_prediction_takes_variance_and_leaves_the_mean() -> None:
    plain, adjusted = [], []
    for seed in range(100):
        a, c = made(2 * seed, 200, 1.3, slope=2.0), made(2 * seed + 1, 200, 1.0, slope=2.0)
        plain.append(found(GroupSums.of(*a[:2]), GroupSums.of(*c[:2])))
        adjusted.append(found(GroupSums.of(*a), GroupSums.of(*c)))
    errors = np.array([r.difference - 0.3 for r in adjusted])
    assert abs(errors.mean()) < 3 * errors.std() / 10
    assert np.mean([r.variance_taken for r in adjusted]) == pytest.approx(0.8, abs=0.06)
    widths = [r.high - r.low for r in adjusted], [r.high - r.low for r in plain]
    assert np.mean(widths[0]) < 0.6 * np.mean(widths[1])
    assert {r.variance_taken for r in plain} == {0.0}


def test_the_ratio_is_that_of_the_means_and_unknown_where_control_may_be_zero() -> None:
    agent, control = GroupSums.of(*made(1, 500, 6.0)), GroupSums.of(*made(2, 500, 3.0))
    result = found(agent, control)
    assert result.ratio == pytest.approx(result.agent / result.control)
    assert result.ratio_low is not None
    assert result.ratio_high is not None
    assert result.ratio_low < result.ratio < result.ratio_high
    for ratio in (result.ratio_low, result.ratio_high):  # zero lies on the interval's edge
        scaled = GroupSums.of(*(np.array([1.0, ratio, ratio])[:, None] * made(2, 500, 3.0)))
        edge = found(agent, scaled)
        assert min(abs(edge.low), abs(edge.high)) < 0.02
    small = found(agent, GroupSums.of(*made(2, 500, 0.0)))
    assert (small.ratio, small.ratio_low, small.ratio_high) == (None, None, None)


def test_where_units_come_less_often_what_they_bring_in_all_is_compared() -> None:
    """A third more a round and half of the rounds: more a round, a third less in all."""
    results = []
    for seed in range(200):
        rounds, *_ = made(2 * seed, 150, 0.0)
        fewer = np.ceil(rounds / 2)
        rng = np.random.default_rng(seed)
        agent = GroupSums.of(fewer, 4.0 * fewer + rng.standard_normal(150), fewer)
        rounds, rewards, predicted = made(2 * seed + 1, 150, 3.0)
        control = GroupSums.of(rounds, rewards, predicted)
        assert rounds_differ(agent, control)
        results.append(lift(agent, control, 1e4, in_all=True))
        assert found(agent, control).low > 0.0
    wholes = [one for one in results if isinstance(one, Lift)]
    truth = 4.0 * np.ceil(np.arange(1, 40) / 2).mean() - 3.0 * 20.0
    assert np.mean([one.difference for one in wholes]) == pytest.approx(truth, rel=0.03)
    said = np.mean([one.standard_error for one in wholes])
    wider = 1.08  # (13.5): together, groups of unlike rounds are less even than each alone
    assert said == pytest.approx(wider * np.std([one.difference for one in wholes]), rel=0.15)
    assert np.mean([one.low <= truth <= one.high for one in wholes]) > 0.97
    assert {one.variance_taken for one in wholes} == {0.0}  # a prediction is as large as rounds


def test_few_trajectories_give_a_reason() -> None:
    result = lift(GroupSums.of(*made(1, 500, 1.0)), GroupSums.of(*made(2, 29, 1.0)), 1e4)
    assert isinstance(result, Refusal)
    assert "29" in result
    # a trajectory without a measured round does not count
    rounds, rewards, _ = made(2, 40, 1.0)
    rounds[:11] = rewards[:11] = 0.0
    assert GroupSums.of(rounds, rewards).n_trajectories == 29


def test_rounds_to_go_is_when_the_interval_has_shrunk_enough() -> None:
    agent, control = GroupSums.of(*made(1, 300, 1.0)), GroupSums.of(*made(2, 300, 1.0))
    rounds = agent.rounds + control.rounds
    result = found(agent, control, planned=10 * rounds)
    come, same = Narrowing(None, 1.0), Narrowing(0.5, 0.0)
    to_go = result.rounds_to_go(0.1, rounds, come)
    then = (rounds + to_go) / rounds
    later = replace(result, standard_error=result.standard_error / np.sqrt(then), share=0.1 * then)
    assert later.rounds_to_go(0.1, rounds + to_go, come) < 0.03 * (rounds + to_go)
    assert result.rounds_to_go(0.2, rounds, come) < to_go
    assert result.rounds_to_go(1e9, rounds, come) == 0.0
    assert result.rounds_to_go(0.0, rounds, come) == np.inf
    # half of the square is what units differ by: 0.7 of the error stays
    assert result.rounds_to_go(0.1, rounds, same) == np.inf
    less = result.rounds_to_go(0.3, rounds, come)
    assert less < result.rounds_to_go(0.3, rounds, same) < np.inf


def test_the_variance_of_a_mean_counts_one_trajectory_less() -> None:
    """(13.1) with one round each: the square of a mean's textbook standard error, of each group."""
    rewards = [np.random.default_rng(seed).standard_normal(30) for seed in range(2)]
    agent, control = (GroupSums.of(np.ones(30), each) for each in rewards)
    square = sum(each.var(ddof=1) / 30 for each in rewards)
    assert found(agent, control).standard_error == pytest.approx(np.sqrt(square), rel=1e-9)


def test_a_group_that_lacks_the_heavy_units_is_less_certain() -> None:
    """(13.5): control's units are there for 1 round each, a tenth of the agent's for 31 (c = 6)."""
    heavy = np.where(np.arange(300) % 10 == 0, 31.0, 1.0)
    rewards = np.random.default_rng(1).standard_normal(600)
    agent = GroupSums.of(heavy, heavy * rewards[:300])
    control = GroupSums.of(np.ones(300), rewards[300:])
    result = found(agent, control)
    of_all = 600 * (agent.products[0, 0] + 300) / (agent.rounds + 300) ** 2
    parts = [
        float(one.residuals()[0, 0]) / one.rounds**2 * max(1.0, of_all / unequal) ** 1.5
        for one, unequal in ((agent, 300 * agent.products[0, 0] / agent.rounds**2), (control, 1.0))
    ]
    assert of_all > 6
    assert result.standard_error == pytest.approx(np.sqrt(sum(parts)), rel=1e-9)


def test_groups_that_their_share_hardly_ever_draws_are_told() -> None:
    assert not are_drawn_otherwise(207, 93, 0.3)
    assert are_drawn_otherwise(270, 30, 0.3)
    assert not are_drawn_otherwise(0, 0, 0.3)
    rng = np.random.default_rng(1)
    drawn = rng.random((200, 2000)) < 0.3
    looks = np.arange(100, 2001, 100)
    told = [
        any(are_drawn_otherwise(int(n - c[n - 1]), int(c[n - 1]), 0.3) for n in looks)
        for c in drawn.cumsum(axis=1)
    ]
    assert sum(told) <= 2  # of 200 that are looked at 20 times


def test_lift_is_withheld_where_few_units_carry_the_rounds() -> None:
    """c of all is 601 * 1e6 / 1600^2 = 235 with one unit of 1000 rounds: control counts as one."""
    rounds = np.ones(300)
    rewards = np.random.default_rng(1).standard_normal(600)
    control = GroupSums.of(rounds, rewards[300:])
    assert isinstance(lift(GroupSums.of(rounds, rewards[:300]), control, 1e4), Lift)
    rounds = np.append(rounds[1:], 1000.0)
    refused = lift(GroupSums.of(rounds, rewards[:300]), control, 1e4)
    assert isinstance(refused, Refusal)
    assert "10 are needed" in refused


def test_the_own_past_narrows_as_cupeds_formula_says() -> None:
    """1 - sqrt(1 - rho^2) with 20 rounds of each trajectory before the trial, and as many in it."""
    rng = np.random.default_rng(5)
    groups, rhos = [], []
    for _ in range(2):
        level = rng.standard_normal(4000)
        past, now = (20 * level + np.sqrt(20) * rng.standard_normal(4000) for _ in range(2))
        rounds = np.full(4000, 20.0)
        groups.append(GroupSums.of(rounds, now, rounds * 0, *(20 * of_past(rounds, past))))
        rhos.append(np.corrcoef(past, now)[0, 1])
    result = found(*groups)
    formula = 1 - np.sqrt(1 - np.mean(rhos) ** 2)
    assert result.narrowed_by_past == pytest.approx(formula, abs=0.01)
    assert formula > 0.6


def test_who_has_no_past_is_predicted_the_mean() -> None:
    """Half have one; what they share far above 0 moves no mean, and narrows as for them alone."""
    rng = np.random.default_rng(6)
    pairs = []
    for _ in range(60):
        groups = []
        for more in (0.0, 0.3):
            level, rounds = 9.0 + rng.standard_normal(300), np.full(300, 20.0)
            past, now = (20 * level + np.sqrt(20) * rng.standard_normal(300) for _ in range(2))
            n = np.where(np.arange(300) % 2, 20.0, 0.0)
            covariates = 20 * of_past(n, np.where(n > 0, past, 0.0))
            groups.append(GroupSums.of(rounds, now + 20 * more, rounds * 0, *covariates))
        pairs.append(found(groups[1], groups[0]))
    differences = np.array([one.difference for one in pairs])
    assert abs(differences.mean() - 0.3) < 4 * differences.std() / np.sqrt(60)
    said = np.mean([one.standard_error for one in pairs])
    assert said == pytest.approx(differences.std(), rel=0.3)
    assert np.mean([one.narrowed_by_past for one in pairs]) == pytest.approx(0.26, abs=0.05)
