"""Sessions addressed by name: every route, names of any letters, and what is not a name."""

from urllib.parse import quote

import pytest

from service.base.session_ids import has_form_of_id, new_id
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio
BODY = {"algorithm": "uniform", "dim": 2, "horizon": 4, "seed": 1}
ARMS = [[1.0, 0.0], [0.0, 1.0]]
OF_ONE = ("/rounds?trajectory=", "/credit?trajectory=")
READS = ("", "/estimate", "/estimates", "/epochs", *OF_ONE, "/series", "/events")


async def make(client: Client, name: str) -> str:
    return await client.create(name=name)


def at(name: str) -> str:
    return f"/v1/sessions/{quote(name, safe='')}"


@on_one_database
@pytest.mark.parametrize("name", ["shop", "import", "decisions", "Läden/de 50%?", "a/decisions"])
async def test_every_route_takes_a_name(serve: Serve, name: str) -> None:
    async with serve() as client:
        session = await make(client, name)
        body = {"contexts": ARMS, "event_id": "a/b c"}
        taken = await client.post(f"{at(name)}/decisions", json=body)
        assert taken.status_code == 201, taken.text
        event = f"/decisions/{quote('a/b c', safe='')}"
        assert await client.read(at(name) + event) == taken.json()
        sent = await client.post(f"{at(name)}/rewards", json={"value": 1.0, "round": 1})
        assert sent.json() == {"accepted": 1, "repeated": 0}
        assert (await client.post(f"{at(name)}/rank", json={"contexts": ARMS})).status_code == 200
        log = {"contexts": ARMS, "trajectory": "log"}
        assert (await client.post(f"{at(name)}/history", json=log)).status_code == 201
        for rest in READS:
            by_name = await client.get(at(name) + rest)
            by_id = await client.get(f"/v1/sessions/{session}{rest}")
            assert (by_name.status_code, by_name.text) == (200, by_id.text), rest
        changed = await client.patch(at(name), json={"archived": True})
        assert changed.json()["id"] == session
        assert (await client.get(at(name))).json()["archived"] is True
        assert (await client.delete(at(name))).status_code == 204
        problem(await client.get(at(name)), 404, "unknown_session", "session_id")


async def test_a_batch_takes_names_and_ids(serve: Serve) -> None:
    async with serve() as client:
        first, second = await make(client, "one"), await make(client, "two")
        decision = {"contexts": ARMS}
        given = ("one", first, "two", second, "three")
        items = [{"session_id": session, "decision": decision} for session in given]
        answer = (await client.post("/v1/batch", json={"items": items})).json()["items"]
        assert [item["status"] for item in answer] == [201, 201, 201, 201, 404]
        assert [item["decision"]["round"] for item in answer[:4]] == [1, 2, 1, 2]
        assert "'three'" in answer[4]["problem"]["detail"]


async def test_a_name_is_what_a_session_is_called_now(serve: Serve) -> None:
    async with serve() as client:
        first = await make(client, "shop")
        assert (await client.patch(at("shop"), json={"name": "old"})).status_code == 200
        problem(await client.get(at("shop")), 404, "unknown_session", "session_id")
        second = await client.create(name="shop", seed=2)
        assert (await client.read(at("shop")))["id"] == second
        assert (await client.read(at("old")))["id"] == first
        assert (await client.delete(at("shop"))).status_code == 204
        problem(await client.get(at("shop")), 404, "unknown_session", "session_id")
        third = await client.create(name="shop", seed=3)
        assert (await client.read(at("shop")))["id"] == third


async def test_a_text_in_the_form_of_an_id_is_no_name(serve: Serve) -> None:
    async with serve() as client:
        session = await make(client, "shop")
        assert has_form_of_id(session)
        assert has_form_of_id(new_id(4e9, "0" * 12))
        for name in (session, "0" * 23):
            refused = await client.post("/v1/sessions", json={**BODY, "name": name})
            problem(refused, 422, "invalid", "name")
            problem(await client.patch(at("shop"), json={"name": name}), 422, "invalid", "name")
        for name in ("0" * 22, "0" * 24, "A" * 23):
            made = await make(client, name)
            assert (await client.read(at(name)))["id"] == made
