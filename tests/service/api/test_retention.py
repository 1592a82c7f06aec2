"""`keep_rounds` and `keep_days` over HTTP, and what is answered about rounds that are dropped."""

from dataclasses import dataclass
from typing import Any

import pytest

from service.session.records import SessionKey
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.25], [-0.5, 1.0]]


@dataclass(frozen=True, slots=True)
class GiveUp(SessionCommand[None]):
    """What a plan does; here no sums are there."""

    key: SessionKey
    to: int

    def __call__(self, uow: UnitOfWork) -> None:
        session = uow.session(self.key)
        assert session is not None
        session.dropped_to = session.swept_to = self.to
        uow.save(session)


async def given_up(client: Client, n: int) -> str:
    """A session of n rounds, all measured but the second and the fourth, of which 3 are dropped."""
    session = await client.create(algorithm="anytime", horizon=2, keep_rounds=40_000)
    for i in range(1, n + 1):
        await client.decide(session, ARMS, event_id=f"e{i}")
        if i not in (2, 4):
            await client.reward(session, round=i, value=0.5, reward_id=f"r{i}")
    await client.service.writer.submit(GiveUp(("", session), 3))
    return session


async def test_it_is_set_changed_and_ended(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="anytime", keep_rounds=50_000, name="n")
        path = f"/v1/sessions/{session}"
        told = await client.read(path)
        assert (told["keep_rounds"], told["keep_days"]) == (50_000, None)
        assert (told["n_dropped_rounds"], told["dropped_to"]) == (0, 0)
        for body in ({"keep_days": 1.5}, {"keep_rounds": None}):
            answer = await client.patch(path, json=body)
            assert answer.status_code == 200, answer.text
        told = await client.read(path)
        assert (told["keep_rounds"], told["keep_days"]) == (None, 1.5)
        for field, value, code in (
            ("keep_rounds", 32_767, "out_of_range"),
            ("keep_rounds", 1.5, "invalid"),
            ("keep_days", 0.01, "out_of_range"),
            ("keep_days", "a", "invalid"),
        ):
            problem(await client.patch(path, json={field: value}), 422, code, field)
        changed = await client.patch(path, json={"options": {"memory": 100}})
        assert changed.status_code == 200, changed.text


NEED_NONE: list[dict[str, Any]] = [
    {"clock": {"slot_seconds": 60}},
    {"algorithm": "ad_lasso"},
    {"algorithm": "lin_ucb"},
    {"holdout": {"share": 0.1, "policy": "uniform"}},
    {"mode": "shadow"},
    {},
    {"options": {"levels": True}},
    {"options": {"memory": 1000}},
    {"options": {"memory": 1000}, "reward_mode": "sum"},
    {"reward_mode": "sum"},
    {"default_reward": 0.0},
    {"default_reward": 0.0, "options": {"levels": True}},
    {"options": {"memory": 1000}, "default_reward": 0.0},
    {"dim": 20, "horizon": 60},
    {"options": {"own": True}},
]


@pytest.mark.parametrize("settings", NEED_NONE)
@on_one_database
async def test_where_rows_may_go(serve: Serve, settings: dict[str, Any]) -> None:
    async with serve() as client:
        body = {"algorithm": "anytime", "dim": 2, "horizon": 4, "keep_days": 2.5, **settings}
        session = await client.create(**body)
        assert (await client.read(f"/v1/sessions/{session}"))["keep_days"] == 2.5


async def test_what_is_answered_about_a_dropped_round(serve: Serve) -> None:
    async with serve() as client:
        session = await given_up(client, 6)
        path = f"/v1/sessions/{session}"
        before = (await client.read(path))["n_rounds"]
        late: dict[str, Any]
        for late, field in (({"round": 2}, "round"), ({"event_id": "e2"}, "event_id")):
            answer = await client.reward(session, value=1.0, **late)
            problem(answer, 409, "round_dropped", field)
        # its row is there, so a repeat gets its first answer
        again = await client.reward(session, round=1, value=0.5, reward_id="r1")
        assert (again.status_code, again.json()["repeated"]) == (200, 1)
        body = {"contexts": ARMS, "event_id": "new", "rewards": [{"round": 2, "value": 1.0}]}
        answer = await client.post(f"{path}/decisions", json=body)
        problem(answer, 409, "round_dropped", "rewards[0].round")
        items = [{"session_id": session, "reward": {"round": 2, "value": 1.0}}]
        items.append({"session_id": session, "reward": {"round": 4, "value": 1.0}})
        answers = (await client.post("/v1/batch", json={"items": items})).json()["items"]
        assert [item["status"] for item in answers] == [409, 200]
        assert answers[0]["problem"]["code"] == "round_dropped"
        answer = await client.post(f"{path}/decisions/e2/void")
        problem(answer, 409, "round_dropped", "event_id")
        answer = await client.post(f"{path}/decisions/e5/void")
        problem(answer, 409, "no_corrections", "event_id")
        answer = await client.post(f"{path}/copy", json={"horizon": 3})
        problem(answer, 409, "round_dropped")
        assert "up to position 3 are dropped" in answer.json()["detail"]
        assert "`lhb export` and `lhb import`" in answer.json()["detail"]
        assert (await client.read(path))["n_rounds"] == before
        rows = (await client.read(f"{path}/rounds"))["items"]
        assert [row["reward"] for row in rows] == [0.5, None, 0.5, 1.0, 0.5, 0.5]
