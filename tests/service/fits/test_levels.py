"""Levels of trajectories as an option of a session: fitted, answered, copied, made again."""

import numpy as np
import pytest

from tests.examples import on_one_database
from tests.service.conftest import Serve, problem, until
from tests.service.transfer.test_replay import replayed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fully_drawn")]


@on_one_database
async def test_a_session_learns_beside_levels_of_learners(serve: Serve) -> None:
    rng = np.random.default_rng(0)
    body: dict = {"trajectories": {}}
    levels = rng.normal(10, 4, 40)
    for i, level in enumerate(levels):
        contexts = rng.uniform(-1, 1, (12, 2))
        paid = np.convolve(contexts @ [0.6, 0.8], [0.3, 0.0, 0.7])[:12]
        rewards = level + paid + rng.normal(0, 0.1, 12)
        body["trajectories"][f"learner-{i}"] = {
            "contexts": contexts.tolist(),
            "rewards": rewards.tolist(),
        }
    async with serve() as client:
        shape = {"algorithm": "anytime", "dim": 2, "horizon": 6, "options": {"levels": True}}
        session = await client.create(**shape)
        for name, part in body["trajectories"].items():
            path = f"/v1/sessions/{session}/history"
            answer = await client.post(path, json={**part, "trajectory": name})
            assert answer.status_code == 201, answer.text

        async def learned() -> dict | None:
            found = await client.read(f"/v1/sessions/{session}/estimate")
            return found if found.get("n_rows", 0) > 300 and found.get("theta") else None

        found = await until(learned)
        assert np.array(found["theta"]) @ [0.6, 0.8] > 0.999
        assert found["active_lags"] == [0, 2]
        low, high = found["levels"]["interval"]
        assert low < levels.std(ddof=1) < high
        assert low < found["levels"]["spread"] < high
        assert found["findings"] == []
        replay = replayed(client, session)
        assert replay.differences == []
        assert replay.estimates >= 1
        path = f"/v1/sessions/{session}/copy"
        copy = await client.post(path, json={"options": {}, "name": "without levels"})
        assert copy.status_code == 201, copy.text
        assert copy.json()["options"] == {}


async def test_what_levels_cannot_be_is_named(serve: Serve) -> None:
    async with serve() as client:
        for shape in ({"dim": 2, "horizon": 6, "levels": 1}, {"dim": 20, "horizon": 60}):
            options = {"levels": shape.pop("levels", True)}
            body = {"algorithm": "anytime", **shape, "options": options}
            answer = await client.post("/v1/sessions", json=body)
            problem(answer, 422, "bad_option", "options.levels")
        session = await client.create(algorithm="anytime", dim=20, horizon=60)
        answer = await client.patch(f"/v1/sessions/{session}", json={"options": {"levels": True}})
        problem(answer, 422, "bad_option", "options.levels")
