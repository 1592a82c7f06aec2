"""What there is to choose, from context sets."""

import numpy as np

from lhb_engine.findings.check_choices import LEAST_SETS, check_choices
from lhb_engine.findings.finding import Unchecked
from lhb_engine.history import Floats


def sets(alike: int, n: int = LEAST_SETS) -> list[Floats]:
    """Sets of three features of which the first `alike` are those of the round."""
    drawn = np.random.default_rng(1).uniform(-1.0, 1.0, (n, 4, 3))
    drawn[:, :, :alike] = drawn[:, :1, :alike]
    return [*drawn]


def test_arms_that_are_alike_are_found() -> None:
    [found] = check_choices(sets(3))
    assert (found.code, found.features) == ("arms_alike", ())


def test_features_that_never_differ_are_named() -> None:
    [found] = check_choices(sets(1))
    assert (found.code, found.features) == ("never_differs", (0,))
    assert found.message.startswith("Feature 0 never differs between")
    [found] = check_choices(sets(2))
    assert found.message.startswith("Features 0 and 1 never differ between")


def test_a_number_that_counts_decisions_is_none_of_them() -> None:
    """It is the same in all sets, and its totals are not: of slots, or beside rounds skipped."""
    some = sets(1)
    for one in some:
        one[:, 0] = 1.0
    assert not [*check_choices(some, np.array([True, True, True]))]
    for totals in (None, np.array([False, True, True])):
        [found] = check_choices(some, totals)
        assert found.features == (0,)
    some[3][:, 0] = 2.0  # a number of the round
    assert [*check_choices(some, np.array([True, True, True]))]


def test_one_round_in_which_a_feature_differs_is_enough() -> None:
    some = sets(1)
    some[5][0, 0] += 1.0
    assert not [*check_choices(some)]


def test_few_sets_or_single_arms_say_nothing() -> None:
    [few], [none] = check_choices(sets(3)[1:]), check_choices([])
    assert few == none == Unchecked(("arms_alike",), "sets")  # however many rewards there are
    assert not [*check_choices([one[:1] for one in sets(3)])]
