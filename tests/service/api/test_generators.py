"""What code generators make of /openapi.json: names, types, descriptions, unions."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from service.api import body_parsing
from service.base.server_settings import Settings
from service.operation.app import create_app
from service.session.spec import DEFAULTS, REQUIRED

TEXTS = {"get_metrics", "get_events", "get_changes"}  # what they answer is no JSON
BODIES = {
    "SessionBody": body_parsing.SESSION,
    "SessionPatch": body_parsing.PATCH,
    "DecisionBody": body_parsing.DECISION,
    "RewardsBody": body_parsing.REWARDS,
    "BatchBody": body_parsing.BATCH,
    "HistoryBody": body_parsing.HISTORY,
    "RankBody": body_parsing.RANK,
}


@cache
def described() -> dict[str, Any]:
    """What the service says of itself."""
    return create_app(Settings()).openapi()


def schemas() -> dict[str, Any]:
    """The types in it."""
    found: dict[str, Any] = described()["components"]["schemas"]
    return found


def operations() -> Iterator[Any]:
    for methods in described()["paths"].values():
        yield from methods.values()


def test_operations_are_named_without_their_routes() -> None:
    names = [one["operationId"] for one in operations()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"(get|post|patch|delete)_[a-z]+", name) for name in names)


def test_operations_and_parameters_are_described() -> None:
    for one in operations():
        assert one["summary"], one
        assert one["description"], one
        for parameter in one.get("parameters", ()):
            assert parameter["description"], (one["operationId"], parameter["name"])


def test_every_answer_and_every_item_of_a_page_is_typed() -> None:
    for one in operations():
        for status, answer in one["responses"].items():
            if status[0] == "2" and status != "204" and one["operationId"] not in TEXTS:
                schema = answer["content"]["application/json"]["schema"]
                assert all("$ref" in part for part in schema.get("anyOf", [schema])), one
    for name, schema in schemas().items():
        assert "_" not in name
        assert schema.get("type") == "array" or schema["description"], name
        if name.endswith("Page"):
            assert schemas()[name.replace("Page", "Answer")]
            assert schema["properties"]["items"]["items"]["$ref"].endswith(
                name.replace("Page", "Answer")
            )


@pytest.mark.parametrize("name", BODIES)
def test_a_body_has_a_name_and_an_example_that_is_taken(name: str) -> None:
    used = [one["requestBody"]["content"] for one in operations() if "requestBody" in one]
    ref = {"$ref": f"#/components/schemas/{name}"}
    assert sum(body.get("application/json") == {"schema": ref} for body in used) == 1
    assert schemas()[name]["examples"]
    for example in schemas()[name]["examples"]:
        BODIES[name].read(json.dumps(example).encode())


def test_defaults_of_a_session_are_said() -> None:
    properties = schemas()["SessionBody"]["properties"]
    said = {name: one["default"] for name, one in properties.items() if "default" in one}
    assert said.pop("name") is None
    expected = {name: value for name, value in DEFAULTS.items() if value is not REQUIRED}
    del expected["guard"]  # PATCH takes it
    assert said == expected


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (
            "RewardItem",
            {
                *("RewardOfRound", "RewardOfEvent", "RewardOfSpan", "RewardAtTime"),
                *("RewardOfInterval", "RewardReplacing"),
            },
        ),
        ("DecisionBody", {"DecisionOfContexts", "SkippedDecision"}),
        ("BatchItem", {"BatchDecision", "BatchReward"}),
    ],
)
def test_a_union_names_its_kinds(name: str, kinds: set[str]) -> None:
    refs = {one["$ref"].rpartition("/")[2] for one in schemas()[name]["oneOf"]}
    assert refs == kinds
    for kind in kinds:
        assert schemas()[kind]["additionalProperties"] is False


def test_a_kind_requires_its_members_and_has_no_others() -> None:
    span = schemas()["RewardOfSpan"]
    assert span["required"] == ["first_round", "last_round", "value"]
    assert span["properties"]["first_round"]["type"] == "integer"  # and not null
    assert span["properties"]["event_id"]["type"] == "null"
    assert set(schemas()["RewardList"]["properties"]) == {"rewards", "trajectory"}
    skipped = schemas()["SkippedDecision"]["properties"]
    assert skipped["skip"]["const"] is True
    assert skipped["contexts"]["type"] == "null"
    assert not {"arm_ids", "forced_arm"} & set(skipped)
