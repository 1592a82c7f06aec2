"""Bodies read by msgspec are those that pydantic reads; all others are left to pydantic."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.body_parsing import (
    BATCH,
    DECISION,
    HISTORY,
    RANK,
    REWARDS,
    SESSION,
    BodyParser,
    count_keys,
    refuse_duplicates,
)
from service.api.context_arrays import read_contexts
from service.base.loop_slices import run_at_once
from service.base.problems import Problem
from tests.examples import examples

HOT: dict[str, BodyParser[Any]] = {
    "decision": DECISION,
    "rewards": REWARDS,
    "batch": BATCH,
    "history": HISTORY,
    "rank": RANK,
}

odd = st.sampled_from(
    [
        None,
        True,
        "",
        "a",
        "a:b",
        "\0",
        "x" * 257,
        "\ud800",
        0,
        1,
        -1,
        2**70,
        1.0,
        -0.0,
        1e13,
        [],
        {},
    ]
)
texts = odd | st.text(max_size=5)
whole = odd | st.integers()
numbers = odd | st.floats(allow_nan=True) | st.integers()
rows = st.lists(st.lists(st.floats(width=64) | whole, max_size=3) | odd, max_size=3)
encoded = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float64", "float32"]),
        "shape": st.lists(whole, max_size=3),
        "data": st.sampled_from(["", "AAAAAAAA8D8=", "AAAAAAAA8D8", "AA AA", "AB==", "-_AA"]),
    },
    optional={"more": whole},
)
reward = {
    "value": numbers,
    "trajectory": texts,
    "round": whole,
    "event_id": texts,
    "first_round": whole,
    "last_round": whole,
    "at": odd | st.just("2026-01-31T12:00:00Z"),
    "from": odd | st.just("2026-01-31T12:00:00Z"),
    "to": odd | st.just("2026-01-31T13:00:00Z"),
    "reward_id": texts,
}
rewards = st.fixed_dictionaries({}, optional=reward)
decisions = st.fixed_dictionaries(
    {},
    optional={
        "contexts": rows | encoded | odd,
        "trajectory": texts,
        "event_id": texts,
        "arm_ids": st.lists(texts, max_size=3) | odd,
        "rewards": st.lists(rewards, max_size=2) | odd,
        "forced_arm": whole,
        "skip": odd | st.booleans(),
        "unknown": odd,
    },
)
some_rewards = st.fixed_dictionaries(
    {}, optional=reward | {"rewards": st.lists(rewards, max_size=2) | odd}
)
items = st.fixed_dictionaries(
    {}, optional={"session_id": texts, "decision": decisions, "reward": some_rewards}
)
some_contexts = rows | encoded | odd
histories = st.fixed_dictionaries(
    {"contexts": some_contexts},
    optional={
        "rewards": st.lists(numbers, max_size=3) | odd,
        "trajectory": texts,
        "import_id": texts | st.just("x" * 201),
    },
)
ranked = st.fixed_dictionaries(
    {"contexts": some_contexts}, optional={"arm_ids": st.lists(texts, max_size=3) | odd}
)
bodies = st.one_of(
    st.tuples(st.just("decision"), decisions | odd),
    st.tuples(st.just("rewards"), some_rewards | odd),
    st.tuples(st.just("batch"), st.fixed_dictionaries({"items": st.lists(items, max_size=3)})),
    st.tuples(st.just("history"), histories),
    st.tuples(st.just("rank"), ranked),
)


def plain(value: Any) -> Any:
    """Comparable to the bit: contexts as bytes, floats by their text (there -0.0 is not 0.0)."""
    if isinstance(value, dict) and "data" in value:
        try:
            return run_at_once(read_contexts(value)).tobytes()
        except Problem as problem:
            return problem.code, problem.field
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return repr(value)


def slowly(kind: BodyParser[Any], body: bytes) -> Any:
    asked = kind.parse(body)
    refuse_duplicates(body, count_keys(asked))
    return asked


@settings(max_examples=examples(800), deadline=None)
@given(bodies)
def test_what_msgspec_reads_pydantic_reads_alike(case: tuple[str, Any]) -> None:
    kind, content = case
    body = json.dumps(content).encode()
    found = HOT[kind].read_quickly(body)
    if found is not None:
        assert plain(found) == plain(slowly(HOT[kind], body))


@given(st.lists(st.floats(-1e12, 1e12) | st.integers(-(10**12), 10**12), min_size=1))
def test_the_usual_body_is_read_quickly_and_to_the_bit(numbers: list[float]) -> None:
    body = json.dumps({"contexts": [numbers]}).encode()
    found = DECISION.read_quickly(body)
    assert found is not None
    contexts = run_at_once(read_contexts(found["contexts"]))
    expected = np.array([DECISION.parse(body)["contexts"]])[0]
    assert contexts.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"contexts": [[1]], "contexts": [[2]]}', "duplicate_key"),
        (b'{"contexts": [[1]], "context": [[2]]}', "unknown_field"),
        (b'{"contexts": [[1e400]]}', "not_finite"),
        (b'{"contexts": [[true]]}', "invalid"),
        (b'{"contexts": [[1]]', "malformed_json"),
        (b'{"trajectory": "\xff"}', "malformed_json"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "malformed_json"),
    ],
)
def test_bad_bodies_get_the_same_answer_as_ever(body: bytes, code: str) -> None:
    with pytest.raises(Problem) as caught:
        DECISION.read(body)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ({"name": ".."}, "steps of a path"),
        ({"name": "a\0"}, "no zero byte"),
        ({"reward_unit": " EUR"}, "end with a space"),
        ({"features": ["a=b", "c"]}, "1 to 256 letters"),
    ],
)
def test_a_text_that_is_refused_is_told_why_in_words(member: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem) as caught:
        SESSION.read(json.dumps({"name": "n", "dim": 2, "horizon": 3, **member}).encode())
    assert said in str(caught.value.detail)
    assert "pattern" not in str(caught.value.detail)


def test_a_colon_in_a_text_costs_only_time() -> None:
    body = b'{"contexts": [[1.0]], "event_id": "user:1"}'
    assert DECISION.read(body) == {"contexts": [[1.0]], "event_id": "user:1"}
