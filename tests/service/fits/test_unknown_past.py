"""A session whose application ran before round 1: fitted, answered, made again by a replay."""

import numpy as np
import pytest

from tests.service.conftest import Serve, problem, until
from tests.service.transfer.test_replay import replayed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fully_drawn")]


async def test_a_session_learns_what_was_chosen_before(serve: Serve) -> None:
    rng = np.random.default_rng(0)
    theta, weights = np.array([0.6, 0.8]), np.array([0.3, 0.0, 0.0, 0.0, 0.7])
    contexts = rng.uniform(2, 4, (205, 2))
    paid = np.convolve(contexts @ theta, weights)[5:205] + rng.normal(0, 0.1, 200)
    async with serve() as client:
        shape = {"algorithm": "anytime", "dim": 2, "horizon": 6}
        session = await client.create(**shape, options={"zero_start": False})
        body = {"contexts": contexts[5:].tolist(), "rewards": paid.tolist()}
        answer = await client.post(f"/v1/sessions/{session}/history", json=body)
        assert answer.status_code == 201, answer.text

        async def learned() -> dict | None:
            found = await client.read(f"/v1/sessions/{session}/estimate")
            return found if found.get("n_rows", 0) > 100 and found.get("theta") else None

        found = await until(learned)
        assert np.array(found["theta"]) @ theta > 0.999
        assert len(found["theta"]) == 2
        assert found["active_lags"] == [0, 4]
        assert found["diagnostics"]["score_before"] == pytest.approx(4.2, abs=1.0)
        assert len(found["intervals"]["theta"]) == 2
        replay = replayed(client, session)
        assert replay.differences == []
        assert replay.estimates >= 1
        change = {"options": {"zero_start": True}}
        answer = await client.patch(f"/v1/sessions/{session}", json=change)
        problem(answer, 422, "bad_option", "options.zero_start")
        body = {**shape, "options": {"zero_start": "no"}}
        answer = await client.post("/v1/sessions", json=body)
        problem(answer, 422, "bad_option", "options.zero_start")
