"""`profiles` as lists of features that share a lag profile, by name or number."""

from typing import Any

import numpy as np
import pytest

from service.transfer.replay import replay_session
from tests.service.conftest import Client, Serve, problem, until

pytestmark = pytest.mark.anyio
PROFILES = np.array([[1.0, 0.0, -0.5], [0.5, 0.0, -0.25], [0.0, 0.6, 0.0], [0.0, 0.6, 0.0]])
TOLD: dict[str, Any] = {"dim": 3, "horizon": 4, "seed": 7, "features": ["a", "b", "c"]}


def second(profiles: list[list[float]]) -> float:
    """Return the second singular value of what a and c pay, over the first."""
    sizes = np.linalg.svd(np.array(profiles)[:, [0, 2]])[1]
    return float(sizes[1] / sizes[0])


async def estimate(client: Client, session: str) -> dict[str, Any]:
    """Return the estimate from a log of 200 rounds."""
    path, rng = f"/v1/sessions/{session}", np.random.default_rng(1)
    log = rng.uniform(-1, 1, (200, 3))
    paid = sum(np.convolve(log[:, i], PROFILES[:, i])[:200] for i in range(3))
    rewards = (paid + 0.3 * rng.standard_normal(200)).tolist()
    body = {"contexts": log.tolist(), "rewards": rewards}
    assert (await client.post(f"{path}/history", json=body)).status_code == 201
    assert (await client.post(f"{path}/fits")).is_success

    async def fitted() -> Any:
        found = await client.read(f"{path}/estimate")
        return found if found.get("n_rows") == 200 else None

    found: dict[str, Any] = await until(fitted)
    return found


async def test_features_that_share_a_profile_are_told_by_name(serve: Serve) -> None:
    """So they are answered, exported and imported; fits are replayed; PATCH changes them."""
    options = {"profiles": [["a", "c"]]}
    async with serve() as client:
        session = await client.create(algorithm="anytime", options=options, **TOLD)
        path = f"/v1/sessions/{session}"
        assert (await client.read(path))["options"] == options
        assert second((await estimate(client, session))["lag_profiles"]) < 0.03
        file = (await client.get(f"{path}/events")).content
        made = await client.post("/v1/sessions/import?name=again", content=file)
        assert made.status_code == 201, made.text
        assert made.json()["options"] == options
        with client.service.store.reader() as reader:
            found = reader.session(("", made.json()["id"]))
            assert found is not None
            assert replay_session(reader, found).differences == []
        problem(
            await client.patch(path, json={"options": {"profiles": [["a", "d"]]}}),
            422,
            "bad_option",
            "options.profiles",
        )
        changed = await client.patch(path, json={"options": {"profiles": [[0, 1]]}})
        assert changed.status_code == 200, changed.text
        assert changed.json()["options"] == {"profiles": [[0, 1]]}
