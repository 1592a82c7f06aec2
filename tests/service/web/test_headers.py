"""What browsers are told: no answer is a page, is kept, or is read by a page of another site."""

import gzip

import pytest

from tests.service.conftest import Serve

pytestmark = pytest.mark.anyio
ORIGIN = {"origin": "https://other.example"}


async def test_answers_are_data_and_are_not_kept(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        body = {"contexts": [[1.0, 0.0]]}
        answers = [
            await client.get("/v1/sessions"),
            await client.post(f"/v1/sessions/{session}/decisions", json=body),  # a hot route
            await client.get("/v1/sessions/none"),  # a problem
        ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


async def test_pages_are_framed_by_nobody(serve: Serve) -> None:
    async with serve() as client:
        for path in ("/", "/docs"):
            headers = (await client.get(path)).headers
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers.get_list("x-content-type-options") == ["nosniff"]


async def test_no_page_of_another_site_reads_an_answer(serve: Serve) -> None:
    """There is no CORS; a form of such a page sends no key, and is refused where there are keys."""
    async with serve() as client:
        asked = {**ORIGIN, "access-control-request-method": "POST"}
        preflight = await client.options("/v1/sessions", headers=asked)
        assert preflight.status_code in (403, 405)
        answer = await client.get("/v1/sessions", headers=ORIGIN)
        for found in (preflight, answer):
            assert not [name for name in found.headers if name.startswith("access-control")]
        made = await client.post("/v1/keys", json={"role": "admin"})
        assert made.status_code == 201
        form = {**ORIGIN, "content-type": "text/plain"}
        sent = await client.post("/v1/sessions", content=b'{"dim": 2, "horizon": 4}', headers=form)
        assert sent.status_code == 401
        client.headers["authorization"] = f"Bearer {made.json()['key']}"
        answer = await client.get("/v1/sessions", headers=ORIGIN)
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_compressed_body_is_refused_by_the_name_of_its_header(serve: Serve) -> None:
    body = gzip.compress(b'{"name": "front", "dim": 2, "horizon": 3}')
    kind = {"content-type": "application/json"}
    async with serve() as client:
        answer = await client.post(
            "/v1/sessions", content=body, headers={**kind, "content-encoding": "gzip"}
        )
        assert (answer.status_code, answer.json()["field"]) == (415, "content-encoding")
        plain = await client.post(
            "/v1/sessions",
            content=gzip.decompress(body),
            headers={**kind, "content-encoding": "identity"},
        )
        assert plain.status_code == 201
        read = await client.get("/v1/sessions", headers={"content-encoding": "gzip"})
        assert read.status_code == 200  # there is no body
