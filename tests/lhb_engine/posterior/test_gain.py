"""What choices earn, by draws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.context_sets import FEW
from lhb_engine.posterior.gain import ABOVE, BELOW, FAR_BELOW, LEFT_ABOVE, PRIOR_ROWS, gain
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate

THETA = np.array([1.0, 0.0])
SETS = ([np.array([[1.0, 0.0], [0.0, 1.0]])] * 3 + [np.array([[0.0, 1.0], [1.0, 1.0]])]) * 4


def found(totals: list[list[float]], epsilon: float = 0.0, **other: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "sets": SETS,
        "theta": THETA,
        "deciding": THETA[None],
        "n_rows": 10**9,
        **other,
    }
    answer = gain(totals=np.array(totals), epsilon=epsilon, **given)
    assert isinstance(answer, dict)
    return answer


def values(answer: dict[str, Any]) -> list[float]:
    return [answer[n]["value"] for n in ("over_chance", "over_best_arm", "still_to_gain")]


def test_one_draw_has_the_sums_of_its_sets() -> None:
    # chosen: 2 2 2 5, arms: 2 3 | 2 3 | 2 3 | 3 5
    assert values(found([[2.0, 3.0]])) == pytest.approx([-0.125, -0.75, 0.75])
    # with half of uniform play
    assert values(found([[2.0, 3.0]], 0.5)) == pytest.approx([-0.0625, -0.6875, 0.6875])
    turns = found([[2.0, 3.0]], deciding=np.array([[1.0, 0.0], [0.0, 1.0]]))
    # chosen in the other turns: 3 3 3 3 (of equal arms the first one)
    assert values(turns) == pytest.approx([-0.0, -0.625, 0.625])


def test_the_best_is_right_in_a_share_of_draws_and_sets() -> None:
    answer = found([[2.0, 3.0], [3.0, 2.0]])
    assert answer["best_is_right"] == pytest.approx(5 / 8)


def test_the_best_is_less_surely_right_where_the_prior_weighs_and_at_least_by_chance() -> None:
    draws = [[0.9, 0.0], [3.1, 0.0]]  # less 0.55 of the mean, the first one is below 0
    assert found(draws)["best_is_right"] == 1.0
    assert found(draws, n_rows=1)["best_is_right"] == 0.5
    assert found([[-1.0, 0.0]])["best_is_right"] == 0.5


def test_intervals_are_wider_than_draws() -> None:
    draws = np.linspace(0.0, 1.0, 201)
    answer = found([[d, 0.0] for d in draws.tolist()])
    one = answer["over_chance"]
    assert one["high"] - one["value"] == pytest.approx(ABOVE * 0.475 * 0.5)
    assert one["value"] - one["low"] == pytest.approx(BELOW * 0.475 * 0.5)
    sets = [np.eye(2) + i for i in range(16)]
    one = found([[0.0, d] for d in draws.tolist()], sets=sets)["over_best_arm"]
    assert one["high"] - one["low"] == pytest.approx((ABOVE + BELOW) * 0.475)
    assert answer["still_to_gain"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    some = found([[1.0, d] for d in (3.0 * draws).tolist()])["still_to_gain"]
    assert some["low"] == 0.0 < some["value"]
    far = found([[0.0, 1.0 + d] for d in draws.tolist()], sets=sets)["still_to_gain"]
    wide = 0.475
    assert far["high"] - far["value"] == pytest.approx(LEFT_ABOVE * wide)
    assert far["value"] - far["low"] == pytest.approx(BELOW * wide)


def test_intervals_count_that_other_sets_would_have_another_mean() -> None:
    """As of 4 sets, which a log of a year leaves a session of 30 rounds."""
    pays = [0.2, 0.6, 1.0, 1.4]  # over chance, by set
    sets = [np.array([[2.0 * pay, 0.0], [0.0, 0.0]]) for pay in pays]
    one = found([[1.0, 0.0]], sets=sets)["over_chance"]
    half = 3.182446305 * np.std(pays, ddof=1) / 2.0
    assert [one["low"], one["high"]] == pytest.approx([0.8 - half, 0.8 + half], rel=1e-6)


def test_of_few_sets_no_arm_is_called_the_best() -> None:
    """One arm may be the best in each: that it would be in all others, too, is no knowledge."""
    sets = [np.eye(2) + i for i in range(16)]
    assert found([[1.0, 0.0]], sets=sets)["over_best_arm"] is not None
    assert found([[1.0, 0.0]], sets=sets[1:])["over_best_arm"] is None
    assert found([[1.0, 0.0]], sets=[np.eye(2)] * 4)["over_best_arm"] is not None  # fixed arms


def test_arms_that_never_change_need_more_to_be_told_apart() -> None:
    draws = np.linspace(0.0, 1.0, 201)[:, None] * [1.0, 0.0]
    alike = gain([np.eye(2)] * 4, np.array([1.0, 0.0]), np.eye(2)[:1], draws, 0.0, 10**9)
    assert isinstance(alike, dict)
    one = alike["over_chance"]
    assert one["value"] - one["low"] == pytest.approx(FAR_BELOW * 0.475 * 0.5)


def test_the_page_has_the_same_factors() -> None:
    """It works out the mean of the draws from the ends of an interval."""
    root = Path(__file__).parents[3]
    page = (root / "service/dashboard/static/headline.js").read_text("utf-8")
    assert f"const BELOW = {BELOW}, FAR_BELOW = {FAR_BELOW}, ABOVE = {ABOVE} " in page


def test_values_are_less_where_the_prior_weighs() -> None:
    """By the noise of an arm's advantage over chance, beside the square of its mean."""
    draws = [[1.0, 0.0], [3.0, 0.0]]  # 2 in the mean, with variance 1
    whole, some = found(draws), found(draws, n_rows=32)
    share = 4.0 / (4.0 + PRIOR_ROWS / 32.0)
    for name in ("over_chance", "over_best_arm"):
        assert some[name]["value"] == pytest.approx(share * whole[name]["value"])
        assert some[name]["high"] == pytest.approx(whole[name]["high"])
    assert some["over_chance"]["low"] == pytest.approx(whole["over_chance"]["low"])
    assert some["still_to_gain"] == whole["still_to_gain"]
    few = found([[4.0, 0.0], [4.5, 0.0], [5.0, 0.0]], n_rows=1)["over_chance"]
    assert few["low"] == few["value"]


def test_rounds_of_different_numbers_of_arms_have_no_fixed_arm() -> None:
    answer = found([[2.0, 3.0]], sets=[*SETS, np.eye(3)[:, :2]])
    assert answer["over_best_arm"] is None
    assert answer["over_chance"] is not None


def test_few_sets_say_nothing() -> None:
    one = SETS[0][:1]
    assert gain([*SETS[:3], one], THETA, THETA[None], np.ones((1, 2)), 0.0, 100) == FEW


def played(theta: list[float], seed: int) -> tuple[list[dict[str, Any]], LongHorizonEnvironment]:
    """What the fits of a run say, the last one last."""
    weights = np.array([0.5, 0.3])
    world = LongHorizonEnvironment(np.array(theta), weights, n_arms=4, noise=0.1, seed=seed)
    agent = make_agent("anytime", dim=3, horizon=2)
    run = simulate(agent, world, n_rounds=150, seed=seed)
    return [e.gain for e in run.estimates if e.gain is not None], world


def test_what_is_gained_is_near_the_truth() -> None:
    (*_, answer), world = played([0.8, -0.6, 0.0], 1)
    signals = 0.8 * world.signals(world.contexts(1000, 20_000))
    most = float((signals.max(axis=1) - signals.mean(axis=1)).mean())
    assert answer["over_chance"]["value"] == pytest.approx(most, rel=0.15)
    assert answer["over_best_arm"]["value"] == pytest.approx(float(signals.max(axis=1).mean()), 0.3)
    assert answer["still_to_gain"]["value"] < 0.02 * most
    assert answer["best_is_right"] > 0.9
