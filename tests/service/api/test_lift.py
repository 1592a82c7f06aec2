"""What the agent adds, over HTTP."""

import random
from typing import Any

import numpy as np
import pytest

from service.api.lift import _differ
from service.base.recurring import Intervals
from service.lift.exact import exact
from service.lift.sums import NO_ROW, NO_SUMS, LiftSums, row_of
from service.session.records import LiftSumsRow
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.0], [-1.0, 0.0]]
HOLDOUT = {"share": 0.4, "planned_rounds": 400}


async def visits(client: Client, session: str, effect: float, n: int = 150) -> dict[str, Any]:
    """Users of two rounds each; by group, the mean reward a round."""
    rng = random.Random(3)
    earned: dict[str, list[float]] = {"agent": [], "control": []}
    items = []
    for i in range(n):
        for round in (1, 2):
            decision = await client.decide(session, ARMS, trajectory=f"u{i}", default_arm=1)
            by = decision["played_by"]
            value = rng.gauss(1.0 + (effect if by == "agent" else 0.0), 0.3)
            earned[by].append(value)
            reward = {"trajectory": f"u{i}", "round": round, "value": value}
            items.append({"session_id": session, "reward": reward})
    for k in range(0, len(items), 1000):
        await client.post("/v1/batch", json={"items": items[k : k + 1000]})
    return {name: (len(values), sum(values) / len(values)) for name, values in earned.items()}


@on_one_database
async def test_lift_is_the_difference_of_the_groups_with_its_interval(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(holdout=HOLDOUT)
        none = await client.read(f"/v1/sessions/{session}/lift")
        assert none["lift"] is None
        assert "30 are needed, which takes about 75 in all" in none["reason"]
        assert none["rounds_to_go"] is None  # none of the same trajectories decide
        earned = await visits(client, session, 0.5)
        found = await client.read(f"/v1/sessions/{session}/lift?effect=0.01")
        for name, (n, mean) in earned.items():
            said = {"n_units": n // 2, "n_rounds": n, "reward": pytest.approx(mean)}
            assert found[name] == said
        lift = found["lift"]
        difference = earned["agent"][1] - earned["control"][1]
        assert lift["difference"] == pytest.approx(difference)
        assert 0 < lift["low"] < 0.5 < lift["high"]
        assert lift["ratio_low"] < 1.5 < lift["ratio_high"]
        assert found["rounds_to_go"] is None  # how the error falls is not seen from one look
        assert none["verdict"] == f"Not known yet: {none['reason']}."
        assert found["verdict"].startswith("The agent earns more than control: +")
        assert found["groups_differ"] is None
        assert (found["n_behind"], found["n_left_out"], found["reason"]) == (0, 0, None)
        assert found["points"][-1]["n_rounds"] == 300
        again = await client.read(f"/v1/sessions/{session}/lift?adjust=false")
        assert again["lift"] == lift  # uniform has no model


async def test_since_when_every_look_was_clear_is_said(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(holdout=HOLDOUT)
        path = f"/v1/sessions/{session}/lift"
        await visits(client, session, 0.5)
        assert " since " not in (await client.read(path))["verdict"]  # one look
        for i in range(20):
            await client.decide(session, ARMS, trajectory=f"u{i}", default_arm=1)
            await client.reward(session, trajectory=f"u{i}", round=3, value=1.0)
        found = await client.read(path)
    assert len(found["points"]) > 1
    assert found["lift"]["low"] > 0.0
    assert found["verdict"].endswith(f" Each look since {found['points'][0]['at'][:10]} said so.")


async def test_a_restart_and_an_import_sum_the_same(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(holdout=HOLDOUT)
        await visits(client, session, 0.2, 100)
        before = await client.read(f"/v1/sessions/{session}/lift")
        exported = (await client.get(f"/v1/sessions/{session}/events")).content
    async with serve() as client:
        assert await client.read(f"/v1/sessions/{session}/lift") == before
        typed = {"content-type": "application/x-ndjson"}
        made = await client.post("/v1/sessions/import", content=exported, headers=typed)
        again = await client.read(f"/v1/sessions/{made.json()['id']}/lift")
        assert again["lift"] == pytest.approx(before["lift"])
        assert again["agent"] == pytest.approx(before["agent"])


async def test_a_session_without_holdout_has_no_lift(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(mode="shadow")
        for _ in range(4):
            await client.decide(session, ARMS, forced_arm=0)
        found = await client.read(f"/v1/sessions/{session}/lift")
        assert (found["lift"], found["agent"]["reward"]) == (None, None)
        assert "no holdout" in found["reason"]
        shadow = await client.read(f"/v1/sessions/{session}/shadow")
        rounds = (await client.read(f"/v1/sessions/{session}/rounds"))["items"]
        agreement = sum(one["agent_arm"] == 0 for one in rounds) / 4
        assert (shadow["n_rounds"], shadow["agreement"]) == (4, agreement)
        assert (shadow["expected_agent"], shadow["n_scored"]) == (None, 0)


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("fully_drawn")
async def test_a_shadow_says_what_the_model_expects_of_each_choice(serve: Serve) -> None:
    """The caller plays the worse arm, and the model finds out."""
    async with serve() as client:
        session = await client.create(
            algorithm="anytime", horizon=2, mode="shadow", refit="blocking"
        )
        rng = random.Random(5)
        for round in range(1, 61):
            good = [rng.uniform(0.2, 1.0), rng.uniform(-1, 1)]
            await client.decide(session, [good, [-good[0], good[1]]], forced_arm=1)
            value = -2.0 * good[0] + 0.05 * rng.gauss(0, 1)
            await client.reward(session, value=value, round=round)
        shadow = await client.read(f"/v1/sessions/{session}/shadow")
        assert 0 < shadow["n_scored"] < 60
        assert shadow["expected_caller"] == pytest.approx(-1.2, abs=0.3)
        assert shadow["expected_agent"] == pytest.approx(1.2, abs=0.3)
        assert shadow["agreement"] < 0.5


async def test_sums_are_brought_up_to_date_in_the_background(serve: Serve) -> None:
    from tests.service.conftest import until

    async with serve(Intervals(lift=0.01)) as client:
        session = await client.create(holdout=HOLDOUT)
        await client.decide(session, ARMS, default_arm=0)

        async def summed() -> bool:
            with client.service.store.reader() as reader:
                return reader.lift_sums(("", session)) is not None

        await until(summed)


async def test_a_session_that_cannot_be_summed_keeps_no_other_from_it(serve: Serve) -> None:
    from structlog.testing import capture_logs

    from service.lift import watch
    from service.storage.ports import Changes
    from tests.service.conftest import until

    async with serve() as client:
        broken, sound = sorted([await client.create(holdout=HOLDOUT) for _ in range(2)])
        for session in (broken, sound):
            await client.decide(session, ARMS, default_arm=0)
        transaction = client.service.store.begin()
        row = LiftSumsRow("", broken, 0, 0, 0, '{"unknown": 1}')
        transaction.run(transaction.commit(Changes(lift_sums=[row])))

        async def summed() -> bool:
            with client.service.store.reader() as reader:
                return reader.unsummed(("", ""), 9) == [("", broken)]

        client.service.intervals = Intervals(lift=0.01)
        with capture_logs() as logs:
            looks = watch.LiftWatch(client.service)
            looks.start()

            async def told() -> bool:
                return any(line["event"] == "lift_not_summed" for line in logs)

            await until(told)
            await until(summed)
            await looks.close()
        assert {line["session"] for line in logs if line["event"] == "lift_not_summed"} == {broken}


def test_groups_that_come_a_different_number_of_times_are_told() -> None:
    """Then a difference a round is not all; each brings its rounds, all of one reward."""
    rng, sums = np.random.default_rng(1), LiftSums()

    def bring(group: str, rounds: list[int]) -> None:
        for n in rounds:
            sums.move(group, NO_ROW, row_of((exact(float(n)), exact(2.0 * n), 0)))

    bring("control", (10 + rng.integers(0, 20, 40)).tolist())
    bring("agent", [90] * 29)
    assert not sums.is_in_all  # too few of the agent's
    sums.groups["agent"] = NO_SUMS
    bring("agent", (12 + rng.integers(0, 20, 40)).tolist())
    assert not sums.is_in_all
    assert _differ(sums, 0.5, "lift") is None
    bring("agent", [30] * 20)
    bring("control", [2] * 20)
    assert sums.is_in_all
    said = _differ(sums, 0.5, "in_all")
    assert said is not None
    control, agent = (sums.groups[name].totals[0] / exact(60.0) for name in ("control", "agent"))
    assert (
        f"A unit of the agent has {agent:.3g} measured rounds, one of control {control:.3g}" in said
    )
    assert f"a round: {2 * agent:.4g} with the agent, and {2 * control:.4g} with control" in said


async def test_where_users_leave_what_they_bring_in_all_decides(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(holdout=HOLDOUT)
        items = []
        for i in range(150):
            for round in (1, 2, 3, 4):
                decision = await client.decide(session, ARMS, trajectory=f"u{i}", default_arm=1)
                is_ours = decision["played_by"] == "agent"
                value = (1.5 if is_ours else 1.0) + 0.1 * (-1) ** (i // 2 + round)
                reward = {"trajectory": f"u{i}", "round": round, "value": value}
                items.append({"session_id": session, "reward": reward})
                if is_ours and round >= 1 + i % 2:
                    break
        await client.post("/v1/batch", json={"items": items})
        found = await client.read(f"/v1/sessions/{session}/lift")
    assert found["lift"]["low"] > 0.0
    assert found["in_all"]["high"] < 0.0
    assert found["in_all"]["difference"] == pytest.approx(-1.75, abs=0.1)
    assert found["decides"] == "in_all"
    assert found["verdict"].startswith("The agent earns less than control: -1.7")
    assert " a trajectory in all, between " in found["verdict"]
