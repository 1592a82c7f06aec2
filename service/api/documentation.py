"""The parts of /openapi.json that FastAPI cannot derive, since it does not parse request bodies."""

from typing import Any

from pydantic import TypeAdapter

from service.api.body_parsing import BodyParser
from service.api.response_types import ProblemAnswer


def takes(body: BodyParser[Any]) -> dict[str, Any]:
    """Return the `openapi_extra` of an endpoint that takes this kind of body."""
    schema = _schema(body.adapter)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_definitions: dict[str, Any] = {}


def _schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the schema of a type; keep the definitions that it refers to for `add_definitions`."""
    schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
    _definitions.update(schema.pop("$defs", {}))
    return schema


def add_definitions(openapi: dict[str, Any]) -> dict[str, Any]:
    """Add to a schema the definitions that request bodies refer to, and the API key."""
    components = openapi.setdefault("components", {})
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    openapi["security"] = [{"key": []}, {}]  # {}: no key is needed while the database has none
    schemas = components.setdefault("schemas", {})
    for name, definition in _definitions.items():
        schemas.setdefault(name, definition)
    return openapi


def documented(answers: dict[int, Any], *problems: int) -> dict[int | str, Any]:
    """Return the `responses` of an endpoint.

    Parameters
    ----------
    answers : dict
        HTTP status -> model of the answer.
    *problems : int
        HTTP statuses of problems, beside those that every endpoint may answer.
    """
    out: dict[int | str, Any] = {status: {"model": model} for status, model in answers.items()}
    for status in (*OF_EVERY_ENDPOINT, *problems):
        content = {"application/problem+json": {"schema": PROBLEM_REF}}
        out[status] = {"description": "Problem", "content": content}
    return out


# by the middleware; 422 also for a query parameter that the route does not take
OF_EVERY_ENDPOINT = (400, 401, 403, 408, 413, 415, 422, 429, 503)
PROBLEM_REF = {"$ref": "#/components/schemas/ProblemAnswer"}
_definitions["ProblemAnswer"] = _schema(TypeAdapter(ProblemAnswer))
