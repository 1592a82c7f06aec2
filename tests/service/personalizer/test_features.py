"""Features of JSON and their columns: stored rounds depend on both, so neither ever changes."""

from typing import Any

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

from service.base.problems import Problem
from service.personalizer.features import (
    MOST_DEPTH,
    MOST_FEATURES,
    count_features,
    hashed_contexts,
    read_features,
)


def test_a_feature_is_named_by_its_path() -> None:
    given = [
        {"time": "morning", "user": {"age": 3, "new": True, "gone": None}},
        {"tags": ["a", "b"], "vector": [0.5, -1], "user": {"deep": {"er": "x"}}},
    ]
    assert read_features(given, "contextFeatures") == [
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
        read_features(given, "x")
    assert refused.value.field == field
    read_features([nested(MOST_DEPTH)], "x")


def test_too_many_products_are_refused_before_they_are_made() -> None:
    wide = [(f"f{i}", 1.0) for i in range(500)]
    assert count_features([wide[:2]], wide[:3]) == 2 + 3 + 6
    with pytest.raises(Problem, match=str(MOST_FEATURES)):
        count_features([wide], wide)


def test_an_arm_holds_its_action_the_context_and_their_products() -> None:
    """Each feature by the definition of feature hashing, with MurmurHash3 and its sign."""
    dim = 16
    actions = [[("taste=sweet", 1.0), ("price", 3.0)], [("taste=salty", 1.0)]]
    context = [("time=morning", 1.0), ("age", 0.5)]
    expected = np.zeros((2, dim))
    for arm, action in enumerate(actions):
        features = [(f"action:{name}", value) for name, value in action]
        features += [(f"context:{name}", value) for name, value in context]
        features += [
            (f"context:{name}^action:{other}", value * number)
            for name, value in context
            for other, number in action
        ]
        for name, value in features:
            hashed = murmurhash3_32(name, seed=0, positive=False)
            expected[arm, abs(hashed) % dim] += value * (1 if hashed >= 0 else -1)
    np.testing.assert_allclose(hashed_contexts(actions, context, dim), expected, atol=1e-15)


def test_columns_never_change() -> None:
    found = hashed_contexts([[("taste=sweet", 1.0)], [("id=b", 1.0)]], [("hour", 2.0)], 8)
    assert found.tolist() == [
        [0.0, -2.0, 0.0, -1.0, 0.0, 0.0, 0.0, 2.0],
        [0.0, -2.0, 0.0, 0.0, 0.0, -1.0, 0.0, 2.0],
    ]
