"""GET /v1/sessions/{id}/changes: server-sent events, one whenever the session has changed."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from service.agent_cache import deciding
from service.api.documentation import documented
from service.api.sessions import found_session, session_answer
from service.problems import Problem, ProblemCode
from service.runtime import Service, service_of, tenant_of

router = APIRouter(tags=["sessions"])
STREAM_SECONDS = 25  # of one answer; below the time that a server takes to stop
LOOK_SECONDS = 1.0
MOST_STREAMS = 50  # of one process
EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
EVENTS = {"text/event-stream": {"schema": EVENT}}


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


@router.get(
    "/v1/sessions/{session_id}/changes",
    summary="Server-sent events of a session's changes",
    response_class=Response,
    responses={**documented({}, 404), 200: {"description": "Events", "content": EVENTS}},
)
async def get_changes(session_id: str, request: Request) -> Response:
    """Send the session now, and again within a second of every change, for 25 seconds.

    Each event's data is what `GET /v1/sessions/{session_id}` answers. A reader connects again when
    the stream has ended.
    """
    service, tenant = service_of(request), tenant_of(request)
    first = await service.read(lambda: _read(service, tenant, session_id))
    if service.n_streams >= MOST_STREAMS:  # after the read, during which others may have begun
        detail = f"{MOST_STREAMS} streams are open, and there are no more at once"
        raise Problem(ProblemCode.TOO_MANY_STREAMS, detail, retry_after=5)
    return EventStream(_events(service, tenant, session_id, first))


def _read(service: Service, tenant: str, session_id: str) -> dict[str, Any]:
    with service.store.reader() as reader:
        session = found_session(reader, tenant, session_id)
        return session_answer(session, deciding(reader, session))


async def _events(
    service: Service, tenant: str, session_id: str, answer: dict[str, Any]
) -> AsyncIterator[str]:
    service.n_streams += 1
    try:
        yield _event(answer)
        for _ in range(round(STREAM_SECONDS / LOOK_SECONDS)):
            await asyncio.sleep(LOOK_SECONDS)
            try:
                now = await service.read(lambda: _read(service, tenant, session_id))
            except Problem:
                return  # deleted
            if now != answer:
                answer = now
                yield _event(answer)
    finally:
        service.n_streams -= 1


def _event(answer: dict[str, Any]) -> str:
    return f"data: {json.dumps(answer)}\n\n"
