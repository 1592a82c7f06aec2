"""A session whole, out and in again: it goes on as if nothing had happened."""

import asyncio
import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest

from service.storage.transactions import MAX_EXPORTS
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem, until

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.25], [-0.5, 1.0], [0.25, -1.0]]


async def play(client: Client, session: str, first: int, last: int) -> list[Any]:
    """Rounds with a reward each but every seventh; the answers without the server's own words."""
    answers = []
    for round in range(first, last + 1):
        answer = await client.decide(session, ARMS, event_id=f"e{round}")
        answers.append(answer)
        if round % 7:
            value = ARMS[answer["arm"]][0] + 0.01 * round
            await client.reward(session, value=value, round=round)
    return answers


async def settled(client: Client, session: str) -> bool:
    return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]


async def test_an_imported_session_goes_on_where_the_other_one_was(serve: Serve) -> None:
    async with serve() as client:
        whole, half = [
            await client.create(algorithm="ad_lasso", refit="blocking", name=name)
            for name in ("whole", "half")
        ]
        await play(client, whole, 1, 40)
        await play(client, half, 1, 40)
        await until(lambda: settled(client, half))
        exported = await client.get(f"/v1/sessions/{half}/events")
        assert exported.headers["content-type"].startswith("application/x-ndjson")
        answer = await client.post("/v1/sessions/import?name=copy", content=exported.content)
        assert answer.status_code == 201, answer.text
        copy = answer.json()["id"]
        assert await play(client, copy, 41, 70) == await play(client, whole, 41, 70)
        for page in ("rounds?limit=1000", "decisions/e3", "epochs"):
            theirs = await client.read(f"/v1/sessions/{whole}/{page}")
            mine = await client.read(f"/v1/sessions/{copy}/{page}")
            assert without_times(mine) == without_times(theirs)
        # a decision that was taken before is answered as before
        again = await client.decide(copy, ARMS, event_id="e3")
        assert again == await client.read(f"/v1/sessions/{half}/decisions/e3")


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        timed = ("at", "due_at", "overdue_at", "seconds")
        return {k: without_times(v) for k, v in value.items() if k not in timed}
    return [without_times(v) for v in value] if isinstance(value, list) else value


async def test_what_goes_out_comes_back_out_the_same(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="lin_ucb")
        await play(client, session, 1, 10)
        await client.decide(session, ARMS, trajectory="b", arm_ids=["x", "y", "ü"])
        first = (await client.get(f"/v1/sessions/{session}/events")).content.splitlines()
        body = b"\n".join(first) + b"\n"
        answer = await client.post("/v1/sessions/import", content=body)
        copy = answer.json()["id"]
        second = (await client.get(f"/v1/sessions/{copy}/events")).content.splitlines()
        assert second[1:-1] == first[1:-1]
        assert json.loads(first[-1])["count"] == len(first) - 1


def changed(line: int, change: Callable[[dict[str, Any]], Any]) -> Callable[[list[bytes]], Any]:
    def apply(lines: list[bytes]) -> list[bytes]:
        record = json.loads(lines[line])
        change(record)
        return [*lines[:line], json.dumps(record).encode(), *lines[line + 1 :]]

    return apply


BROKEN: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "cut": lambda lines: lines[:-3],
    "no end": lambda lines: lines[:-1],
    "a line less": lambda lines: lines[:3] + lines[4:],
    "a changed number": lambda lines: [line.replace(b"0.25", b"0.26") for line in lines],
    "more after the end": lambda lines: [*lines, lines[1]],
    "another version": changed(0, lambda record: record.update(version=2)),
    "not json": lambda lines: [lines[0], b"{", *lines[2:]],
    "empty": lambda lines: [],
}


@on_one_database
@pytest.mark.parametrize("how", list(BROKEN))
async def test_a_broken_file_is_refused_whole(serve: Serve, how: str) -> None:
    async with serve() as client:
        session = await client.create()
        await play(client, session, 1, 5)
        lines = (await client.get(f"/v1/sessions/{session}/events")).content.splitlines()
        body = b"".join(line + b"\n" for line in BROKEN[how](lines))
        field = "decision.round" if how == "a line less" else "body"
        problem(await client.post("/v1/sessions/import", content=body), 422, "bad_import", field)
        assert len((await client.read("/v1/sessions"))["items"]) == 1


def resealed(records: list[dict[str, Any]]) -> bytes:
    """A file with a right count and digest, whatever is in it."""
    body = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    digest = blake2b(body, digest_size=16).hexdigest()
    end = {"record": "end", "count": len(records), "digest": digest}
    return body + json.dumps(end).encode() + b"\n"


FORGED: list[tuple[str, str, Any]] = [
    ("decision", "context", [1.0]),
    ("decision", "context", [1.0, 1e300]),
    ("decision", "context", "x"),
    ("decision", "round", 7),
    ("decision", "position", 99),
    ("measurement", "trajectory", "nobody"),
    ("decision", "arm", 12),
    ("decision", "extra", 1),
    ("measurement", "value", float("nan")),
    ("measurement", "last_round", 99),
    ("trajectory", "extra", 4),
    ("header", "session", {"dim": 2}),
]


@on_one_database
@pytest.mark.parametrize(("kind", "name", "value"), FORGED)
async def test_a_forged_file_is_refused_whole(
    serve: Serve, kind: str, name: str, value: Any
) -> None:
    async with serve() as client:
        session = await client.create()
        await play(client, session, 1, 5)
        lines = (await client.get(f"/v1/sessions/{session}/events")).content.splitlines()
        records = [json.loads(line) for line in lines[:-1]]
        next(record for record in records if record["record"] == kind)[name] = value
        answer = await client.post("/v1/sessions/import", content=resealed(records))
        problem(answer, 422, "bad_import")
        assert answer.json()["field"].startswith(
            f"{kind}.{'session' if kind == 'header' else name}"
        )
        assert len((await client.read("/v1/sessions"))["items"]) == 1


async def test_names_and_unknown_sessions(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(name="shop")
        exported = (await client.get(f"/v1/sessions/{session}/events")).content
        answer = await client.post("/v1/sessions/import", content=exported)
        problem(answer, 409, "session_conflict", "name")
        problem(await client.get("/v1/sessions/nobody/events"), 404, "unknown_session")


class SlowExport:
    """A client that takes no byte of an export before it is told to go on."""

    def __init__(self, client: Client, session: str, go_on: asyncio.Event) -> None:
        key = client.headers.get("authorization", "").encode()
        self.is_held, self._go_on = asyncio.Event(), go_on
        path = f"/v1/sessions/{session}/events"
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
        scope |= {"http_version": "1.1", "scheme": "http", "query_string": b""}
        scope |= {"headers": [(b"authorization", key)] if key else []}
        scope |= {"asgi": {"version": "3.0", "spec_version": "2.4"}, "root_path": ""}
        scope |= {"client": ("127.0.0.1", 1), "server": ("lhb", 80)}
        self.lines = b""
        app = client._transport.app  # type: ignore[attr-defined]
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            self.is_held.set()
            await self._go_on.wait()
            self.lines += message["body"]


async def test_slow_exports_leave_reading_to_others(serve: Serve) -> None:
    """On PostgreSQL each holds a connection, and there were four for everything that reads."""
    async with serve() as client:
        session = await client.create()
        await play(client, session, 1, 5)
        go_on = asyncio.Event()
        exports = [SlowExport(client, session, go_on) for _ in range(MAX_EXPORTS // 2)]
        for export in exports:
            await asyncio.wait_for(export.is_held.wait(), 60)
        for _ in range(2):
            pages = [client.read("/v1/sessions") for _ in range(8)]
            assert all(len(page["items"]) == 1 for page in await asyncio.gather(*pages))
            answer = await client.get(f"/v1/sessions/{session}/events")
            problem(answer, 503, "too_many_exports")
            assert answer.headers["retry-after"]
        go_on.set()
        await asyncio.gather(*(export.task for export in exports))
        whole = (await client.get(f"/v1/sessions/{session}/events")).content
        assert {export.lines for export in exports} == {whole}
        problem(await client.get("/v1/sessions/nobody/events"), 404, "unknown_session")
