"""Export of a whole session as NDJSON, and import of such a file into a new session."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Any

from fastapi import Query, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from service.api.body_parsing import COPY
from service.api.routes import Call, Routes, found_session
from service.api.sessions import SessionAnswer, session_answer, written_session
from service.base.field_types import NO_STEP
from service.commands.sessions import refuse_id_as_name
from service.fits.cost import allowed_cost
from service.session.records import SessionRow
from service.storage.reader import Reader
from service.storage.spool import full_said
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.file_format import export_session
from service.transfer.import_file import import_session, prepare_import

router = Routes("/v1/sessions", tags=["sessions"])
LinesOf = Callable[[Reader, SessionRow], Iterator[bytes]]  # of a file about a session
NDJSON = "application/x-ndjson"
CHUNK_LINES, CHUNK_BYTES = 500, 2**20  # of a chunk of an export, about


class Download(StreamingResponse):
    """An export that disconnects a client which takes longer than `seconds` to read a chunk.

    While a reader holds its snapshot, SQLite cannot restart the write-ahead log, which grows with
    every commit.
    """

    media_type = NDJSON  # which the OpenAPI schema shows

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


@router.serve(
    "GET /{session_id}/events", "Export a session as NDJSON", None, 200, response_class=Download
)
async def get_events(call: Call, session_id: str) -> Response:
    """Send a header line, all records, and an end line with their number and digest.

    All lines come from one snapshot of the database.
    """
    # one that a revoked key ends has no end line, and so is known to be cut off
    chunks = await call.stream(_export_chunks(call, session_id, export_session))
    return Download(chunks, call.service.settings.body_timeout_seconds)


async def _export_chunks(
    call: Call, session_id: str, lines_of: LinesOf
) -> AsyncGenerator[bytes, None]:
    service, tenant = call.service, call.tenant
    context = service.store.reader()
    with service.exports.take(tenant):
        reader = await service.read(context.__enter__)
        try:
            chunks = await service.read_for(
                tenant, lambda: lines_of(reader, found_session(reader, tenant, session_id))
            )
            while chunk := await service.read_for(tenant, lambda: _next_chunk(chunks)):
                yield chunk
        finally:
            await service.read(lambda: context.__exit__(None, None, None))


def _next_chunk(lines: Iterator[bytes]) -> bytes:
    chunk, size = [], 0
    for line in islice(lines, CHUNK_LINES):
        chunk.append(line)
        size += len(line)
        if size > CHUNK_BYTES:
            break
    return b"".join(chunk)


@router.serve(
    "POST /import",
    "Import an exported session",
    SessionAnswer,
    201,
    200,
    409,
    openapi_extra={
        "requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}
    },
)
async def post_import(
    call: Call, name: str | None = Query(None, min_length=1, max_length=256, pattern=f"^{NO_STEP}$")
) -> Response:
    """Create a session with the rounds, estimates and schedule of the exported one.

    With a name a retry is safe: the same file under the same name gets the session that it created
    before (200). Without a name every import creates another session.
    """
    return await _imported(call, call.request.stream(), name)


async def _imported(
    call: Call, chunks: AsyncIterable[bytes], name: str | None, mark: blake2b | None = None
) -> Response:
    """Write the chunks of a file to disk, check it, write its session, and answer with that.

    A copy has the `mark` of what was asked, which is complete with the last chunk.
    """
    service, tenant = call.service, call.tenant
    with service.spool.files(tenant) as files:
        with files.opened() as write:
            async for chunk in chunks:
                write(chunk)
        arguments = (files.path, files.rows, tenant, name, service.settings.allow_oracles)
        async with service.imports.hold(tenant):
            n_bytes = files.n_bytes
            files.take(n_bytes)  # its rows are written beside it, and take about as much
            with full_said():
                if n_bytes > service.parsed_here_bytes:
                    prepared = await service.parsing.run_long(prepare_import, *arguments)
                else:
                    prepared = await service.read(lambda: prepare_import(*arguments))
        session_answer(prepared.session, "none")  # a session that cannot be shown fails here
        if mark is not None:
            prepared = replace(prepared, mark=mark.hexdigest())
        async with service.imports.hold(tenant):
            work = import_session(prepared, service.abandon, call.actor, service.limits)
            session, is_new = await service.slices.run(work)
        return await written_session(service, session, 201 if is_new else 200)


@router.serve(
    "POST /{session_id}/copy",
    "Copy a session with other settings",
    SessionAnswer,
    201,
    200,
    409,
    body=COPY,
)
async def post_copy(call: Call, session_id: str, fields: dict[str, Any]) -> Response:
    """Make a session with this one's rounds and rewards, and other settings where they are given.

    A copy has no estimate: a fit of all rounds is due at once. Decisions that were taken keep their
    event ids and contexts, and count as forced. With a name a retry is safe: the same body gets the
    copy that it made before (200), whatever its source has taken since.
    """
    service, name = call.service, fields.get("name")
    now = service.writer.clock()
    if name is not None:
        refuse_id_as_name(name)
    mark = blake2b(digest_size=6)

    def lines_of(reader: Reader, source: SessionRow) -> Iterator[bytes]:
        mark.update(json.dumps([source.id, fields], sort_keys=True).encode())
        cost = allowed_cost(service.settings)
        copy, agent = copied_session(source, fields, service.settings.allow_oracles, cost, now)
        return copy_session(reader, source, copy, agent)

    async with aclosing(_export_chunks(call, session_id, lines_of)) as chunks:
        return await _imported(call, chunks, name, mark)
