"""Without keys no web page can use the server: not from another site, not by DNS rebinding."""

from collections.abc import AsyncIterator

import pytest

from service.base.problems import Problem
from service.base.server_settings import Settings
from service.operation.server import server_config
from service.web.cross_site import CrossSiteCheck
from service.web.middleware import Middleware
from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio
BODY = b'{"dim": 2, "horizon": 4}'


@on_one_database
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
        ({"host": "wpad:8080"}, 403, "foreign_host"),  # a name without a dot, of the local network
        ({"host": "192.0.2.1"}, 403, "foreign_host"),
        ({"host": "[2001:db8::1]:8080"}, 403, "foreign_host"),
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
@on_one_database
async def test_what_its_own_clients_send(serve: Serve, headers: dict[str, str]) -> None:
    async with serve(allowed_hosts="a.example, Bandits.example.org") as client:
        answer = await client.post("/v1/sessions", content=BODY, headers=headers)
        assert answer.status_code == 201
    async with serve(allowed_hosts="*") as client:
        anywhere = {"host": "any.example"}
        assert (await client.get("/healthz", headers=anywhere)).status_code == 200


async def test_a_body_without_a_content_type_is_refused(serve: Serve) -> None:
    """A page may send one to any site: a form's file, or a `Blob` without a type."""

    async def in_chunks() -> AsyncIterator[bytes]:
        yield BODY

    async with serve() as client:
        for content in (BODY, in_chunks()):
            none = {"content-type": ""}
            answer = await client.post("/v1/sessions", content=content, headers=none)
            problem(answer, 415, "unsupported_media_type")
        session = await client.create()  # no body, no type
        assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204


@pytest.mark.parametrize(
    ("host", "server", "status"),
    [
        ("10.0.0.7:8080", "10.0.0.7", 200),
        ("10.0.0.7:8080", "::ffff:10.0.0.7", 200),
        ("10.0.0.8:8080", "10.0.0.7", 403),
        ("127.0.0.1:8080", "10.0.0.7", 200),  # a container's published port
        ("localhost:8080", "10.0.0.7", 200),
        ("lhb:8080", "10.0.0.7", 403),
    ],
)
async def test_the_address_of_the_connection_is_ours(host: str, server: str, status: int) -> None:
    protection = CrossSiteCheck("")
    headers, scope = {b"host": host.encode()}, {"server": (server, 8080)}
    if status == 200:
        protection.check(headers, scope)
    else:
        with pytest.raises(Problem) as raised:
            protection.check(headers, scope)
        assert raised.value.code == "foreign_host"


def test_the_name_that_the_server_listens_on_is_ours() -> None:
    made = server_config("Shop.Example", 8080, Settings(database_url="sqlite:///never-opened.db"))
    middleware = made.app
    assert isinstance(middleware, Middleware)
    scope = {"server": ("10.0.0.7", 8080)}
    middleware.cross_site.check({b"host": b"shop.example:8080"}, scope)
    with pytest.raises(Problem, match="LHB_ALLOWED_HOSTS"):
        middleware.cross_site.check({b"host": b"other.example:8080"}, scope)
