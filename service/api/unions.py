"""Unions of the request bodies, as code generators digest them.

A body's type has all its members, and its schema the kinds that it is exactly one of. That is
exact, but generators make of it types in which everything is optional. `as_union` makes each kind
a schema of its own.
"""

from typing import Any

REF = "#/components/schemas/"
NULL = {"type": "null"}


def as_union(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body as a union of its kinds; other schemas as they are.

    Parameters
    ----------
    schema : dict
        An object with all members in `properties`, and its kinds in `oneOf`
        (`request_bodies._union_kind`).
    definitions : dict
        Gets the schema of each kind, by its title.
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
                said = kind["properties"][name]
                properties[name] = _not_null(member) | ({} if "not" in said else said)
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
