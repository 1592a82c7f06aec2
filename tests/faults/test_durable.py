"""A kill leaves the page cache alive, so this looks at the system calls: the log is synced after
it was written and before the answer leaves."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.faults.server_process import RawConnection, Server
from tests.faults.traced import Traced

TRACE = "pwrite64,pwritev,fdatasync,fsync,write,writev,sendto,sendmsg,openat"
CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")


def in_order(trace: str) -> list[tuple[str, str]]:
    """System calls in the order in which they returned, with their arguments."""
    begun: dict[tuple[str, str], str] = {}
    calls = []
    for line in trace.splitlines():
        if resumed := RESUMED.match(line):
            thread, name, rest = resumed.groups()
            calls.append((name, begun.pop((thread, name), "") + rest))
        elif call := CALL.match(line):
            thread, name, rest = call.groups()
            if rest.endswith("<unfinished ...>"):
                begun[thread, name] = rest
            else:
                calls.append((name, rest))
    return calls


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_every_answer_leaves_after_the_sync_that_covers_it(tmp_path: Path) -> None:
    log = tmp_path / "trace"
    n_clients, n_rounds = 6, 8
    with Server(tmp_path / "lhb.db") as server:
        with server.client() as client:
            body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
            session = client.post("/v1/sessions", json=body).json()["id"]

        async def play(name: str) -> None:
            connection = await RawConnection(server.url).open()
            for i in range(n_rounds):
                body = {"contexts": [[1.0, 2.0], [3.0, 4.0]], "event_id": f"<{name}{i}>"}
                path = f"/v1/sessions/{session}/decisions"
                status, _ = await connection.post(path, body)
                assert status == 201
            connection.close()

        async def play_all() -> None:
            await asyncio.gather(*(play(f"client{i}-") for i in range(n_clients)))

        assert server.process is not None
        with Traced(server.process.pid, log, "-s", "200000", "-e", f"trace={TRACE}"):
            asyncio.run(play_all())
    calls = in_order(log.read_text(errors="replace"))
    for i in range(n_clients):
        for k in range(n_rounds):
            assert_synced_in_between(calls, f"<client{i}-{k}>")


def assert_synced_in_between(calls: list[tuple[str, str]], event: str) -> None:
    is_log = "lhb.db-wal"
    written = next(
        i
        for i, (name, args) in enumerate(calls)
        if name.startswith("pwrite") and is_log in args and event in args
    )
    answered = next(
        i
        for i, (name, args) in enumerate(calls)
        if name in ("write", "writev", "sendto", "sendmsg") and event in args
    )
    synced = [
        i
        for i, (name, args) in enumerate(calls)
        if name in ("fsync", "fdatasync") and is_log in args and args.rstrip().endswith("= 0")
    ]
    assert written < answered
    assert any(written < i < answered for i in synced), event
