"""Features of JSON and their columns: stored rounds depend on both, so neither ever changes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from service.base.loop_slices import run_at_once
from service.base.problems import Problem
from service.personalizer.features import (
    MOST_DEPTH,
    MOST_FEATURES,
    Features,
    hashed_contexts,
    read_features,
)
from service.session.names import MOST_NUMBERS, label_number


def test_a_feature_is_named_by_its_path() -> None:
    given = [
        {"time": "morning", "user": {"age": 3, "new": True, "gone": None}},
        {"tags": ["a", "b"], "vector": [0.5, -1], "user": {"deep": {"er": "x"}}},
    ]
    assert list(read_features(given, "contextFeatures")) == [
        ("time=morning", 1.0),
        ("user.age", 3.0),
        ("user.new=true", 1.0),
        ("tags=a", 1.0),
        ("tags=b", 1.0),
        ("vector[0]", 0.5),
        ("vector[1]", -1.0),
        ("user.deep.er=x", 1.0),
    ]


def nested(depth: int) -> Any:
    return 1 if depth == 0 else {"a": nested(depth - 1)}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([{"a": 1}, {"b": {"c": float("nan")}}], "x[1].b.c"),
        ([{"a": [1, 1e13]}], "x[0].a[1]"),
        ([{"a": 10**400}], "x[0].a"),
        ([nested(MOST_DEPTH + 1)], "x[0]" + ".a" * MOST_DEPTH),
    ],
)
def test_a_bad_feature_is_named(given: Any, field: str) -> None:
    with pytest.raises(Problem) as refused:
        list(read_features(given, "x"))
    assert refused.value.field == field
    assert list(read_features([nested(MOST_DEPTH)], "x"))


def features(side: str, *arms: list[tuple[str, float]]) -> Features:
    made = Features(side)
    for arm, given in enumerate(arms):
        run_at_once(made.add(given, arm))
    return made


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"n" * 257: ["a"]}, "x[0]"),
        ({"ns": {"n" * 254: 1.0}}, "x[0].ns"),
        ({"a=b": "c"}, "x[0]"),  # "=" is between a feature and its category
        ({"a": "t" * 257}, "x[0].a"),
    ],
)
def test_names_and_texts_are_as_short_as_those_of_named_contexts(given: Any, field: str) -> None:
    with pytest.raises(Problem) as refused:
        list(read_features([given], "x"))
    assert refused.value.field == field


def test_a_long_name_is_refused_before_a_list_repeats_it() -> None:
    """A list of n texts has n features: with a name of m letters they would take n * m."""
    read: list[object] = []

    class Texts(list[str]):
        def __iter__(self) -> Iterator[str]:
            read.append(self)
            return super().__iter__()

    with pytest.raises(Problem):
        list(read_features([{"n" * 2**22: Texts(["a"] * 1000)}], "x"))
    assert not read


def test_features_are_counted_while_they_are_read() -> None:
    """The next feature beyond the limit is not read any more."""
    endless = (("f", 1.0) for _ in iter(int, 1))
    with pytest.raises(Problem, match=str(MOST_FEATURES)):
        run_at_once(Features("action").add(endless))


def test_too_many_products_are_refused_before_they_are_made() -> None:
    wide = [(f"f{i}", 1.0) for i in range(500)]
    with pytest.raises(Problem, match=str(MOST_FEATURES)):
        hashed_contexts(features("action", wide), features("context", wide), 1, 8)
    no_more = [(f"f{i}", 1.0) for i in range(100)]
    hashed_contexts(features("action", no_more), features("context", no_more), 1, 8)


def test_too_many_numbers_are_refused_before_they_are_made() -> None:
    """100 000 actions in a session of dim 100 000 would be 80 GB."""
    one = features("action", [("f", 1.0)])
    with pytest.raises(Problem, match=str(MOST_NUMBERS)):
        hashed_contexts(one, Features("context"), 100_000, 100_000)


def mixed(action: int, context: int) -> int:
    """SplitMix64's finaliser, by its published definition, over integers of any size."""
    z = (action + context * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_an_arm_holds_its_action_the_context_and_their_products() -> None:
    dim = 16
    actions = [[("taste=sweet", 1.0), ("price", 3.0)], [("taste=salty", 1.0)], []]
    context = [("time=morning", 1.0), ("age", 0.5)]
    expected = np.zeros((3, dim))
    for arm, action in enumerate(actions):
        of_action = [(label_number(f"action:{name}"), value) for name, value in action]
        of_context = [(label_number(f"context:{name}"), value) for name, value in context]
        both = [(mixed(a, c), x * y) for a, x in of_action for c, y in of_context]
        for number, value in of_action + of_context + both:
            expected[arm, (number >> 1) % dim] += -value if number & 1 else value
    found = hashed_contexts(features("action", *actions), features("context", context), 3, dim)
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_columns_never_change() -> None:
    actions = features("action", [("taste=sweet", 1.0)], [("id=b", 1.0)])
    found = hashed_contexts(actions, features("context", [("hour", 2.0)]), 2, 8)
    assert found.tolist() == [
        [0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 2.0, 0.0, 0.0, 2.0, 1.0, 0.0],
    ]
