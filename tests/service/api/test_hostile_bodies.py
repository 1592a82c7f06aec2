"""Bodies that are small to send and dear to read: refused at the first offence."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from service.api.body_parsing import DECISION, HISTORY, MAX_NAMED_ERRORS, PATCH, RANK, BodyParser
from service.api.request_bodies import MAX_ARMS
from service.base.problems import Problem
from service.web.request_body import BodyDeadlines
from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("contexts", "field"),
    [
        ("[[" + ",".join(['""'] * 200_000) + "]]", "contexts[0][0]"),
        ("[" + ",".join(["0"] * 200_000) + "]", "contexts[0]"),
    ],
    ids=["strings", "numbers for rows"],
)
def test_one_error_not_one_an_element(contexts: str, field: str) -> None:
    with pytest.raises(Problem) as refused:
        DECISION.parse(f'{{"contexts":{contexts}}}'.encode())
    assert refused.value.field == field
    assert len(refused.value.errors or ()) <= 2


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (DECISION, '"contexts":[[1]],"arm_ids":[' + ",".join(["1"] * 200_000) + "]", "arm_ids[0]"),
        (RANK, '"contexts":[[1]],"arm_ids":[' + ",".join(["1"] * 200_000) + "]", "arm_ids[0]"),
        (HISTORY, '"contexts":[[1]],"rewards":[' + ",".join(["[]"] * 200_000) + "]", "rewards[0]"),
    ],
    ids=["arm ids", "ranked arm ids", "logged rewards"],
)
def test_every_list_ends_at_its_first_offence(kind: BodyParser[Any], body: str, field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        kind.adapter.validate_json(f"{{{body}}}")
    assert refused.value.error_count() == 1
    with pytest.raises(Problem) as said:
        kind.parse(f"{{{body}}}".encode())
    assert said.value.field == field


def test_unknown_keys_are_named_while_they_are_few() -> None:
    few, many = (
        ",".join(f'"k{i}":0' for i in range(n)) for n in (MAX_NAMED_ERRORS, MAX_NAMED_ERRORS + 1)
    )
    with pytest.raises(Problem) as refused:
        PATCH.parse(f"{{{few}}}".encode())
    assert (refused.value.code, refused.value.field) == ("unknown_field", "k0")
    with pytest.raises(Problem, match="101 errors") as refused:
        PATCH.parse(f"{{{many}}}".encode())
    assert (refused.value.code, refused.value.field) == ("invalid", "body")


@pytest.mark.parametrize("small", ["[]", "{}", '"":0', '"",""'])
@on_one_database
async def test_millions_of_small_things_are_not_even_parsed(serve: Serve, small: str) -> None:
    body = f'{{"items":[{",".join([small] * 1_000_001)}]}}'
    async with serve() as client:
        for path in ("/v1/batch", "/v1/sessions"):
            answer = await client.post(path, content=body)
            problem(answer, 422, "out_of_range", "body")
            assert "at most" in answer.json()["detail"]


@on_one_database
async def test_there_is_a_most_of_arms(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}/decisions"
        rows = {"contexts": [[0.0]] * (MAX_ARMS + 1)}
        problem(await client.post(path, json=rows), 422, "out_of_range", "contexts")
        packed = {"dtype": "float64", "shape": [MAX_ARMS + 1, 0], "data": ""}
        refused = await client.post(path, json={"contexts": packed})
        problem(refused, 422, "out_of_range", "contexts.shape[0]")


@on_one_database
async def test_a_twin_among_many_arm_ids_is_found_in_one_walk(serve: Serve) -> None:
    n = 50_000
    arm_ids = [*map(str, range(n - 1)), str(n - 2)]
    async with serve() as client:
        session = await client.create()
        for resource in ("decisions", "rank"):
            answer = await client.post(
                f"/v1/sessions/{session}/{resource}",
                json={"contexts": [[0.0, 0.0]] * n, "arm_ids": arm_ids},
            )
            problem(answer, 409, "duplicate_arm_ids", f"arm_ids[{n - 1}]")


@on_one_database
@pytest.mark.parametrize(
    "shape", [[0, 10**30], [10**30, 0], [-1, 1], [2**31, 2**31]], ids=["wide", "tall", "-1", "both"]
)
async def test_shapes_beyond_reason(serve: Serve, shape: list[int]) -> None:
    async with serve() as client:
        session = await client.create()
        packed = {"dtype": "float64", "shape": shape, "data": ""}
        answer = await client.post(f"/v1/sessions/{session}/decisions", json={"contexts": packed})
        assert answer.status_code == 422
        assert answer.json()["field"].startswith("contexts.shape")


async def test_cursors_beyond_what_a_database_counts(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for listing in ("rounds", "estimates", "epochs", "credit"):
            answer = await client.get(f"/v1/sessions/{session}/{listing}?cursor={10**20}")
            problem(answer, 422, "invalid", "cursor")


@on_one_database
@pytest.mark.parametrize("at", [1795208000.5, "1795208000", "2026-01-31 12:00:00Z", "2026-01-31"])
async def test_a_time_is_rfc_3339(serve: Serve, at: object) -> None:
    async with serve() as client:
        session = await client.create(reward_mode="sum")
        await client.decide(session)
        body = {"value": 1, "at": at, "reward_id": "x"}
        answer = await client.post(f"/v1/sessions/{session}/rewards", content=json.dumps(body))
        problem(answer, 422, "invalid", "at")


async def test_a_body_in_drops_has_one_deadline() -> None:
    slow = BodyDeadlines(0.2)
    deadline = slow.deadline()

    async def drop() -> dict[str, object]:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def read() -> None:
        for _ in range(100):
            await slow.receive(drop, deadline)

    with pytest.raises(Problem) as refused:
        await read()
    assert refused.value.status == 408


async def test_a_defect_of_any_route_is_a_problem_and_in_the_log(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    async with serve() as client:
        session = await client.create()
        monkeypatch.setattr("service.api.sessions.session_answer", broken)
        with capture_logs() as logged:
            answer = await client.get(f"/v1/sessions/{session}")
        problem(answer, 500, "internal")
        assert [line["event"] for line in logged] == ["defect"]
        assert logged[0]["request_id"] == answer.headers["x-request-id"]


async def test_deleted_sessions_leave_no_fit_at_work(serve: Serve) -> None:
    async with serve() as client:
        for _ in range(8):
            session = await client.create(algorithm="ad_lasso", horizon=4, options={"L": 1})
            for _ in range(4):
                await client.decide(session)
            rewards = [{"round": t, "value": 0.5 * t} for t in range(1, 5)]
            await asyncio.gather(
                client.post(f"/v1/sessions/{session}/rewards", json={"rewards": rewards}),
                client.delete(f"/v1/sessions/{session}"),
            )
        async with asyncio.timeout(120):
            while (await _ready(client))["fits_due"]:
                await asyncio.sleep(0.05)


async def _ready(client: httpx.AsyncClient) -> dict[str, int]:
    answer: dict[str, int] = (await client.get("/readyz")).json()
    return answer
