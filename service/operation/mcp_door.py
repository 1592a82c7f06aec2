"""`/mcp`: calls of the service as tools of the Model Context Protocol, by its official SDK.

A tool is one request to this server with the caller's own key: roles, limits, tenants and the audit
log are those of its route. A reader's key sees tools that read, a writer's key all of them; while a
server has no keys, tools only read.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.access import EVERYBODY, WRITER

INSTRUCTIONS = (
    "Sessions learn which arm to show from rewards that come late and mixed. Begin with "
    "`sessions`; `estimate` says what a session has learned, and its findings what to do."
)
Rows = list[list[float]] | list[dict[str, float | str]]
Answer = dict[str, Any]
Tools = list[Callable[..., Any]]


class Door:
    """The ASGI endpoint, in front of an application that it asks by HTTP's own calls."""

    def __init__(self, app: ASGIApp) -> None:
        inside = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=inside, base_url="http://127.0.0.1")
        reads: Tools = [self.sessions, self.session, self.estimate]
        reads += [self.trajectory, self.credit, self.credit_by_feature, self.lift, self.explain]
        writes: Tools = [self.create_session, self.decide, self.reward, self.append_history]
        self._reading = _manager(reads)
        self._writing = _manager([*reads, *writes])

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

    async def create_session(
        self,
        ctx: Context[Any],
        name: str,
        dim: int,
        horizon: int,
        settings: dict[str, Any] | None = None,
    ) -> Answer:
        """Create a session, or find the one of this name: `dim` numbers an arm, `horizon` lags.

        `settings` are the other members of the body of POST /v1/sessions.
        """
        body = {**(settings or {}), "name": name, "dim": dim, "horizon": horizon}
        return await self._ask(ctx, "POST", json=body)

    async def decide(
        self, ctx: Context[Any], session: str, contexts: Rows, event_id: str, trajectory: str = ""
    ) -> Answer:
        """Choose one of the arms, a row of contexts each; the same event_id is one decision."""
        body = {"contexts": contexts, "event_id": event_id, "trajectory": trajectory or None}
        return await self._ask(ctx, "POST", session, "decisions", json=body)

    async def reward(
        self, ctx: Context[Any], session: str, value: float, round: int, trajectory: str = ""
    ) -> Answer:
        """Store the number that was measured for a round."""
        body = {"value": value, "round": round, "trajectory": trajectory or None}
        return await self._ask(ctx, "POST", session, "rewards", json=body)

    async def append_history(
        self,
        ctx: Context[Any],
        session: str,
        contexts: Rows,
        rewards: list[float | None],
        import_id: str,
        trajectory: str = "",
    ) -> Answer:
        """Append logged rounds, the chosen context of each and its reward; an import_id once."""
        body = {"contexts": contexts, "rewards": rewards, "import_id": import_id}
        body["trajectory"] = trajectory or None  # type: ignore[assignment]
        return await self._ask(ctx, "POST", session, "history", json=body)

    async def _ask(self, ctx: Context[Any], method: str, *below: str, **body: Any) -> Answer:
        """Ask what is `below` sessions with the caller's key; a refusal is the tool's error."""
        key = (ctx.headers or {}).get("authorization")
        headers = {} if key is None else {"authorization": key}
        for part in below:
            if part in ("", ".", ".."):  # steps of a path, which would lead elsewhere
                raise ToolError(f"unknown_session: nothing has the name {part!r}")
        url = "/".join(["/v1/sessions", *(quote(part, safe="") for part in below)])
        answer = await self._client.request(method, url, headers=headers, timeout=60, **body)
        content: Answer = answer.json()
        if answer.is_error:
            raise ToolError(f"{content['code']}: {content['detail']}")
        return content


def _manager(tools: Tools) -> StreamableHTTPSessionManager:
    handlers = logging.root.handlers.copy()
    server = MCPServer("long-horizon-bandits", instructions=INSTRUCTIONS, log_level="WARNING")
    logging.root.handlers[:] = handlers  # without its own, whose lines are no JSON and say it all
    for tool in tools:
        server.add_tool(tool)
    return StreamableHTTPSessionManager(server._lowlevel_server, json_response=True, stateless=True)
