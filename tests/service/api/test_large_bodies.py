"""A large body is parsed by a process, and by the server where no process begins that."""

import errno
import multiprocessing.util
import os
import signal
from typing import Any

import pytest

from service.base.loop_slices import SlicedWork
from service.base.parsing_processes import PARSED_HERE_BYTES, ParsingProcesses
from service.base.problems import Problem
from tests.service.conftest import Client, Serve, until
from tests.service.fits.new_processes import as_served, new_processes  # noqa: F401
from tests.service.kept_processes import freeze

pytestmark = pytest.mark.anyio
LARGE = b" " * (PARSED_HERE_BYTES + 1)


def parser(body: bytes) -> SlicedWork[int]:
    """Return the id of the process that parses."""
    yield
    return os.getpid()


def deadly(body: bytes, server: int) -> SlicedWork[None]:
    """Kill the process that parses, unless the server does."""
    yield
    if os.getpid() != server:
        os.kill(os.getpid(), signal.SIGKILL)


async def process_of(client: Client) -> int:
    """The process that parses a large body, as soon as it is not this one."""

    async def found() -> int:
        return await client.service.parsed("", parser, LARGE) - os.getpid()

    return int(await until(found, 250.0)) + os.getpid()


@as_served
async def test_where_no_process_can_start_the_server_parses(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", refuse)
    async with serve() as client:
        session = await client.create()
        for _ in range(2):
            answer = await client.post(
                f"/v1/sessions/{session}/decisions",
                content=b'{"contexts": [[1, 0], [0, 1]]}' + LARGE,
            )
            assert answer.status_code == 201, answer.text


@pytest.mark.slow
@as_served
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_the_first_large_body_waits_for_a_process(serve: Serve) -> None:
    """Parsed by the server it would stop everybody while processes start."""
    async with serve() as client:
        client.service.parsing = ParsingProcesses(250.0)
        assert await client.service.parsed("", parser, LARGE) != os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_body_that_a_frozen_process_does_not_begin_is_parsed_by_the_server(
    serve: Serve,
) -> None:
    async with serve() as client:
        client.service.parsing = ParsingProcesses(10.0)
        frozen = await process_of(client)
        freeze(client.service.parsing._processes)
        assert await client.service.parsed("", parser, LARGE) == os.getpid()
        assert await process_of(client) != frozen


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_body_of_which_a_process_dies_is_refused(serve: Serve) -> None:
    """Its memory may be why the process died: the server does not parse it."""
    async with serve() as client:
        await process_of(client)
        with pytest.raises(Problem, match="no process could read this body"):
            await client.service.parsed("", deadly, LARGE, os.getpid())
