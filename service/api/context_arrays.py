"""Conversion of a parsed body's contexts to a checked (K, dim) array of float64.

Contexts with names are only checked here; the session's names make numbers of them.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from math import isfinite
from typing import Any

import numpy as np
from msgspec.msgpack import encode

from lhb_engine.history import Floats
from service.api.request_bodies import MAX_ARMS
from service.base.field_types import FEATURE, LARGEST, MOST_LETTERS
from service.base.loop_slices import ITEMS, SlicedWork, run_at_once
from service.base.problems import Problem, ProblemCode
from service.commands.contexts import FEW_VALUES
from service.session.names import NamedContexts

_LITTLE = np.dtype("<f8")


def read_contexts(value: Any) -> SlicedWork[Floats | NamedContexts]:
    """Convert a body's contexts to a (K, dim) array, one row an arm, or check contexts with names.

    Raises 422 naming the context: there is none, lengths differ, or a number is not finite or
    larger than `LARGEST` in size. True and False are 1 and 0.
    """
    return (yield from _named(value)) if _are_named(value) else read_contexts_at_once(value)


def _are_named(value: Any) -> bool:
    return type(value) is list and len(value) > 0 and type(value[0]) is dict


def read_contexts_at_once(value: Any) -> Floats | NamedContexts:
    """Do what `read_contexts` does in one go; raises the same."""
    if _are_named(value):
        return run_at_once(_named(value))
    contexts = _decoded(value) if isinstance(value, dict) else _stacked(value)
    n_arms, dim = contexts.shape
    if n_arms == 0:
        detail = 'a decision needs at least one arm; "skip": true is a round without a choice'
        raise Problem(ProblemCode.NO_ARMS, detail, "contexts")
    if dim == 0:
        raise Problem(ProblemCode.WRONG_SHAPE, "a context needs at least one number", "contexts[0]")
    flat = contexts.ravel()
    # a sum of squares within the bound proves every number within it; a sum with NaN fails the test
    if not flat.dot(flat) <= LARGEST**2:
        for arm, i in np.argwhere(~(np.abs(contexts) <= LARGEST)).tolist():
            raise _bad_number(f"contexts[{arm}][{i}]", contexts[arm, i])
    return contexts


def _named(objects: list[dict[str, Any]]) -> SlicedWork[NamedContexts]:
    """Check contexts with names, and number their labels."""
    places: dict[str, int] = {}
    arms, ids, values = list[int](), list[int](), list[float]()
    for arm, context in enumerate(objects):
        place = f"contexts[{arm}]"
        for name, value in context.items():
            refuse_feature_name(name, place)
            label, field = name, f"{place}.{name}"
            if isinstance(value, str):
                label, number = f"{name}={read_category(value, field)}", 1.0
            elif isinstance(value, int | float):
                number = read_number(value, field)
            else:
                detail = f"{field}: a feature is a number, a text, true or false"
                raise Problem(ProblemCode.INVALID, detail, field)
            ids.append(places.setdefault(label, len(places)))
            arms.append(arm)
            values.append(number)
            if not len(ids) % ITEMS:
                yield
        if not arm % ITEMS:
            yield
    contexts = NamedContexts(len(objects), places, arms, ids, values)
    return contexts.hash() if len(ids) > FEW_VALUES else contexts


def refuse_feature_name(name: str, place: str) -> None:
    """Raise a 422 if no feature can have a name; `place` is the field of what it is in."""
    if not FEATURE.fullmatch(name):
        detail = f'the name of a feature has 1 to {MOST_LETTERS} characters, and no "="'
        raise Problem(ProblemCode.INVALID, detail, place)


def read_category(value: str, field: str) -> str:
    """Return a feature's text; raises a 422 if it is too long."""
    if len(value) > MOST_LETTERS or "\0" in value:
        detail = f"{field}: a category has at most {MOST_LETTERS} characters"
        raise Problem(ProblemCode.INVALID, detail, field)
    return value


def read_number(value: float, field: str) -> float:
    """Return a feature's number as a float; raises a 422 if it is not finite or too large."""
    if not abs(value) <= LARGEST:
        raise _bad_number(field, value)
    return float(value)


def _stacked(rows: list[list[float]]) -> Floats:
    width = len(rows[0]) if rows else 0
    if len(set(map(len, rows))) > 1:
        i = next(i for i, row in enumerate(rows) if len(row) != width)
        detail = f"context {i} has {len(rows[i])} numbers where the first has {width}"
        raise Problem(ProblemCode.RAGGED, detail, f"contexts[{i}]")
    if not width:
        return np.empty((len(rows), 0))
    # MessagePack writes a float as a tag and eight big-endian bytes. Encoding the lists with
    # msgspec and viewing the bytes as a strided array takes half the time of np.array(rows).
    head = _header(width)
    start = _header(len(rows)) + head + 1
    packed = np.ndarray((len(rows), width), ">f8", encode(rows), start, (9 * width + head, 9))
    return packed.astype(np.float64)


def _header(n: int) -> int:
    """Return the size in bytes of MessagePack's header of a list of n elements."""
    return 1 if n < 16 else 3 if n < 65536 else 5


def _decoded(value: dict[str, Any]) -> Floats:
    n_arms, dim = value["shape"]
    if n_arms > MAX_ARMS:
        detail = f"a decision has at most {MAX_ARMS} arms"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "contexts.shape[0]")
    data = value["data"]
    if isinstance(data, str):
        try:
            data = b64decode(data, validate=True)
        except (Base64Error, ValueError) as error:
            detail = f"not base64: {error}"
            raise Problem(ProblemCode.INVALID, detail, "contexts.data") from None
    if len(data) != 8 * n_arms * dim:
        detail = f"{n_arms} x {dim} float64 are {8 * n_arms * dim} bytes, not {len(data)}"
        raise Problem(ProblemCode.WRONG_SHAPE, detail, "contexts.data")
    # in the machine's byte order, in which a selected context is stored
    return np.ndarray((n_arms, dim), _LITTLE, data).astype(np.float64, copy=False)


def _bad_number(field: str, value: float) -> Problem:
    if isinstance(value, int) or isfinite(value):  # an int may be too large for a float
        detail = f"{field}: the absolute value of a number is at most {LARGEST:g}"
        return Problem(ProblemCode.OUT_OF_RANGE, detail, field)
    return Problem(ProblemCode.NOT_FINITE, f"{field}: not a finite number", field)
