"""How an endpoint is declared: its path, its role, and what /openapi.json says of it.

Endpoints parse their bodies themselves, so FastAPI cannot derive all of the schema.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.types import DecoratedCallable
from pydantic import TypeAdapter
from pydantic_core import to_json
from starlette.convertors import PathConvertor, register_url_convertor

from clients.sdk.answers import ProblemAnswer
from service.api.access import NEEDED, READER, WRITER
from service.api.answer_models import model_of
from service.api.body_parsing import BodyParser
from service.api.request_bodies import REF, as_union
from service.api.runtime import Service, service_of, tenant_of
from service.commands.sessions import unknown_session
from service.session.records import SessionKey, SessionRow
from service.storage.reader import Reader

Before = Callable[[Service, SessionKey], Awaitable[object]]
Reads = TypeVar("Reads", bound=Callable[..., dict[str, Any]])
SESSION = "/v1/sessions/{session_id}"
PARAMETERS = {
    "session_id": "id or name of the session",
    "key_id": "id of the API key",
    "webhook_id": "id of the webhook",
    "event_id": "idempotency key of the decision",
    "key": "key of the trajectory; nothing, after the slash, for the one without a key",
    "trajectory": "whose decision it is",
    "name": "name of the new session",
}


_definitions: dict[str, Any] = {}


class AnyText(PathConvertor):
    """The rest of a path, line breaks included, which Starlette's own convertors leave out."""

    regex = r"[\s\S]*"


register_url_convertor("text", AnyText())


def found_session(reader: Reader, tenant: str, session_id: str) -> SessionRow:
    """Return the session; raise 404 unknown_session if there is none."""
    session = reader.session((tenant, session_id))
    if session is None:
        raise unknown_session(session_id)
    return session


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """Answer with JSON. Floats have enough digits to be parsed back exactly."""
    return Response(to_json(value), status, headers=headers, media_type="application/json")


async def read_session(
    request: Request, session_id: str, answer: Callable[[Reader, SessionRow], dict[str, Any]]
) -> Response:
    """Answer a GET of a session.

    `answer` makes JSON of a reader and the session, in a reader thread; all its reads see one
    snapshot.
    """
    service, tenant = service_of(request), tenant_of(request)

    def read(reader: Reader) -> dict[str, Any]:
        return answer(reader, found_session(reader, tenant, session_id))

    return json_response(await service.query(tenant, read))


class Routes(APIRouter):
    """Endpoints below a path. `role` is the least that all of them need, if it is the same."""

    def __init__(self, path: str = "", role: int | None = None, **more: Any) -> None:
        super().__init__(prefix=path, **more)
        self._role = role

    def serve(
        self,
        route: str,
        summary: str = "",
        answer: Any = None,
        *statuses: int,
        body: BodyParser[Any] | None = None,
        role: int | None = None,
        **more: Any,
    ) -> Callable[[DecoratedCallable], DecoratedCallable]:
        """Declare an endpoint: method and path, type of the answer, and statuses, by default 200.

        Statuses from 400 on are of problems; those that every endpoint has are not repeated. A GET
        needs a reader's key by default, another method a writer's. Without a `summary` the route is
        not in /openapi.json.
        """
        method, _, path = route.partition(" ")
        least = role if role is not None else self._role
        if least is None:
            least = READER if method == "GET" else WRITER
        NEEDED[method, self.prefix + path] = least
        if body is not None:
            schema = _schema(body.adapter)
            _definitions[schema["title"]] = as_union(schema, _definitions)
            content = {"application/json": {"schema": {"$ref": REF + schema["title"]}}}
            more["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
        answered = [status for status in statuses if status < 400] or [200]
        refused = [status for status in statuses if status >= 400]
        if "{" in self.prefix + path:
            refused.append(404)
        responses: dict[int | str, Any] = dict.fromkeys((*OF_EVERY_ENDPOINT, *refused), PROBLEM)
        if answer is not None:
            shown = answer if isinstance(answer, dict) else {"model": model_of(answer)}
            responses |= dict.fromkeys(answered, shown)
        return self.api_route(
            path,
            methods=[method],
            summary=summary or None,
            status_code=answered[0],
            responses=responses,
            include_in_schema=bool(summary),
            **more,
        )

    def read(
        self, path: str, summary: str, answer: Any, before: Before | None = None
    ) -> Callable[[Reads], Reads]:
        """Declare a GET by a function, which runs as `answer` of `read_session` does.

        It takes a reader, the session of the path, else the tenant, and the parameters of the path
        and the query; `before` runs first.
        """
        is_of_session = "{session_id}" in self.prefix + path

        def declare(work: Reads) -> Reads:
            async def endpoint(request: Request, session_id: str = "", **given: Any) -> Response:
                service, tenant = service_of(request), tenant_of(request)
                if before is not None:
                    await before(service, (tenant, session_id))
                answer = partial(work, **given)
                if is_of_session:
                    return await read_session(request, session_id, answer)
                return json_response(await service.query(tenant, lambda one: answer(one, tenant)))

            first, own = (list(signature(one).parameters.values()) for one in (endpoint, work))
            path_has = [first[1].replace(default=Parameter.empty)] if is_of_session else []
            shown: Any = endpoint  # to FastAPI, with the parameters and the description of `work`
            taken = [first[0], *path_has, *own[2:]]
            shown.__signature__ = Signature(taken, return_annotation=Response)
            shown.__name__, shown.__doc__ = work.__name__, work.__doc__
            self.serve(f"GET {path}", summary, answer)(shown)
            return work

        return declare


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


# by the middleware; 422 also for a query parameter that the route does not take
OF_EVERY_ENDPOINT = (400, 401, 403, 408, 413, 415, 422, 429, 503)
PROBLEM = {
    "description": "Problem",
    "content": {"application/problem+json": {"schema": {"$ref": REF + "ProblemAnswer"}}},
}
_definitions["ProblemAnswer"] = _schema(TypeAdapter(model_of(ProblemAnswer)))
