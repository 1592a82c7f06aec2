"""JSON features of actions and of the context, hashed into contexts of `dim` numbers.

A feature is named by its path: ``{"user": {"age": 3, "tags": ["new"]}}`` has the features
``user.age`` with the value 3 and ``user.tags=new`` with the value 1. An arm's context holds the
features of its action, those of the request's context, and the product of each of the one with each
of the other: without these products, what suits whom could not be learned.

A feature's number is the hash of its label, ``action:NAME`` or ``context:NAME``, as the service's
named contexts have it. A product's number is mixed from those of its two features, so a product
needs no label. A number says which column is meant, and with which sign. This never changes:
stored rounds depend on it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lhb_engine.history import Floats
from service.api.context_arrays import read_category, read_number, refuse_feature_name
from service.base.loop_slices import SlicedWork
from service.base.problems import Problem, ProblemCode
from service.session.names import columns_of, label_number, refuse_too_many_numbers

MOST_DEPTH = 8  # of nested objects and lists
MOST_FEATURES = 200_000  # of all arms of one request, products included
GOLDEN = 0x9E3779B97F4A7C15  # odd, so that a number times it is another number
Feature = tuple[str, float]
Numbers = NDArray[np.uint64]


def read_features(parts: list[dict[str, Any]], field: str) -> Iterator[Feature]:
    """Yield the features of JSON objects, names and values; a key with an object is a namespace.

    Raises 422, with `field` before the feature's name: a name, a text or a number that named
    contexts do not take either, or too deep a nesting.
    """
    for i, part in enumerate(parts):
        yield from _features(part, "", f"{field}[{i}]", MOST_DEPTH)


def _features(value: Any, name: str, field: str, depth: int) -> Iterator[Feature]:
    if isinstance(value, bool):
        yield f"{name}={str(value).lower()}", 1.0
    elif isinstance(value, str):
        yield f"{name}={read_category(value, field)}", 1.0
    elif isinstance(value, int | float):
        yield name, read_number(value, field)
    elif value is not None:
        if depth == 0:
            detail = f"{field}: features are nested {MOST_DEPTH} deep at most"
            raise Problem(ProblemCode.INVALID, detail, field)
        if isinstance(value, dict):
            for key, part in value.items():
                inner = f"{name}.{key}" if name else key
                refuse_feature_name(inner, field)
                yield from _features(part, inner, f"{field}.{key}", depth - 1)
        else:
            for i, part in enumerate(value):
                is_number = isinstance(part, int | float) and not isinstance(part, bool)
                inner = f"{name}[{i}]" if is_number else name
                yield from _features(part, inner, f"{field}[{i}]", depth - 1)


class Features:
    """The features of one side of a request: of all its actions, or of its context."""

    def __init__(self, side: str) -> None:
        self._side = side
        self.numbers: list[int] = []
        self.values: list[float] = []
        self.arms: list[int] = []

    def add(self, features: Iterable[Feature], arm: int = 0) -> SlicedWork[int]:
        """Add the features of an arm, or of the context; return how many there were."""
        before = len(self.values)
        for name, value in features:
            self.numbers.append(label_number(f"{self._side}:{name}"))
            self.values.append(value)
            self.arms.append(arm)
            refuse_too_many(len(self.values))
            if not len(self.values) % 64:
                yield
        return len(self.values) - before


def refuse_too_many(n: int) -> None:
    """Raise a 422 if a request has too many features."""
    if n > MOST_FEATURES:
        detail = f"a request has at most {MOST_FEATURES} features, products included"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "actions")


def hashed_contexts(actions: Features, context: Features, n_arms: int, dim: int) -> Floats:
    """Hash features of the arms and of the request into (n_arms, dim) contexts.

    Features that share a column add up there, each with the sign that its number gives it. Raises
    422 out_of_range: there are too many features with their products, or numbers.
    """
    n, n_context = len(actions.values), len(context.values)
    refuse_too_many(n * (1 + n_context) + n_arms * n_context)
    refuse_too_many_numbers(n_arms, dim, "actions")
    of_action, of_context = (np.array(side.numbers, dtype=np.uint64) for side in (actions, context))
    values, weights = np.array(actions.values), np.array(context.values)
    contexts = np.zeros(n_arms * dim)
    starts = np.array(actions.arms, dtype=np.intp) * dim
    columns, signs = columns_of(of_action, dim)
    np.add.at(contexts, starts + columns, signs * values)
    columns, signs = columns_of(products(of_action[:, np.newaxis], of_context), dim)
    signs *= values[:, np.newaxis] * weights
    np.add.at(contexts, (starts[:, np.newaxis] + columns).ravel(), signs.ravel())
    columns, signs = columns_of(of_context, dim)
    return contexts.reshape(n_arms, dim) + np.bincount(columns, signs * weights, dim)


def products(of_action: Numbers, of_context: Numbers) -> Numbers:
    """Return the numbers of products of features: SplitMix64's mixing of their weighted sum."""
    number = of_action + of_context * np.uint64(GOLDEN)  # modulo 2**64
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Numbers = number ^ (number >> np.uint64(31))
    return mixed
