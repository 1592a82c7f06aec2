"""How an endpoint is declared: its path, its role, and what /openapi.json says of it.

Endpoints parse their bodies themselves, so FastAPI cannot derive all of the schema.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter
from pydantic_core import to_json
from starlette.convertors import PathConvertor, register_url_convertor

from clients.sdk.answers import ProblemAnswer
from service.api.access import NEEDED, READER, WRITER
from service.api.answer_models import model_of
from service.api.body_parsing import BodyParser
from service.api.request_bodies import REF, as_union
from service.api.runtime import Service, service_of
from service.base.problems import Problem, ProblemCode
from service.commands.sessions import unknown_session
from service.session.records import Actor, SessionKey, SessionRow
from service.storage.reader import Reader
from service.writer.command import Command, Result

Before = Callable[[Service, SessionKey], Awaitable[object]]
Work = TypeVar("Work", bound=Callable[..., Any])
Part = TypeVar("Part")
Handler = Callable[[Service, str, str, bytes], Awaitable[tuple[int, bytes]]]
REQUEST, CALL, SESSION_ID = (
    Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
    for name, kind in (("request", Request), ("call", Any), ("session_id", str))
)
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


class Call(NamedTuple):
    """A request, as endpoints take it: whose data it may see, and who asks, for the audit log."""

    request: Request
    service: Service
    tenant: str
    actor: Actor

    async def submit(self, command: Command[Result]) -> Result:
        """Run a command; what it writes is durable on return."""
        return await self.service.writer.submit(command)

    async def refuse_body(self, what: str) -> None:
        """Raise a 422 if the request has a body with a field."""
        if (await self.request.body()).strip() not in (b"", b"{}"):
            raise Problem(ProblemCode.UNKNOWN_FIELD, f"{what} takes no field", "body")

    async def stream(self, parts: AsyncGenerator[Part, None]) -> AsyncGenerator[Part, None]:
        """Return a stream whose first part is made, and which ends when the key is revoked.

        So an unknown session is a 404, not a broken stream.
        """
        first = await anext(parts)

        async def stream() -> AsyncGenerator[Part, None]:
            async with aclosing(parts):  # what they hold is freed also if the client disconnects
                yield first
                async for more in parts:
                    if not self.is_still_allowed():
                        return
                    yield more

        return stream()

    def is_still_allowed(self) -> bool:
        """Return whether the key has not been revoked meanwhile."""
        return bool(self.request.app.state.key_watch.still_allows(self.request.scope))

    async def look(
        self, session_id: str, answer: Callable[[Reader, SessionRow], dict[str, Any]]
    ) -> dict[str, Any]:
        """Return what `answer` makes of a reader and a session, in a reader thread.

        All its reads see one snapshot.
        """
        return await self.service.query(
            self.tenant, lambda one: answer(one, found_session(one, self.tenant, session_id))
        )


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
    ) -> Callable[[Work], Work]:
        """Declare an endpoint: method and path, type of the answer, and statuses, by default 200.

        Statuses from 400 on are of problems; those that every endpoint has are not repeated. A GET
        needs a reader's key by default, another method a writer's. Without a `summary` the route is
        not in /openapi.json.

        The function takes a `Call`, the parameters of the path and the query, and as `fields`, if
        it has this parameter, what `body` reads. Results are JSON, a pair of JSON and a status that
        is not the first one, None for an empty answer, or a response.
        """
        method, _, path = route.partition(" ")
        least = role if role is not None else self._role
        if least is None:
            least = READER if method == "GET" else WRITER
        NEEDED[method, self.prefix + path] = least
        if body is not None and summary:
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

        def declare(work: Work) -> Work:
            taken = dict(signature(work).parameters)
            del taken[next(iter(taken))]
            reader = body if taken.pop("fields", None) else None

            async def endpoint(request: Request, **arguments: Any) -> Response:
                if reader is not None:
                    arguments["fields"] = reader.read(await request.body())
                scope = request.scope
                actor = Actor(scope["lhb.access"].key_id, scope["lhb.request_id"])
                call = Call(request, service_of(request), scope["lhb.tenant"], actor)
                made = await work(call, **arguments)
                if isinstance(made, Response):
                    return made
                body, status = made if isinstance(made, tuple) else (made, answered[0])
                return Response(status_code=status) if body is None else json_response(body, status)

            described(endpoint, work, [REQUEST, *taken.values()])
            about = {"summary": summary or None, "include_in_schema": bool(summary), **more}
            about |= {"status_code": answered[0], "responses": responses}
            self.add_api_route(path, endpoint, methods=[method], **about)
            return work

        return declare

    def hot(self, route: str, *about: Any, body: BodyParser[Any]) -> Callable[[Handler], Handler]:
        """Declare a POST by the handler by which the middleware serves it (`find_handler`)."""

        def declare(handler: Handler) -> Handler:
            async def endpoint(call: Call, session_id: str = "") -> Response:
                content = await call.request.body()
                status, answer = await handler(call.service, call.tenant, session_id, content)
                return Response(answer, status, media_type="application/json")

            self.serve(route, *about, body=body)(described(endpoint, handler, self._path(route)))
            return handler

        return declare

    def read(
        self, path: str, summary: str, answer: Any, before: Before | None = None
    ) -> Callable[[Work], Work]:
        """Declare a GET by a function, which runs as `answer` of `Call.look` does.

        The function takes a reader, the path's session, else the tenant, and parameters of the path
        and the query; `before` runs first.
        """
        of_path = self._path(path)

        def declare(work: Work) -> Work:
            async def endpoint(call: Call, session_id: str = "", **query: Any) -> dict[str, Any]:
                if before is not None:
                    await before(call.service, (call.tenant, session_id))
                answer = partial(work, **query)
                if of_path[1:]:
                    return await call.look(session_id, answer)
                return await call.service.query(call.tenant, lambda one: answer(one, call.tenant))

            own = [*signature(work).parameters.values()][2:]
            self.serve(f"GET {path}", summary, answer)(described(endpoint, work, [*of_path, *own]))
            return work

        return declare

    def _path(self, path: str) -> list[Parameter]:
        """Return the parameters of an endpoint of a call: itself, and a session's id in a path."""
        has_id = "{session_id}" in self.prefix + path
        return [CALL, SESSION_ID] if has_id else [CALL]


def described(endpoint: Any, work: Callable[..., Any], taken: list[Parameter]) -> Any:
    """Give a function these parameters, and the name and the description of another one."""
    endpoint.__signature__ = Signature(taken, return_annotation=Response)
    endpoint.__name__, endpoint.__doc__ = work.__name__, work.__doc__
    return endpoint


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
