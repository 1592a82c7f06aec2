"""GET /v1/sessions/{id}/changes: server-sent events, one whenever the session has changed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from fastapi import Request, Response
from starlette.responses import StreamingResponse

from service.api.routes import SESSION, Routes, found_session
from service.api.runtime import Service, is_still_allowed, service_of, tenant_of
from service.api.sessions import session_answer
from service.base.problems import Problem
from service.rounds.deciding import deciding
from service.storage.reader import Reader

router = Routes(SESSION, tags=["sessions"])
EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
EVENTS = {"text/event-stream": {"schema": EVENT}}


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


@router.serve(
    "GET /changes",
    "Server-sent events of a session's changes",
    {"description": "Events", "content": EVENTS},
    response_class=Response,
)
async def get_changes(session_id: str, request: Request) -> Response:
    """Send the session now, and again within a second of every change, for 25 seconds.

    Each event's data is what `GET /v1/sessions/{session_id}` answers. A reader connects again when
    the stream has ended. It ends within seconds when the key is revoked.
    """
    service, tenant = service_of(request), tenant_of(request)
    events = _events(service, tenant, session_id, lambda: is_still_allowed(request))
    first = await anext(events)  # an unknown session is a 404, not a broken stream

    async def stream() -> AsyncGenerator[str, None]:
        async with aclosing(events):  # frees the place also if the client disconnects
            yield first
            async for more in events:
                yield more

    return EventStream(stream())


async def _events(
    service: Service, tenant: str, session_id: str, is_allowed: Callable[[], bool]
) -> AsyncGenerator[str, None]:
    def read(reader: Reader) -> dict[str, Any]:
        session = found_session(reader, tenant, session_id)
        return session_answer(session, deciding(reader, session))

    with service.streams.take(tenant):
        answer, every = None, service.intervals.changes
        for _ in range(round(service.intervals.stream / every)):
            try:
                now = await service.query(tenant, read)
            except Problem:
                if answer is None:
                    raise
                return  # deleted
            if now != answer:
                answer = now
                yield f"data: {json.dumps(answer)}\n\n"
            await asyncio.sleep(every)
            if not is_allowed():
                return
