"""What is said of a spread of responses, by feature."""

import pytest

from lhb_engine.posterior.own_responses import spread_in_words

THETA, NAMES = [0.8, -0.6, 0.0], ("reminder", "offer")


def said(*ends: tuple[float, float], gain: float = 0.0) -> str:
    own = {"spread": [sum(one) / 2 for one in ends], "intervals": ends, "gain": gain}
    return spread_in_words(own, THETA, NAMES)


def test_the_largest_spread_is_named_first_as_a_share_of_its_effect() -> None:
    assert said((0.36, 0.44), (0.54, 0.66), (0.0, 0.3)) == (
        "Trajectories differ in what offer does by 100% of its mean effect (90% to 110%), and in "
        "what reminder does by 50% of its mean effect (45% to 55%)."
    )


def test_an_effect_about_0_is_no_unit() -> None:
    assert said((0.0, 0.1), (0.0, 0.1), (0.2, 0.4)) == (
        "Trajectories differ in what feature 2 does by 0.3 (0.2 to 0.4), where all of theta is 1."
    )


@pytest.mark.parametrize(
    ("high", "words"),
    [(0.1, "it costs nothing to leave `own` on"), (0.2, "is not known yet (by less than 35% of")],
)
def test_no_spread_and_a_spread_that_is_not_known_are_told_apart(high: float, words: str) -> None:
    assert words in said((0.0, high), (0.0, high), (0.0, high))


def test_few_trajectories_differ_though_their_interval_holds_0() -> None:
    ends = (0.0, 0.8), (0.0, 1.2), (0.0, 0.0)
    assert "not known yet" in said(*ends, gain=1.0)
    assert said(*ends, gain=9.0).startswith("Trajectories differ in what offer does by 100% of its")


def test_many_features_are_counted() -> None:
    own = {"spread": [1.0] * 5, "intervals": [(0.5, 1.5)] * 5, "gain": 9.0}
    words = spread_in_words(own, [1.0] * 5, ())
    assert words.endswith("and in 2 more features.")
