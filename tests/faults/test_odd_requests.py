"""Requests that nobody meant so: many alike at once, and texts that are hard to say."""

import json
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import httpx

from tests.faults.server_process import Server
from tests.faults.test_disk import ARMS, create

N = 20
HALF = "\ud800"  # of a pair of surrogates
NDJSON = {"content-type": "application/x-ndjson"}


def exported(client: httpx.Client) -> bytes:
    session = create(client)
    assert client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS}).is_success
    return client.get(f"/v1/sessions/{session}/events").content


def imported_at_once(server: Server, file: bytes, names: list[str | None]) -> list[httpx.Response]:
    with ThreadPoolExecutor(len(names)) as pool, server.client() as client:

        def post(name: str | None) -> httpx.Response:
            query = {} if name is None else {"name": name}
            return client.post("/v1/sessions/import", params=query, content=file, headers=NDJSON)

        return list(pool.map(post, names))


def test_imports_at_once_make_a_session_each(database_url: str) -> None:
    with Server(database_url) as server, server.client() as client:
        file = exported(client)
        for names in ([None] * N, [f"name {i}" for i in range(N)]):
            answers = imported_at_once(server, file, names)
            assert [answer.status_code for answer in answers] == [201] * N
            assert len({answer.json()["id"] for answer in answers}) == N
        answers = imported_at_once(server, file, ["one name"] * N)  # a repeat is safe
        assert sorted(answer.status_code for answer in answers) == [200] * (N - 1) + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert len(client.get("/v1/sessions?limit=1000").json()["items"]) == 2 * N + 2


def resealed(lines: list[bytes]) -> bytes:
    """A file of these lines and the end that fits them."""
    digest = blake2b(b"".join(lines), digest_size=16).hexdigest()
    end = {"record": "end", "count": len(lines), "digest": digest}
    return b"".join([*lines, json.dumps(end).encode() + b"\n"])


def test_half_a_character_in_an_import_is_refused(tmp_path: Path) -> None:
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        lines = exported(client).splitlines(keepends=True)[:-1]
        i = next(i for i, line in enumerate(lines) if b'"decision"' in line)
        for spoilt in (
            {"record": HALF},
            {"client_event_id": HALF},
            {"trajectory": HALF},
            {HALF: 1},
        ):
            line = json.dumps({**json.loads(lines[i]), **spoilt}).encode() + b"\n"
            file = resealed([*lines[:i], line, *lines[i + 1 :]])
            answer = imported_at_once(server, file, [None])[0]
            assert (answer.status_code, answer.json()["code"]) == (422, "bad_import"), answer.text
            assert f"line {i + 1}" in answer.json()["detail"]


def test_a_decision_is_read_back_by_any_event_id(tmp_path: Path) -> None:
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        path = f"/v1/sessions/{create(client)}/decisions"
        for event_id in ("a\nb", "a\n", "\n", "a\r\n", "a/b", "a b?c#d%", "\u2028é😀"):
            made = client.post(path, json={"contexts": ARMS, "event_id": event_id})
            assert made.status_code == 201
            read = client.get(f"{path}/{quote(event_id, safe='')}")
            assert (read.status_code, read.json()) == (200, made.json()), event_id
