"""Without keys no web page can use the server: not from another site, not by DNS rebinding."""

import pytest

from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio
BODY = b'{"dim": 2, "horizon": 4}'


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"content-type": "text/plain"}, 415, "unsupported_media_type"),
        ({"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
        ({"origin": "http://evil.example"}, 403, "foreign_origin"),
        ({"origin": "null"}, 403, "foreign_origin"),
        ({"origin": "http://localhost:3000", "host": "localhost"}, 403, "foreign_origin"),
        ({"host": "evil.example"}, 403, "foreign_host"),
        ({"host": "evil.example:8080", "origin": "http://evil.example:8080"}, 403, "foreign_host"),
        ({"host": "127.0.0.1.evil.example"}, 403, "foreign_host"),
    ],
)
async def test_what_a_page_of_another_site_sends(
    serve: Serve, headers: dict[str, str], status: int, code: str
) -> None:
    async with serve() as client:
        session = await client.create()
        for method, path, content in (
            ("POST", "/v1/sessions", BODY),
            ("POST", "/v1/batch", b"{}"),
            ("DELETE", f"/v1/sessions/{session}", b""),
        ):
            answer = await client.request(method, path, content=content, headers=headers)
            problem(answer, status, code)
        assert len((await client.read("/v1/sessions"))["items"]) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"},
        {"host": "[::1]:8080"},
        {"host": "LocalHost"},
        {"host": "app.localhost:1"},
        {"host": "bandits.example.org", "content-type": "application/json; charset=utf-8"},
    ],
)
async def test_what_its_own_clients_send(serve: Serve, headers: dict[str, str]) -> None:
    async with serve(allowed_hosts="a.example, Bandits.example.org") as client:
        answer = await client.post("/v1/sessions", content=BODY, headers=headers)
        assert answer.status_code == 201
    async with serve(allowed_hosts="*") as client:
        anywhere = {"host": "any.example"}
        assert (await client.get("/healthz", headers=anywhere)).status_code == 200
