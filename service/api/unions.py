"""Unions of the request bodies, as code generators digest them.

A body's type has all its members, and its schema the kinds that it is exactly one of. That is
exact, but generators make of it types in which everything is optional. `as_union` makes each kind
a schema of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict

from service.base.field_types import STRICT

REF = "#/components/schemas/"
NULL = {"type": "null"}


def union_kind(
    title: str, meaning: str, *required: str, absent: Sequence[str] = ()
) -> dict[str, Any]:
    """Return one kind of a body, for `as_union`: its members, and those that it must not have."""
    return {
        "title": title,
        "description": meaning,
        "required": [*required],
        "x-absent": [*absent],
        # what a validator needs of it, beside the members that are described once
        "properties": {name: {"not": {"type": "null"}} for name in required},
    }


def strict(*examples: Mapping[str, Any], kinds: Sequence[dict[str, Any]] = ()) -> ConfigDict:
    """Return `STRICT` with examples, and with the kinds that a body is exactly one of."""
    schema: dict[str, Any] = {"examples": [*examples]}
    if kinds:
        schema["oneOf"] = [*kinds]
    return ConfigDict(**STRICT, json_schema_extra=schema)


def as_union(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body as a union of its kinds (`oneOf`); other schemas as they are.

    `definitions` gets the schema of each kind, by its title.
    """
    if "oneOf" not in schema or "properties" not in schema:
        return schema
    kinds = schema["oneOf"]
    of_any = {name for kind in kinds for name in kind["required"]}
    for kind in kinds:
        others = {*of_any, *kind["x-absent"]} - {*kind["required"]}
        properties = {}
        for name, member in schema["properties"].items():
            if name in kind["required"]:
                constant = kind["properties"][name]
                properties[name] = _not_null(member) | ({} if "not" in constant else constant)
            elif name not in others:
                properties[name] = member
            elif name not in kind["x-absent"] and NULL in member.get("anyOf", ()):
                properties[name] = {**NULL, "description": "another kind's"}
        definitions[kind["title"]] = {
            "type": "object",
            "title": kind["title"],
            "description": kind["description"],
            "properties": properties,
            "required": sorted({*schema.get("required", ()), *kind["required"]}),
            "additionalProperties": False,
        }
    kept = {key: schema[key] for key in ("title", "description", "examples")}
    return {**kept, "oneOf": [{"$ref": REF + kind["title"]} for kind in kinds]}


def _not_null(member: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a member that is not null."""
    parts = [part for part in member.get("anyOf", ()) if part != NULL]
    if len(parts) != 1:
        return {**member, "anyOf": parts} if parts else member
    rest = {key: value for key, value in member.items() if key != "anyOf"}
    return {**parts[0], **rest}
