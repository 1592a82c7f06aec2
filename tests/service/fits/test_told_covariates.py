"""Seasons and a trend as options of a session: fitted, answered, and made again by a replay."""

import numpy as np
import pytest

from tests.examples import on_one_database
from tests.service.conftest import Serve, problem, until
from tests.service.transfer.test_replay import replayed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fully_drawn")]
TOLD = {"seasonality": [{"period": 24, "harmonics": 2}], "trend": True}


@on_one_database
async def test_a_session_learns_its_season_and_trend(serve: Serve) -> None:
    rng = np.random.default_rng(0)
    rounds, contexts = np.arange(1, 401), rng.uniform(-1, 1, (400, 2))
    paid = np.convolve(contexts @ [0.6, 0.8], [0.3, 0.0, 0.7])[:400]
    rewards = paid + 2 * np.sin(2 * np.pi * rounds / 24) + rounds / 100 + rng.normal(0, 0.1, 400)
    async with serve() as client:
        session = await client.create(algorithm="anytime", dim=2, horizon=6, options=TOLD)
        body = {"contexts": contexts.tolist(), "rewards": rewards.tolist()}
        answer = await client.post(f"/v1/sessions/{session}/history", json=body)
        assert answer.status_code == 201, answer.text

        async def learned() -> dict | None:
            found = await client.read(f"/v1/sessions/{session}/estimate")
            return found if found.get("theta") else None

        found = await until(learned)
        assert np.array(found["theta"]) @ [0.6, 0.8] > 0.999
        assert found["active_lags"] == [0, 2]
        effects = found["effects"]
        np.testing.assert_allclose(effects["values"], [2, 0, 0, 0, 0.01], atol=0.05)
        assert [p > 0.5 for p in effects["included"]] == [True, False, True]
        assert effects["groups"] == ["season 24, harmonic 1", "season 24, harmonic 2", "trend"]
        assert found["findings"] == []
        assert len(found["intervals"]["effects"]) == 5
        replay = replayed(client, session)
        assert replay.differences == []
        assert replay.estimates >= 1


async def test_a_wrong_season_is_named(serve: Serve) -> None:
    async with serve() as client:
        body = {
            "algorithm": "anytime",
            "dim": 2,
            "horizon": 6,
            "options": {"seasonality": [{"period": 1}]},
        }
        problem(
            await client.post("/v1/sessions", json=body), 422, "bad_option", "options.seasonality"
        )
        algorithms = (await client.read("/v1/algorithms"))["items"]
        [anytime] = [each for each in algorithms if each["name"] == "anytime"]
        season = anytime["options"]["properties"]["seasonality"]
        assert season["type"] == "array"
