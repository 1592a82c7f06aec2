"""What decides now is said alike by decisions, ranks, estimates, credit and listings."""

from typing import Any

import numpy as np
import pytest

from tests.service.conftest import Client, Serve, until

pytestmark = pytest.mark.anyio
N_ROUNDS = 150


async def sayings(client: Client, session: str) -> set[str]:
    """What every listing says that decides."""
    path = f"/v1/sessions/{session}"
    listed = await client.read(f"/v1/sessions?name={session_name(session)}")
    said = [await client.read(path), *listed["items"]]
    said += [await client.read(f"{path}/{what}") for what in ("estimate", "credit?limit=1")]
    return {answer["deciding"] for answer in said}


def session_name(session: str) -> str:
    """One session a test is enough."""
    return "noise" if session else ""


async def idle(client: Client, session: str) -> bool:
    """Whether no fit is due."""
    return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_direction_that_does_not_stand_out_decides_and_is_called_a_guess(
    serve: Serve,
) -> None:
    rng = np.random.default_rng(4)
    seen: dict[str, Any] = {}
    async with serve() as client:
        body = {"algorithm": "anytime", "dim": 3, "horizon": 5, "refit": "blocking", "seed": 4}
        session = await client.create(name="noise", **body)
        path = f"/v1/sessions/{session}"
        for round in range(1, N_ROUNDS + 1):
            await until(lambda: idle(client, session))
            contexts = rng.uniform(-1, 1, (4, 3)).tolist()
            ranked = (await client.post(f"{path}/rank", json={"contexts": contexts})).json()
            [deciding] = await sayings(client, session) if round % 5 == 0 else {ranked["deciding"]}
            estimate = await client.read(f"{path}/estimate")
            decision = await client.decide(session, contexts)
            assert ranked["deciding"] == deciding == estimate["deciding"]
            assert decision["explored"] == (deciding == "exploring")
            assert decision["scores"] == ranked["scores"]
            assert decision["arm"] == ranked["ranking"][0]
            seen.setdefault(deciding, estimate)
            await client.reward(session, round=round, value=rng.normal())
        estimates = (await client.read(f"{path}/estimates"))["items"]
        credit = (await client.read(f"{path}/credit?limit=1"))["items"][0]
    assert seen["exploring"] == {
        "status": "none",
        "deciding": "exploring",
        "findings": [],
        "unchecked": [],
        "checked": None,
    }
    guess = seen["learning"]
    assert (guess["status"], guess["in_use"], guess["intervals"]["drawn"]) == ("ok", True, True)
    assert "no direction stands out from the noise yet" in guess["reason"]
    assert deciding == "learning"
    assert [item["in_use"] for item in estimates][-1]
    assert credit["reason"] is None or credit["earned"] is None


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("algorithm", ["uniform", "ad_lasso", "lin_ucb", "anytime"])
async def test_before_the_first_direction_rank_and_decide_agree(
    serve: Serve, algorithm: str
) -> None:
    rng = np.random.default_rng(0)
    async with serve() as client:
        session = await client.create(algorithm=algorithm, dim=3, horizon=100)
        path = f"/v1/sessions/{session}/rank"
        for trajectory in ("", "", "b", "", "b") * 3:
            contexts = rng.uniform(-1, 1, (4, 3)).tolist()
            body = {"contexts": contexts, "trajectory": trajectory}
            ranked = (await client.post(path, json=body)).json()
            decision = await client.decide(session, **body)
            assert ranked["ranking"][0] == decision["arm"]
            assert ranked["scores"] == decision["scores"]
