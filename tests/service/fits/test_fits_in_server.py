"""Fits in real processes: who waits, who does not, and when they begin."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from service.base.process_pool import Processes
from service.writer.after_commit import Effects
from tests.service.conftest import Client, Serve, problem, until
from tests.service.fits.fit_gate import ARMS, close_gate, installed, play
from tests.service.fits.fit_jobs import failing_fit, gated_fit

pytestmark = pytest.mark.anyio


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Embedded only: workers have their own tests."""
    return f"sqlite:///{tmp_path / 'lhb.db'}"


async def test_decisions_go_on_during_a_fit_and_say_by_what_they_decide(serve: Serve) -> None:
    async with serve() as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso")
        answers = await play(client, session, 10)
        assert {answer["model_version"] for answer in answers} == {0}
        assert [answer["epoch"] for answer in answers] == [1] * 4 + [2] * 6
        epochs = (await client.read(f"/v1/sessions/{session}/epochs"))["items"]
        assert [(item["epoch"], item["status"]) for item in epochs] == [(1, "fitting"), (2, "open")]
        assert epochs[1]["n_complete"] == 2
        gate.unlink()
        await until(lambda: installed(client, session))
        await play(client, session, 2)
        second = await until(lambda: second_of(client, session))
        assert second["epoch"] == 2


async def second_of(client: Client, session: str) -> Any:
    found = await installed(client, session)
    return found[1] if len(found) == 2 else None


async def test_a_blocking_decision_waits_and_then_gets_its_round(serve: Serve) -> None:
    async with serve() as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        await play(client, session, 3)
        await client.decide(session, ARMS)
        waiting = [
            asyncio.create_task(
                client.decide(session, ARMS, rewards=[{"round": 4, "value": 0.5}], event_id=f"{i}")
            )
            for i in range(5)
        ]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in waiting)
        state = await client.read(f"/v1/sessions/{session}")
        assert (state["n_rounds"], state["fit_due"]) == (4, True)
        gate.unlink()
        answers = await asyncio.gather(*waiting)
        assert sorted(answer["round"] for answer in answers) == [5, 6, 7, 8, 9]
        [estimate] = await installed(client, session)
        assert {answer["model_version"] for answer in answers} == {estimate["model_version"]}


async def test_a_session_that_goes_before_its_fit_begins_leaves_the_process_to_others(
    serve: Serve,
) -> None:
    async with serve() as client:
        pool, gone = client.service.fits, ("", "gone")
        pool.after_commit(Effects(due={gone: (4, 0.1)}))
        pool.after_commit(Effects(removed={gone}))
        session = await client.create(algorithm="ad_lasso")
        await play(client, session, 4)
        await until(lambda: installed(client, session))


async def test_who_waits_too_long_is_told_to_come_again(serve: Serve) -> None:
    async with serve(fit_wait_seconds=0.1) as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        await play(client, session, 4)
        path = f"/v1/sessions/{session}/decisions"
        answer = await client.post(path, json={"contexts": ARMS, "event_id": "e"})
        problem(answer, 503, "fit_pending")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 4
        gate.unlink()
        await until(lambda: installed(client, session))
        assert (await client.decide(session, ARMS, event_id="e"))["round"] == 5


async def test_a_batch_waits_for_fits_no_longer_than_a_decision(serve: Serve) -> None:
    async with serve(fit_wait_seconds=0.2) as client:
        gate, waits = close_gate(client, gated_fit), []
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        await play(client, session, 4)
        wait = client.service.fits.wait

        async def counted(key: Any, due: int, seconds: float) -> bool:
            waits.append(seconds)
            return await wait(key, due, seconds)

        client.service.fits.wait = counted  # type: ignore[method-assign]
        items = [{"session_id": session, "decision": {"contexts": ARMS}} for _ in range(20)]
        answers = (await client.post("/v1/batch", json={"items": items})).json()["items"]
        assert {item["problem"]["code"] for item in answers} == {"fit_pending"}
        assert sum(waits) <= 0.2
        gate.unlink()
        await until(lambda: installed(client, session))


@pytest.mark.parametrize("mode", ["single", "sum"])
async def test_who_is_sent_away_leaves_rewards_once_and_no_round(serve: Serve, mode: str) -> None:
    async with serve(fit_wait_seconds=0.1) as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso", refit="blocking", reward_mode=mode)
        path = f"/v1/sessions/{session}"
        n = 4 if mode == "single" else 5  # sums are closed by the first decision beyond
        for round in range(1, n + 1):
            await client.decide(session, ARMS)
            if round < n:
                await client.reward(session, round=round, value=1.0, reward_id=f"r{round}")
        body = {"contexts": ARMS, "event_id": "e"}
        body["rewards"] = [{"round": n, "value": 2.5, "reward_id": "last"}]
        for _ in range(3):
            answer = await client.post(f"{path}/decisions", json=body)
            problem(answer, 503, "fit_pending")
            assert "the rewards in the body are stored" in answer.json()["detail"]
            log = (await client.read(f"{path}/rounds"))["items"]
            assert [item["n_rewards"] for item in log] == [1] * n
            assert log[-1]["reward"] == 2.5
            assert (await client.get(f"{path}/decisions/e")).status_code == 404
        wrong = {**body, "rewards": [{"round": n, "value": 9.0, "reward_id": "last"}]}
        problem(await client.post(f"{path}/decisions", json=wrong), 409, "reward_conflict")
        gate.unlink()
        await until(lambda: installed(client, session))
        first = await client.post(f"{path}/decisions", json=body)
        again = await client.post(f"{path}/decisions", json=body)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        assert first.json()["round"] == n + 1
        log = (await client.read(f"{path}/rounds"))["items"]
        assert [item["n_rewards"] for item in log] == [1] * n + [0]


async def test_a_failed_fit_is_tried_again_and_shown(serve: Serve) -> None:
    # more often than it is before the gate opens, however slow the machine
    async with serve(fit_retry_seconds=0.05, fit_attempts=100) as client:
        gate = close_gate(client, failing_fit)
        session = await client.create(algorithm="ad_lasso")
        await play(client, session, 4)

        async def failed() -> Any:
            items = (await client.read(f"/v1/sessions/{session}/epochs"))["items"]
            return [item for item in items if item["status"] == "failed"]

        assert "on fire" in (await until(failed))[0]["reason"]

        async def is_counted() -> bool:  # after the commit that a reader may have seen already
            return 'lhb_fit_seconds_count{status="failed"}' in (await client.get("/metrics")).text

        await until(is_counted)
        assert "lhb_fit_age_seconds_count 0.0" in (await client.get("/metrics")).text
        await asyncio.sleep(0.1)
        gate.unlink()
        await until(lambda: installed(client, session))

        async def is_aged() -> bool:
            text = (await client.get("/metrics")).text
            return float(text.partition("lhb_fit_age_seconds_sum ")[2].split()[0]) >= 0.1

        await until(is_aged)


async def test_what_is_due_at_the_end_is_fitted_after_the_next_start(serve: Serve) -> None:
    async with serve() as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso")
        await play(client, session, 5)
        assert (await client.read(f"/v1/sessions/{session}"))["fit_due"]
    gate.unlink()
    async with serve() as client:
        await until(lambda: installed(client, session))
        assert not (await client.read(f"/v1/sessions/{session}"))["fit_due"]


@pytest.mark.parametrize("by", ["reward", "time"])
async def test_a_commit_after_the_end_of_fits_starts_none(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Clients that hung up leave commands behind, which are committed after the pool has closed."""
    asked: list[Processes] = []

    async def ask(processes: Processes, *work: Any, **limit: Any) -> None:
        asked.append(processes)

    async with serve() as client:
        session = await client.create(algorithm="ad_lasso", reward_wait_seconds=0.2)
        await play(client, session, 3)
        await client.service.fits.close()
        monkeypatch.setattr(Processes, "run", ask)
        await client.decide(session, ARMS)
        if by == "reward":
            await client.reward(session, value=1.0, round=4)
        await client.decide(session, ARMS)
        await asyncio.sleep(0.5)
        is_due = (await client.read(f"/v1/sessions/{session}"))["fit_due"]
        assert (is_due, asked) == (by == "reward", [])
    monkeypatch.undo()
    async with serve() as client:
        await until(lambda: installed(client, session))


async def test_waiting_time_that_passes_while_nobody_serves_counts(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso", reward_wait_seconds=0.3)
        await play(client, session, 3)
        await client.decide(session, ARMS)
        await client.decide(session, ARMS)
    await asyncio.sleep(0.3)
    async with serve() as client:
        [estimate] = await until(lambda: installed(client, session))
        assert estimate["epoch"] == 1


async def test_a_timer_makes_a_fit_due_without_any_request(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso", reward_wait_seconds=0.2)
        await play(client, session, 3)
        began = time.time()
        await client.decide(session, ARMS)
        await client.decide(session, ARMS)
        await until(lambda: installed(client, session))
        assert time.time() - began >= 0.2


@pytest.mark.parametrize("how", ["delete", "archive"])
async def test_a_session_may_go_during_its_fit(serve: Serve, how: str) -> None:
    async with serve() as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        await play(client, session, 4)
        path = f"/v1/sessions/{session}"
        waiting = asyncio.create_task(client.post(f"{path}/decisions", json={"contexts": ARMS}))
        await asyncio.sleep(0.1)
        if how == "delete":
            assert (await client.delete(path)).status_code == 204
            problem(await waiting, 404, "unknown_session", "session_id")
            gate.unlink()
        else:
            assert (await client.patch(path, json={"archived": True})).status_code == 200
            gate.unlink()
            problem(await waiting, 409, "archived")
            assert len(await until(lambda: installed(client, session))) == 1

        async def idle() -> bool:
            return client.service.fits.queue().n_due == 0

        await until(idle)
