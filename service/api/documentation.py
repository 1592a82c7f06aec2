"""The parts of /openapi.json that FastAPI cannot derive, since it does not parse request bodies."""

from typing import Any

from pydantic import TypeAdapter

from clients.sdk.answers import ProblemAnswer
from service.api.answer_models import model_of
from service.api.body_parsing import BodyParser
from service.api.unions import REF, as_union

PARAMETERS = {
    "session_id": "id or name of the session",
    "key_id": "id of the API key",
    "event_id": "idempotency key of the decision",
    "key": "key of the trajectory; nothing, after the slash, for the one without a key",
    "trajectory": "whose decision it is",
    "name": "name of the new session",
}


def takes(body: BodyParser[Any]) -> dict[str, Any]:
    """Return the `openapi_extra` of an endpoint that takes this kind of body."""
    schema = _schema(body.adapter)
    _definitions[schema["title"]] = as_union(schema, _definitions)
    content = {"application/json": {"schema": {"$ref": REF + schema["title"]}}}
    return {"requestBody": {"required": True, "content": content}}


_definitions: dict[str, Any] = {}


def _schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the schema of a type; keep the definitions that it refers to for `add_definitions`."""
    schema = adapter.json_schema(ref_template=REF + "{model}")
    for name, definition in schema.pop("$defs", {}).items():
        _definitions[name] = as_union(definition, _definitions)
    return schema


def add_definitions(openapi: dict[str, Any]) -> dict[str, Any]:
    """Add to a schema the definitions that request bodies refer to, and the API key."""
    components = openapi.setdefault("components", {})
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    openapi["security"] = [{"key": []}, {}]  # {}: no key is needed while the database has none
    schemas = components.setdefault("schemas", {})
    for name, definition in _definitions.items():
        schemas.setdefault(name, definition)
    for operations in openapi["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in PARAMETERS:
                    parameter.setdefault("description", PARAMETERS[parameter["name"]])
    return openapi


def documented(answers: dict[int, Any], *problems: int) -> dict[int | str, Any]:
    """Return the `responses` of an endpoint: answers by status, and statuses of problems."""
    out: dict[int | str, Any] = {
        status: {"model": model_of(answer)} for status, answer in answers.items()
    }
    for status in (*OF_EVERY_ENDPOINT, *problems):
        content = {"application/problem+json": {"schema": PROBLEM_REF}}
        out[status] = {"description": "Problem", "content": content}
    return out


# by the middleware; 422 also for a query parameter that the route does not take
OF_EVERY_ENDPOINT = (400, 401, 403, 408, 413, 415, 422, 429, 503)
PROBLEM_REF = {"$ref": REF + "ProblemAnswer"}
_definitions["ProblemAnswer"] = _schema(TypeAdapter(model_of(ProblemAnswer)))
