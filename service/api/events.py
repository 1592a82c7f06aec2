"""A session whole: out as NDJSON, and in again, here or elsewhere."""

import tempfile
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from service.api.documentation import SessionAnswer, documented
from service.api.estimates import found_session
from service.api.sessions import json_response, session_answer
from service.events import export_session
from service.service import Service, service_of, tenant_of
from service.session_import import ImportSession, check_import

router = APIRouter(tags=["sessions"])
NDJSON = "application/x-ndjson"
N_LINES = 500  # read between two turns of the event loop


@router.get(
    "/v1/sessions/{session_id}/events",
    summary="The session whole, as NDJSON",
    responses={200: {"content": {NDJSON: {}}}, **documented({}, 404)},
)
async def get_events(session_id: str, request: Request) -> Response:
    """A header, all records, and an end with count and digest; one consistent moment."""
    service, tenant = service_of(request), tenant_of(request)
    lines = _lines(service, tenant, session_id)
    first = await anext(lines)  # an unknown session is a 404, not a broken stream

    async def stream() -> AsyncIterator[bytes]:
        yield first
        async for more in lines:
            yield more

    return StreamingResponse(stream(), media_type=NDJSON)


async def _lines(service: Service, tenant: str, session_id: str) -> AsyncIterator[bytes]:
    context = service.store.reader()
    reader = await service.read(context.__enter__)
    try:
        session = await service.read(lambda: found_session(reader, tenant, session_id))
        lines = export_session(reader, session)
        while chunk := await service.read(lambda: b"".join(islice(lines, N_LINES))):
            yield chunk
    finally:
        await service.read(lambda: context.__exit__(None, None, None))


@router.post(
    "/v1/sessions/import",
    status_code=201,
    summary="A new session from a session's events",
    responses=documented({201: SessionAnswer}, 409, 422),
    openapi_extra={
        "requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}
    },
)
async def post_import(
    request: Request, name: str | None = Query(None, min_length=1, max_length=256)
) -> Response:
    """It goes on where the exported one was: rounds, estimates, and what is due."""
    service = service_of(request)
    with tempfile.NamedTemporaryFile(prefix="lhb-import-") as file:
        async for chunk in request.stream():
            file.write(chunk)
        file.flush()
        path = Path(file.name)

        def check() -> None:
            check_import(lambda: path.open("rb"))

        await service.read(check)
        command = ImportSession(
            tenant_of(request), lambda: path.open("rb"), name, service.settings.allow_oracles
        )
        session = await service.writer.submit(command)
    location = f"/v1/sessions/{session.id}"
    return json_response(session_answer(session), 201, location=location)
