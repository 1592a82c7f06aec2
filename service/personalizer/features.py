"""JSON features of actions and of the context, hashed into contexts of `dim` numbers.

A feature is named by its path: ``{"user": {"age": 3, "tags": ["new"]}}`` has the features
``user.age`` with the value 3 and ``user.tags=new`` with the value 1. An arm's context holds the
features of its action, those of the request's context, and the product of each of the one with each
of the other: without these products, what suits whom could not be learned.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import isfinite
from typing import Any

from lhb_engine.history import Floats
from service.base.field_types import LARGEST
from service.base.problems import Problem, ProblemCode

MOST_DEPTH = 8  # of nested objects and lists
MOST_FEATURES = 200_000  # of all arms of one request, products included
FEW_FEATURES = 2000  # that are hashed in the event loop, in less than 1 ms
Feature = tuple[str, float]


def read_features(parts: list[dict[str, Any]], field: str) -> list[Feature]:
    """Return the features of a list of JSON objects.

    Parameters
    ----------
    parts : list of dict
        As they were sent. A key with an object is a namespace.
    field : str
        Where they stand in the body, for problems.

    Returns
    -------
    list of (str, float)
        Names and values.

    Raises
    ------
    Problem
        422 naming the feature: a number that is not finite or too large, or too deep a nesting.
    """
    return [
        feature
        for i, part in enumerate(parts)
        for feature in _features(part, "", f"{field}[{i}]", MOST_DEPTH)
    ]


def _features(value: Any, name: str, field: str, depth: int) -> Iterator[Feature]:
    if isinstance(value, bool | str):
        yield f"{name}={str(value).lower() if isinstance(value, bool) else value}", 1.0
    elif isinstance(value, int | float):
        if not (abs(value) <= LARGEST and isfinite(value)):
            detail = f"{field}: a number of at most {LARGEST:g} in size"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, field)
        yield name, float(value)
    elif value is not None:
        if depth == 0:
            detail = f"{field}: features are nested {MOST_DEPTH} deep at most"
            raise Problem(ProblemCode.INVALID, detail, field)
        if isinstance(value, dict):
            for key, part in value.items():
                inner = f"{name}.{key}" if name else key
                yield from _features(part, inner, f"{field}.{key}", depth - 1)
        else:
            for i, part in enumerate(value):
                is_number = isinstance(part, int | float) and not isinstance(part, bool)
                inner = f"{name}[{i}]" if is_number else name
                yield from _features(part, inner, f"{field}[{i}]", depth - 1)


def count_features(actions: list[list[Feature]], context: list[Feature]) -> int:
    """Return the number of features of all arms, products included.

    Raises
    ------
    Problem
        422 out_of_range: there are too many.
    """
    n = sum(len(action) * (1 + len(context)) + len(context) for action in actions)
    if n > MOST_FEATURES:
        detail = f"the features and their products are {n}; a request has at most {MOST_FEATURES}"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "actions")
    return n


def hashed_contexts(actions: list[list[Feature]], context: list[Feature], dim: int) -> Floats:
    """Hash features into contexts.

    Parameters
    ----------
    actions : list of list of Feature
        Of the K actions.
    context : list of Feature
        Of the request.
    dim : int

    Returns
    -------
    (K, dim) array of float64
        Features that share a column add up there, each with the sign that its hash gives it.
    """
    contexts: Floats = hasher(dim).transform(_arm(action, context) for action in actions).toarray()
    return contexts


def _arm(action: list[Feature], context: list[Feature]) -> Iterator[Feature]:
    for name, value in action:
        yield f"action:{name}", value
    for name, value in context:
        yield f"context:{name}", value
    for name, value in context:
        for of_action, number in action:
            yield f"context:{name}^action:{of_action}", value * number


@lru_cache(1000)
def hasher(dim: int) -> Any:
    """Return scikit-learn's hasher of pairs into `dim` columns. The first call takes a second."""
    from sklearn.feature_extraction import FeatureHasher

    return FeatureHasher(dim, input_type="pair")
