"""`/mcp`: calls of the service as tools of the Model Context Protocol, by its official SDK.

A tool is one request to this server with the caller's own key: roles, limits, tenants and the audit
log are those of its route. A reader's key sees tools that read, a writer's key all of them; while a
server has no keys, tools only read.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Annotated, Any, Required, get_args, get_origin, get_type_hints
from urllib.parse import quote

import httpx
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import ToolAnnotations
from pydantic import Field
from pydantic_core import to_json
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.access import EVERYBODY, WRITER
from service.api.request_bodies import DecisionBody, HistoryBody, RewardsBody, SessionBody
from service.base.server_settings import DISTRIBUTION

INSTRUCTIONS = (
    "Sessions learn which arm to show from rewards that come late and mixed. Begin with "
    "`sessions`; `estimate` says what a session has learned, and its findings what to do."
)
Answer = dict[str, Any]
Tools = list[Callable[..., Any]]


class Door:
    """The ASGI endpoint, in front of an application that it asks by HTTP's own calls."""

    def __init__(self, app: ASGIApp) -> None:
        inside = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=inside, base_url="http://127.0.0.1")
        reads: Tools = [self.sessions, self.session, self.estimate]
        reads += [self.trajectory, self.credit, self.credit_by_feature, self.lift, self.explain]
        create = (
            "Create a session, or find the one of this name: `dim` numbers an arm, `horizon` lags."
        )
        decide = (
            "Choose one of the arms, a row of contexts each; the same event_id is one decision."
        )
        reward = "Store the number that was measured for a round, or for what else is named."
        append = (
            "Append logged rounds, the chosen context of each and its reward; an import_id once."
        )
        writes: Tools = [
            self._posting("create_session", create, SessionBody, "", "name"),
            self._posting("decide", decide, DecisionBody, "decisions", "event_id"),
            self._posting("reward", reward, RewardsBody, "rewards"),
            self._posting("append_history", append, HistoryBody, "history", "import_id"),
        ]
        self._reading = _manager(reads, [])
        self._writing = _manager(reads, writes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends."""
        async with self._reading.run(), self._writing.run(), self._client:
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one message, with the tools that the caller's key allows."""
        access = scope["lhb.access"]
        writes = access is not EVERYBODY and access.rank >= WRITER
        await (self._writing if writes else self._reading).handle_request(scope, receive, send)

    async def sessions(self, ctx: Context[Any], cursor: str = "") -> Answer:
        """List sessions: what each is, how many rounds it has, and what it decides by."""
        return await self._ask(ctx, "GET", params={"cursor": cursor} if cursor else {})

    async def session(self, ctx: Context[Any], session: str) -> Answer:
        """Read a session, by its name or id: its settings and counters."""
        return await self._ask(ctx, "GET", session)

    async def estimate(self, ctx: Context[Any], session: str) -> Answer:
        """Read what a session has learned: theta, lag weights, intervals, and findings."""
        return await self._ask(ctx, "GET", session, "estimate")

    async def trajectory(self, ctx: Context[Any], session: str, trajectory: str) -> Answer:
        """Read what is known of one trajectory: its own theta and level, beside everybody's."""
        return await self._ask(ctx, "GET", session, "trajectories", trajectory)

    async def credit(self, ctx: Context[Any], session: str, trajectory: str = "") -> Answer:
        """List what each decision has earned so far, and is expected to earn still."""
        params = {"trajectory": trajectory}
        return await self._ask(ctx, "GET", session, "credit", params=params)

    async def credit_by_feature(self, ctx: Context[Any], session: str) -> Answer:
        """Read what each feature earned at once, and what it brought or cost later."""
        return await self._ask(ctx, "GET", session, "credit", "features")

    async def lift(self, ctx: Context[Any], session: str) -> Answer:
        """Read what the agent earns beside its control group, with an interval."""
        return await self._ask(ctx, "GET", session, "lift")

    async def explain(
        self, ctx: Context[Any], session: str, event_id: str, trajectory: str = ""
    ) -> Answer:
        """Read one decision as it was answered: the scores of the arms, and why this one."""
        params = {"trajectory": trajectory}
        return await self._ask(ctx, "GET", session, "decisions", event_id, params=params)

    def _posting(self, name: str, doc: str, body: Any, below: str, *required: str) -> Any:
        """Make a tool that posts a body: its arguments are the body's members as declared there.

        Arguments that are `required` beside the body's own make a repeat the same call.
        """
        kinds = {
            one: _bare(kind) for one, kind in get_type_hints(body, include_extras=True).items()
        }
        must = {*required, *body.__required_keys__}
        every = {"ctx": Context[Any], **({"session": str} if below else {}), **kinds}
        must |= {"ctx", "session"}

        async def tool(ctx: Context[Any], session: str = "", **members: Any) -> Answer:
            path = [session, below] if below else []
            content = {one: value for one, value in members.items() if value is not None}
            typed = {"content-type": "application/json"}
            return await self._ask(ctx, "POST", *path, content=to_json(content), headers=typed)

        tool.__name__, tool.__doc__, tool.__annotations__ = name, doc, {**every, "return": Answer}
        parameters = []
        for one, kind in every.items():
            default = Parameter.empty if one in must else None
            if iskeyword(one):
                one, kind = f"{one}_", Annotated[kind, Field(alias=one)]
            way = Parameter.KEYWORD_ONLY
            parameters.append(Parameter(one, way, default=default, annotation=kind))
        tool.__signature__ = Signature(parameters, return_annotation=Answer)  # type: ignore[attr-defined]
        return tool

    async def _ask(self, ctx: Context[Any], method: str, *below: str, **body: Any) -> Answer:
        """Ask what is `below` sessions with the caller's key; a refusal is the tool's error."""
        key = (ctx.headers or {}).get("authorization")
        headers = body.pop("headers", {}) | ({} if key is None else {"authorization": key})
        for part in below:
            if part in ("", ".", ".."):  # steps of a path, which would lead elsewhere
                raise ToolError(f"unknown_session: nothing has the name {part!r}")
        url = "/".join(["/v1/sessions", *(quote(part, safe="") for part in below)])
        answer = await self._client.request(method, url, headers=headers, timeout=60, **body)
        content: Answer = answer.json()
        if answer.is_error:
            raise ToolError(f"{content['code']}: {content['detail']}")
        return content


def _bare(kind: Any) -> Any:
    """Return a member's type without what says that it is required."""
    if get_origin(kind) is Required:
        return get_args(kind)[0]
    if get_origin(kind) is Annotated:
        return Annotated[(_bare(get_args(kind)[0]), *kind.__metadata__)]
    return kind


def _manager(reads: Tools, writes: Tools) -> StreamableHTTPSessionManager:
    handlers = logging.root.handlers.copy()
    label = version(DISTRIBUTION)
    server = MCPServer(DISTRIBUTION, version=label, instructions=INSTRUCTIONS, log_level="WARNING")
    logging.root.handlers[:] = handlers  # without its own, whose lines are no JSON and say it all
    for tool in reads:
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True))
    for tool in writes:
        server.add_tool(tool, annotations=ToolAnnotations(destructive_hint=False))
    return StreamableHTTPSessionManager(server._lowlevel_server, json_response=True, stateless=True)
