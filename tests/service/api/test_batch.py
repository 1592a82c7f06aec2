"""Many sessions in one call: one transaction, each item answered as it would have been alone."""

import json
from typing import Any
from unittest.mock import AsyncMock

import pytest

from service.base.parsing_processes import ParsingProcesses
from service.commands.decisions import Decide
from service.session.records import DecisionRow, SessionRow
from service.writer.command_queue import BatchSize
from service.writer.unit_of_work import UnitOfWork
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("is_large", [False, True])
async def test_items_are_answered_one_by_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """A large batch is parsed by a process, and its answer is the same."""
    async with serve() as client:
        parsing = client.service.parsing = ParsingProcesses(250.0)
        if is_large:
            client.service.parsed_here_bytes = 0
            parsed = AsyncMock(wraps=parsing.run_once_begun)
            monkeypatch.setattr(parsing, "run_once_begun", parsed)
        first, second = await client.create(), await client.create()
        decision = {"contexts": ARMS, "event_id": "a"}
        items: list[Any] = [
            {"session_id": first, "decision": decision},
            {"session_id": second, "decision": {"contexts": [[1.0]]}},
            {"session_id": first, "decision": decision},
            {"session_id": first, "reward": {"value": 1.0, "event_id": "a"}},
            {"session_id": "nobody", "decision": decision},
            {"session_id": second, "decision": {"contexts": [[1.0, 2.0], [3.0]]}},
            {"session_id": second, "decision": {**decision, "rewards": []}},
            {"session_id": first, "reward": {"rewards": [{"value": 2.0, "round": 1}]}},
            {"session_id": first, "decision": {**decision, "contexts": ARMS[:1]}},
            {"session_id": first},
        ]
        writer = client.service.writer
        # whatever the transactions so far took of the processor
        monkeypatch.setattr(writer, "_size", BatchSize(len(items), 60.0))
        before = writer.n_batches
        answer = await client.post("/v1/batch", json={"items": items})
        assert answer.status_code == 200
        assert not is_large or parsed.await_count == 1
        assert writer.n_batches == before + 1
        out = answer.json()["items"]
        statuses = [item["status"] for item in out]
        assert statuses == [201, 422, 200, 200, 404, 422, 201, 409, 409, 422]
        assert out[0]["decision"] == out[2]["decision"]
        assert out[0]["decision"] == await client.read(f"/v1/sessions/{first}/decisions/a")
        assert out[3]["reward"] == {"accepted": 1, "repeated": 0}
        codes = {i: out[i]["problem"]["code"] for i in (1, 4, 5, 7, 8, 9)}
        assert codes == {
            1: "wrong_shape",
            4: "unknown_session",
            5: "ragged",
            7: "reward_conflict",
            8: "event_conflict",
            9: "missing",
        }
        assert (await client.read(f"/v1/sessions/{first}"))["n_rounds"] == 1


async def test_bad_batches_are_refused_whole(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        good = {"session_id": session, "decision": {"contexts": ARMS}}
        bad: list[tuple[Any, int, str, str]] = [
            ({"items": []}, 422, "invalid", "items"),
            ({}, 422, "missing", "items"),
            ({"items": [good], "more": 1}, 422, "unknown_field", "more"),
            ({"items": good}, 422, "invalid", "items"),
        ]
        for body, status, code, field in bad:
            problem(await client.post("/v1/batch", json=body), status, code, field)
        twice = b'{"items": [{"session_id": "x", "session_id": "y"}]}'
        problem(await client.post("/v1/batch", content=twice), 400, "duplicate_key", "session_id")
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0


async def test_an_item_of_the_wrong_form_is_refused_alone(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        good = b'{"session_id": "%s", "decision": {"contexts": [[1, 0]], "event_id": "a"}}'
        bad = [
            (b"{}", "missing", "session_id"),
            (b"5", "invalid", "body"),
            (b'{"session_id": "x\\u0000"}', "invalid", "session_id"),
            (b'{"session_id": 7, "decision": {}}', "invalid", "session_id"),
            (b'{"session_id": "%s", "more": 1}', "unknown_field", "more"),
            (b'{"session_id": "%s", "decision": [1]}', "invalid", "decision"),
            (b'{"session_id": "%s", "reward": {"value": NaN, "round": 1}}', "not_finite", "value"),
            (b'{"session_id": "%s", "reward": {"value": "1", "round": 1}}', "invalid", "value"),
            (
                b'{"session_id": "%s", "reward": {"value": 1e999, "round": 1}}',
                "not_finite",
                "value",
            ),
            (
                b'{"session_id": "%s", "decision": {"contexts": [["a", 0]]}}',
                *("invalid", "contexts[0][0]"),
            ),
            (
                b'{"session_id": "%s", "reward": {"rewards": [{"value": 1, "rund": 1}]}}',
                *("unknown_field", "rewards[0].rund"),
            ),
        ]
        items = b", ".join([good, *(text for text, _, _ in bad), good])
        body = b'{"items": [' + items.replace(b"%s", session.encode()) + b"]}"
        answer = await client.post("/v1/batch", content=body)
        assert answer.status_code == 200, answer.text
        first, *refused, last = answer.json()["items"]
        assert (first["status"], last["status"]) == (201, 200)
        assert first["decision"] == last["decision"]
        for (text, code, field), item in zip(bad, refused, strict=True):
            assert item["status"] == item["problem"]["status"] == 422, text
            assert (item["problem"]["code"], item["problem"]["field"]) == (code, field), text
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 1


async def test_a_number_of_4000_digits_is_a_problem_of_its_item(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        good = {"session_id": session, "decision": {"contexts": ARMS}}
        huge = b'{"session_id": "x", "reward": {"round": 1, "value": %s}}' % (b"9" * 4000)
        body = b'{"items": [%s, %s]}' % (json.dumps(good).encode(), huge)
        out = (await client.post("/v1/batch", content=body)).json()["items"]
        assert [item["status"] for item in out] == [201, 422]


async def test_a_defect_is_the_answer_of_its_item_alone(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serve() as client:
        session = await client.create()
        take = Decide.take

        def broken(decide: Decide, uow: UnitOfWork, session: SessionRow, *rest: Any) -> DecisionRow:
            decision = take(decide, uow, session, *rest)
            if decide.event_id == "broken":
                raise RuntimeError("a defect")
            return decision

        monkeypatch.setattr(Decide, "take", broken)
        names = ["a", "broken", "b"]
        items = [
            {"session_id": session, "decision": {"contexts": ARMS, "event_id": name}}
            for name in names
        ]
        answer = await client.post("/v1/batch", json={"items": items})
        assert answer.status_code == 200, answer.text
        out = answer.json()["items"]
        assert [item["status"] for item in out] == [201, 500, 201]
        assert out[1]["problem"]["code"] == "internal"
        request_id = answer.headers["x-request-id"]
        assert request_id in out[1]["problem"]["detail"]
        logged = json.loads(capfd.readouterr().err)
        assert (logged["event"], logged["request_id"]) == ("defect", request_id)
        assert {one["error"] for one in logged["raised"]} == {"RuntimeError"}
        for i in (0, 2):
            stored = await client.read(f"/v1/sessions/{session}/decisions/{names[i]}")
            assert stored == out[i]["decision"]
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 2


async def test_a_blocking_session_delays_only_its_own_items(serve: Serve) -> None:
    async with serve() as client:
        blocking = await client.create(algorithm="ad_lasso", refit="blocking")
        other = await client.create()
        for round in range(1, 5):
            await client.decide(blocking, ARMS, rewards=[])
            await client.reward(blocking, value=float(round), round=round)
        items = [{"session_id": id, "decision": {"contexts": ARMS}} for id in (blocking, other)]
        out = (await client.post("/v1/batch", json={"items": items})).json()["items"]
        assert [item["status"] for item in out] == [201, 201]
        assert out[0]["decision"]["round"] == 5


async def test_items_behind_a_decision_that_waits_for_a_fit_keep_their_order(serve: Serve) -> None:
    async with serve() as client:
        blocking = await client.create(algorithm="ad_lasso", refit="blocking")
        for round in range(1, 5):
            await client.decide(blocking, ARMS, rewards=[])
            await client.reward(blocking, value=float(round), round=round)
        of_b = {"event_id": "b", "value": 2.0}
        bodies: list[dict[str, Any]] = [
            {"decision": {"contexts": ARMS, "event_id": "b"}},
            {"reward": of_b},
            {"decision": {"contexts": ARMS, "event_id": "c", "rewards": [of_b | {"value": 1.0}]}},
            {"reward": {"event_id": "c", "value": 3.0}},
            {"reward": {"event_id": "d", "value": 3.0}},
            *({"decision": {"contexts": ARMS, "event_id": f"e{i}"}} for i in range(20)),
        ]
        items = [{"session_id": blocking, **body} for body in bodies]
        out = (await client.post("/v1/batch", json={"items": items})).json()["items"]
        assert [item["status"] for item in out] == [201, 200, 409, 404, 404] + 20 * [201]
        assert [one["decision"]["round"] for one in out if "decision" in one] == [5, *range(6, 26)]


async def test_items_are_counted_and_refused_ones_too(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        items = [
            {"session_id": session, "decision": {"skip": True}},
            {"session_id": session, "reward": {"round": 1, "value": 1.0}},
            {"session_id": "none", "decision": {"skip": True}},
            {"session_id": session},
        ]
        await client.post("/v1/batch", json={"items": items})
        metrics = (await client.get("/metrics")).text
    for kind, status in (("decision", 201), ("reward", 200), ("refused", 404), ("refused", 422)):
        assert f'lhb_batch_items_total{{kind="{kind}",status="{status}"}} 1.0' in metrics


async def test_only_algorithms_that_are_served_are_offered(serve: Serve) -> None:
    body = {"algorithm": "none", "dim": 2, "horizon": 4}
    async with serve() as client:
        assert "oracle" not in (await client.post("/v1/sessions", json=body)).json()["detail"]
    async with serve(allow_oracles=True) as client:
        assert "oracle" in (await client.post("/v1/sessions", json=body)).json()["detail"]
