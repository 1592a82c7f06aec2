"""What one choice of an arm is worth, by anybody, of arms that nobody chose too."""

from typing import Any

import numpy as np
import pytest

from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, until

pytestmark = pytest.mark.anyio
PAYS = np.array([1.0, 0.5])


async def played(client: Client, ids: list[str], offers: Any, n: int = 160, **body: Any) -> str:
    """Users whose rewards are what was chosen, and a little noise; control plays the first arm."""
    session = await client.create(algorithm="anytime", horizon=2, refit="blocking", **body)
    rng = np.random.default_rng(3)
    for i in range(n):
        contexts, key = offers(rng), f"user {i % 16}"
        more = {"default_arm": 0} if "holdout" in body else {"forced_arm": int(rng.integers(3))}
        asked = {"trajectory": key, "arm_ids": ids, **more}
        answer = await client.decide(session, contexts.tolist(), **asked)
        value = float(contexts[answer["arm"]] @ PAYS + 0.1 * rng.standard_normal())
        await client.reward(session, value=value, trajectory=key, round=answer["round"])
    await client.post(f"/v1/sessions/{session}/fits")

    async def settled() -> bool:
        return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]

    await until(settled)
    return session


async def arms_of(client: Client, session: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = await client.read(f"/v1/sessions/{session}/credit/arms")
    return found, {one["arm_id"]: one for one in found["items"]}


@on_one_database
async def test_identical_arms_are_worth_the_same_whoever_chooses(serve: Serve) -> None:
    """The agent takes an arm when its context is good, and control takes the first one always."""

    def offers(rng: np.random.Generator) -> np.ndarray:
        two = rng.uniform(-1.0, 1.0, (2, 2))
        return np.stack([two[0], two[0], two[1], [-5.0, -5.0]])

    async with serve() as client:
        ids, share = ["one", "same", "other", "bad"], {"share": 0.5, "guard": False}
        session = await played(client, ids, offers, holdout=share)
        found, arms = await arms_of(client, session)
        assert found["reason"] is None
        assert arms["one"]["n"] > 2 * arms["same"]["n"] > 0  # control's choices count
        assert arms["one"]["one"] == arms["same"]["one"]
        paid = [(arms[name]["at_once"] + arms[name]["later"]) for name in ("one", "same")]
        assert paid[1] / arms["same"]["n"] > paid[0] / arms["one"]["n"] + 0.1
        for arm in arms.values():
            low, high = arm["one"]["interval"]
            assert low <= arm["one"]["in_all"] <= high
            assert low < np.dot(arm["context"], PAYS) < high
            assert high - low < 0.2 * max(1.0, -arm["one"]["in_all"]) + 0.5
        assert arms["bad"]["one"]["in_all"] < -5.0
        assert arms["bad"]["context"] == [-5.0, -5.0]


@on_one_database
@pytest.mark.usefixtures("fully_drawn")
async def test_an_arm_that_was_never_chosen_is_shown(serve: Serve) -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    async with serve() as client:
        ids = ["kitchen", "garden", "none", "both"]
        session = await played(client, ids, lambda rng: rows, arms=ids)
        found, arms = await arms_of(client, session)
        assert (arms["both"]["n"], arms["both"]["earned"]) == (0, 0.0)
        assert arms["both"]["shares"] == [0.0] * len(found["bins"])
        low, high = arms["both"]["one"]["interval"]
        assert low < 1.5 < high < low + 0.5
        assert found["no_intervals"] is None


@on_one_database
async def test_an_arm_that_is_chosen_no_more_keeps_its_name(serve: Serve) -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    async with serve() as client:
        ids = ["kitchen", "garden", "none"]
        session = await played(client, ids, lambda rng: rows, n=48)
        for _ in range(16):  # from here on one arm alone
            asked = {"arm_ids": ids, "forced_arm": 1, "trajectory": "user 0"}
            await client.decide(session, rows.tolist(), **asked)
        late = await client.read(f"/v1/sessions/{session}/credit/arms?rounds=8")
        counts = {one["arm_id"]: one["n"] for one in late["items"]}
        assert counts == {"kitchen": 0, "garden": 8, "none": 0}


async def test_what_the_agent_chose_is_told_from_what_control_and_a_log_chose(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="uniform", holdout={"share": 0.5}, horizon=1)
        chosen = {"caller": [[1.0, 0.0]] * 3, "agent": [], "control": []}
        log = {"contexts": chosen["caller"], "rewards": [0.0] * 3}
        await client.post(f"/v1/sessions/{session}/history", json=log)
        for i in range(20):
            contexts = [[float(i), 1.0], [0.0, 2.0]]
            asked = {"trajectory": f"user {i}", "default_arm": 1}
            answer = await client.decide(session, contexts, **asked)
            chosen[answer["played_by"]].append(contexts[answer["arm"]])
        found, _ = await arms_of(client, session)
    players = {one["by"]: one for one in found["players"]}
    for by, contexts in chosen.items():
        assert players[by]["n"] == len(contexts) > 0
        assert players[by]["context"] == pytest.approx(np.mean(contexts, axis=0).tolist())
        assert players[by]["one"] is None  # nothing is learned
