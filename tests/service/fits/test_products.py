"""Products of features that fits find: they count in scores, and answers name them."""

import json
from typing import Any

import numpy as np
import pytest

from tests.service.conftest import Client, Serve, problem, until
from tests.service.transfer.test_import_forgeries import resealed
from tests.service.transfer.test_replay import replayed

pytestmark = pytest.mark.anyio
TYPED = {"content-type": "application/x-ndjson"}
NAMED: dict[str, Any] = {"dim": 2, "horizon": 4, "features": ["discount", "weekend"]}


def log(n: int, seed: int = 0) -> dict:
    """Rewards of the round before, of two features and of their product."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (n, 2))
    scores = contexts @ [0.6, 0.8] + 0.9 * contexts.prod(axis=1)
    rewards = np.convolve(scores, [0.0, 1.0])[:n] + rng.normal(0, 0.1, n)
    return {"contexts": contexts.tolist(), "rewards": rewards.tolist()}


async def counting(client: Client, **more: Any) -> str:
    """Return a session whose fit has found the product, and counts it."""
    session = await client.create(algorithm="anytime", **NAMED, **more)
    await client.post(f"/v1/sessions/{session}/history", json=log(280))
    await until(lambda: fitted(client, session, 1))
    return session


async def fitted(client: Client, session: str, at_least: int) -> dict | None:
    """Return the last estimate, once the session has had so many fits and none is due."""
    path = f"/v1/sessions/{session}"
    log = (await client.read(f"{path}/estimates"))["items"]
    is_done = len(log) >= at_least and not (await client.read(path))["fit_due"]
    return await client.read(f"{path}/estimate") if is_done else None


async def test_a_product_that_pays_counts_in_the_scores_of_later_decisions(serve: Serve) -> None:
    async with serve() as client:
        session = await counting(client)
        path = f"/v1/sessions/{session}"
        estimate = await client.read(f"{path}/estimate")
        assert estimate["products"] == [[0, 1]]
        assert estimate["features"] == ["discount", "weekend", "discount x weekend"]
        of_one = await client.read(f"{path}/trajectories/")
        assert of_one["features"] == estimate["features"]
        theta = np.array(estimate["theta"])
        assert (
            np.abs(theta - np.array([0.6, 0.8, 0.9]) / np.linalg.norm([0.6, 0.8, 0.9])).max() < 0.1
        )
        contexts = np.random.default_rng(3).uniform(-1, 1, (3, 2))
        body = {"contexts": contexts.tolist()}
        decided = (await client.post(f"{path}/decisions", json=body)).json()
        scores = np.column_stack([contexts, contexts.prod(axis=1)]) @ theta
        np.testing.assert_allclose(decided["scores"], scores, rtol=1e-12)
        assert decided["arm"] == scores.argmax()
        ranked = (await client.post(f"{path}/rank", json=body)).json()
        assert ranked["scores"] == decided["scores"]

        items = (await client.read(f"{path}/credit/features"))["items"]
        assert [one["name"] for one in items] == estimate["features"]
        [last] = (await client.read(f"{path}/credit?cursor=280"))["items"]
        worth = decided["scores"][decided["arm"]] * sum(estimate["lag_weights"])
        assert last["earned"] + last["to_come"] == pytest.approx(worth)
        arms = (await client.read(f"{path}/credit/arms"))["items"]
        assert {len(one["context"]) for one in arms} == {3}
        parts = (await client.read(f"{path}/series"))["items"]
        moved = np.array([one["parts"]["actions"] for one in parts])
        came = np.array([one["reward"] for one in parts if one["reward"] is not None])
        assert np.corrcoef(moved[: len(came)], came)[0, 1] > 0.9
        assert replayed(client, session).differences == []


async def test_a_session_that_counts_products_is_exported_and_imported(serve: Serve) -> None:
    async with serve() as client:
        session = await counting(client)
        lines = (await client.get(f"/v1/sessions/{session}/events")).content
        made = await client.post("/v1/sessions/import", content=lines, headers=TYPED)
        assert made.status_code == 201, made.text
        copy = made.json()["id"]
        read, again = [await client.read(f"/v1/sessions/{one}/estimate") for one in (session, copy)]
        assert (again["products"], again["theta"]) == (read["products"], read["theta"])
        body = {"contexts": log(3, 5)["contexts"]}
        ranked, also = [
            (await client.post(f"/v1/sessions/{one}/rank", json=body)).json()["scores"]
            for one in (session, copy)
        ]
        assert ranked == also
        assert replayed(client, copy).differences == []

        records = [json.loads(line) for line in lines.splitlines()[:-1]]
        last = [one for one in records if (one.get("estimate") or {}).get("products")][-1]
        for products in ([[0, 2]], [[1, 0]], [[0]], [[0, 1], [0, 1]], []):
            last["estimate"]["products"] = products
            refused = await client.post(
                "/v1/sessions/import", content=resealed(records), headers=TYPED
            )
            field = f"estimate.estimate.{'products' if products else 'theta'}"
            problem(refused, 422, "bad_import", field)
        last["estimate"]["products"] = [[0, 1], [0, 0], *([n, n] for n in range(11))]
        refused = await client.post("/v1/sessions/import", content=resealed(records), headers=TYPED)
        problem(refused, 422, "bad_import", "estimate.estimate.products")


async def test_who_adopts_nothing_is_advised_to_make_a_copy(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="anytime", **NAMED, options={"adopts": False})

        async def found() -> list | None:
            read = await client.read(f"/v1/sessions/{session}/estimate")
            return [one for one in read["findings"] if one["code"] == "scores_curved"] or None

        await client.post(f"/v1/sessions/{session}/history", json=log(200))
        [finding] = await until(found)
        assert "Make a copy with their product in the setting `products`" in finding["message"]


async def test_a_log_is_fitted_once_with_its_product(serve: Serve) -> None:
    """What is found is decided on by the fit that found it."""
    async with serve() as client:
        session = await client.create(algorithm="anytime", **NAMED)
        await client.post(f"/v1/sessions/{session}/history", json=log(300))
        estimate = await until(lambda: fitted(client, session, 1))
        assert (estimate["n_rows"], estimate["products"]) == (300, [[0, 1]])
        assert estimate["findings"] == []
        assert replayed(client, session).differences == []


async def test_a_fit_by_other_options_keeps_products(serve: Serve) -> None:
    """No rounds are decided without them, here or where the session moves to, and it replays."""
    async with serve() as client:
        session = await counting(client)
        path = f"/v1/sessions/{session}"
        await client.patch(path, json={"options": {"trend": True}})
        estimate = await until(lambda: fitted(client, session, 2))
        assert (estimate["products"], len(estimate["theta"])) == ([[0, 1]], 3)
        assert len(estimate["effects"]["values"]) == 1
        assert replayed(client, session).differences == []
        lines = (await client.get(f"{path}/events")).content
        made = await client.post("/v1/sessions/import", content=lines, headers=TYPED)
        assert replayed(client, made.json()["id"]).differences == []

        await client.patch(path, json={"options": {"own": True}})  # which are of features alone
        estimate = await until(lambda: fitted(client, session, 3))
        assert (estimate["products"], len(estimate["theta"])) == ([], 2)
        assert replayed(client, session).differences == []
