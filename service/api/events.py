"""Export of a whole session as NDJSON, and import of such a file into a new session."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from itertools import islice
from pathlib import Path

from fastapi import APIRouter, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from service.api.documentation import documented
from service.api.response_types import SessionAnswer
from service.api.sessions import (
    found_session,
    json_response,
    session_answer,
    written_session,
)
from service.field_types import NO_ZERO_BYTE
from service.problems import Problem, ProblemCode
from service.runtime import Service, service_of, tenant_of
from service.storage.ports import MOST_EXPORTS
from service.transfer.import_session import ImportSession, check_import
from service.transfer.ndjson import export_session

router = APIRouter(tags=["sessions"])
NDJSON = "application/x-ndjson"
N_LINES, N_BYTES = 500, 2**20  # of a chunk of an export, about


class Ndjson(StreamingResponse):
    """A streaming response with the media type that the OpenAPI schema shows for an export."""

    media_type = NDJSON


@router.get(
    "/v1/sessions/{session_id}/events",
    summary="The session whole, as NDJSON",
    response_class=Ndjson,
    responses=documented({}, 404),
)
async def get_events(session_id: str, request: Request) -> Response:
    """Send a header line, all records, and an end line with their number and digest.

    All lines come from one snapshot of the database.
    """
    service, tenant = service_of(request), tenant_of(request)
    lines = _lines(service, tenant, session_id)
    first = await anext(lines)  # an unknown session is a 404, not a broken stream

    async def stream() -> AsyncGenerator[bytes, None]:
        async with aclosing(lines):  # closes the snapshot also if the client disconnects
            yield first
            async for more in lines:
                yield more

    return Download(stream(), service.settings.body_timeout_seconds)


class Download(Ndjson):
    """An export that disconnects a client which takes longer than `seconds` to read a chunk.

    While a reader holds its snapshot, SQLite cannot restart the write-ahead log, which grows with
    every commit.
    """

    def __init__(self, content: AsyncGenerator[bytes, None], seconds: float) -> None:
        super().__init__(content)
        self._content, self._seconds = content, seconds

    async def stream_response(self, send: Send) -> None:
        """Send the chunks; disconnect if one is not read in time."""

        async def in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._seconds):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        async with aclosing(self._content):
            await super().stream_response(in_time)


async def _lines(service: Service, tenant: str, session_id: str) -> AsyncGenerator[bytes, None]:
    context = service.store.reader()
    with _counted(service):
        reader = await service.read(context.__enter__)
        try:
            session = await service.read(lambda: found_session(reader, tenant, session_id))
            lines = export_session(reader, session)
            while chunk := await service.read(lambda: _some(lines)):
                yield chunk
        finally:
            await service.read(lambda: context.__exit__(None, None, None))


@contextmanager
def _counted(service: Service) -> Iterator[None]:
    if service.n_exports >= MOST_EXPORTS:
        detail = f"{MOST_EXPORTS} exports are under way, and there are no more at once"
        raise Problem(ProblemCode.TOO_MANY_EXPORTS, detail, retry_after=5)
    service.n_exports += 1
    try:
        yield
    finally:
        service.n_exports -= 1


def _some(lines: Iterator[bytes]) -> bytes:
    chunk, size = [], 0
    for line in islice(lines, N_LINES):
        chunk.append(line)
        size += len(line)
        if size > N_BYTES:
            break
    return b"".join(chunk)


@router.post(
    "/v1/sessions/import",
    status_code=201,
    summary="A new session from a session's events",
    responses=documented({201: SessionAnswer, 200: SessionAnswer}, 409),
    openapi_extra={
        "requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}
    },
)
async def post_import(
    request: Request,
    name: str | None = Query(None, min_length=1, max_length=256, pattern=NO_ZERO_BYTE),
) -> Response:
    """Create a session with the rounds, estimates and schedule of the exported one.

    With a name a retry is safe: the same file under the same name gets the session that it created
    before (200). Without a name every import creates another session.
    """
    service, tenant = service_of(request), tenant_of(request)
    with tempfile.NamedTemporaryFile(prefix="lhb-import-") as file:
        async for chunk in request.stream():
            file.write(chunk)
        file.flush()
        path = Path(file.name)
        oracles = service.settings.allow_oracles

        def check() -> ImportSession:
            command = check_import(lambda: path.open("rb"), tenant, name, oracles)
            session_answer(command.session, "none")  # a session that cannot be shown fails here
            return command

        session, is_new = await service.writer.submit(await service.read(check))
    location = f"/v1/sessions/{session.id}"
    answer = await written_session(service, session)
    return json_response(answer, 201 if is_new else 200, location=location)
