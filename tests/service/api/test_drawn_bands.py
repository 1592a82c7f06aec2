"""An estimate of which nothing is shown has bands of posterior draws, and says that they are."""

from typing import Any

import numpy as np
import pytest

from clients.sdk.answers import IntervalsAnswer
from service.api.answer_models import model_of
from tests.service.conftest import Client, Serve, until

pytestmark = pytest.mark.anyio


async def estimate(client: Client, session: str, n: int) -> dict[str, Any]:
    """Return the estimate from a log of some rounds: each pays at once and one round later."""
    path, rng = f"/v1/sessions/{session}", np.random.default_rng(1)
    log = rng.uniform(-1, 1, (n, 2))
    paid = np.convolve(log @ [0.8, -0.6], [1.0, 0.5])[:n]
    rewards = (paid + 0.3 * rng.standard_normal(n)).tolist()
    body = {"contexts": log.tolist(), "rewards": rewards}
    assert (await client.post(f"{path}/history", json=body)).status_code == 201
    assert (await client.post(f"{path}/fits")).is_success

    async def fitted() -> Any:
        found = await client.read(f"{path}/estimate")
        return found if found.get("n_rows") == n else None

    found: dict[str, Any] = await until(fitted)
    return found


async def test_bands_of_draws_are_marked_and_are_exported_and_imported(serve: Serve) -> None:
    async with serve() as client:
        told = {"algorithm": "anytime", "dim": 2, "horizon": 4, "seed": 7}
        few, many = [await client.create(**told) for _ in range(2)]
        drawn, shown = await estimate(client, few, 40), await estimate(client, many, 400)
        assert drawn["intervals"]["drawn"]
        assert drawn["no_intervals"]
        assert "drawn" not in shown["intervals"]
        assert shown["no_intervals"] is None
        model_of(IntervalsAnswer).model_validate(drawn["intervals"])
        for (low, high), value in zip(drawn["intervals"]["theta"], drawn["theta"], strict=True):
            assert low <= value <= high
        file = (await client.get(f"/v1/sessions/{few}/events")).content
        made = await client.post("/v1/sessions/import?name=again", content=file)
        assert made.status_code == 201, made.text
        again = await client.read(f"/v1/sessions/{made.json()['id']}/estimate")
        assert again["intervals"] == drawn["intervals"]
