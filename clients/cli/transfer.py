"""`lhb export` and `lhb import`: a session's events, by a server or from the database itself."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx

from clients.sdk.wire import authorization

TIMEOUT = httpx.Timeout(600.0, connect=10.0)


class TransferError(RuntimeError):
    """The session was not moved; the message says why, and what to do."""


def export_to(session: str, target: BinaryIO, url: str | None, *, move: bool) -> None:
    """Write a session's events; with `move`, archive the session once they are written."""
    if url is None:
        _export_here(session, target, move)
        return
    with httpx.Client(base_url=url, headers=authorization(), timeout=TIMEOUT) as client:
        if move:  # first, so that nothing is decided after the events were read
            _archive(client, session)
        with client.stream("GET", f"/v1/sessions/{session}/events") as answer:
            if answer.status_code != 200:
                answer.read()
                raise TransferError(_reason(answer))
            for chunk in answer.iter_bytes():
                target.write(chunk)
    target.flush()


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it is whole; a device or pipe is written as it is.

    An export that fails does not cost the one that is there.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as target:
            yield target
        return
    path = path.resolve()
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as target:
            yield target
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def import_from(source: BinaryIO, url: str | None, name: str | None) -> str:
    """The id of the new session that `source` describes."""
    if url is None:
        return _import_here(source, name)
    parameters = {} if name is None else {"name": name}
    with httpx.Client(base_url=url, headers=authorization(), timeout=TIMEOUT) as client:
        answer = client.post("/v1/sessions/import", params=parameters, content=_chunks(source))
    if answer.status_code not in (200, 201):
        raise TransferError(_reason(answer))
    return str(answer.json()["id"])


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(2**20):
        yield chunk


def _archive(client: httpx.Client, session: str) -> None:
    answer = client.patch(f"/v1/sessions/{session}", json={"archived": True})
    if answer.status_code != 200:
        raise TransferError(_reason(answer))


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError):
        return f"the server answered {answer.status_code}"


def _export_here(session: str, target: BinaryIO, move: bool) -> None:
    from service.settings import Settings
    from service.storage.database_url import open_reader
    from service.transfer.ndjson import export_session
    from service.without_server import archive, find

    url = Settings().database_url
    if move:
        archive(url, session)
    with open_reader(url) as reader:
        for line in export_session(reader, find(reader, session)):
            target.write(line)
    target.flush()


def _import_here(source: BinaryIO, name: str | None) -> str:
    import tempfile

    from service.settings import Settings
    from service.without_server import import_file

    with tempfile.NamedTemporaryFile(prefix="lhb-import-") as file:
        for chunk in _chunks(source):
            file.write(chunk)
        file.flush()
        return import_file(Settings(), Path(file.name), name)


def binary_stdin() -> BinaryIO:
    """Standard input as bytes."""
    return sys.stdin.buffer
