"""`repetition`: how much of what an arm has was chosen lately, a column worked out."""

from typing import Any

import numpy as np
import pytest

from lhb_engine.history import Floats
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio
MEMORY = 3
TOLD: dict[str, Any] = {
    "dim": 4,
    "horizon": 4,
    "seed": 7,
    "features": ["price", "new"],
    "products": [["price", "new"]],
    "repetition": MEMORY,
}


def contexts_at(i: int) -> list[list[float]]:
    return [[0.5 * j - 1.0, float((i + j) % 3)] for j in range(3)]


def expected(chosen: list[list[float] | None]) -> list[float]:
    """Return the column of each choice of (price, new), by the equation."""
    lately, found = np.zeros(2), []
    for context in chosen:
        x = np.zeros(2) if context is None else np.array(context)
        if context is not None:
            found.append(float(x @ lately))
        lately = lately + (x - lately) / MEMORY
    return found


async def columns_of(client: Client, session: str, trajectory: str = "") -> Floats:
    rounds = await client.read(f"/v1/sessions/{session}/rounds?trajectory={trajectory}")
    return np.array([item["context"] for item in rounds["items"] if item["context"]])


async def test_the_column_is_what_was_chosen_before_in_its_own_trajectory(serve: Serve) -> None:
    """Scores are by all arms' columns; a round without action fades; a restart keeps all."""
    chosen: dict[str, list[list[float] | None]] = {"a": [], "b": []}
    async with serve() as client:
        session = await client.create(name="tires", **TOLD)
        made = await client.read(f"/v1/sessions/{session}")
        assert made["features"] == ["price", "new", "price x new", "repetition"]
        assert made["repetition"] == MEMORY
        for i in range(9):
            key, contexts = "ab"[i % 2], contexts_at(i)
            given: Any = contexts if i % 3 else [{"price": p, "new": n} for p, n in contexts]
            found = await client.decide(session, given, trajectory=key, forced_arm=i % 3)
            chosen[key].append(contexts[found["arm"]])
        await client.decide(session, None, trajectory="a", skip=True)
        chosen["a"].append(None)
    async with serve() as client:
        last = await client.decide(session, contexts_at(1), trajectory="a")
        chosen["a"].append(contexts_at(1)[last["arm"]])
        for key, ones in chosen.items():
            found = await columns_of(client, session, key)
            assert found[:, 3] == pytest.approx(expected(ones), abs=1e-12)
            assert found[:, 2] == pytest.approx(found[:, 0] * found[:, 1])
            assert np.abs(found[:, 3]).max() > 0.3


@on_one_database
async def test_a_log_counts_as_its_decisions_and_a_copy_goes_on_from_it(serve: Serve) -> None:
    """An import works out again what a trajectory keeps: later choices are those of the original.

    A log in several slices has it, too.
    """
    async with serve() as client:
        session = await client.create(name="log", **TOLD)
        rng = np.random.default_rng(1)
        log = rng.uniform(-1, 1, (300, 2)).tolist()
        body = {"contexts": log, "rewards": [1.0] * 300, "trajectory": "u"}
        assert (await client.post(f"/v1/sessions/{session}/history", json=body)).status_code == 201
        found = await columns_of(client, session, "u")
        assert found[:, 3] == pytest.approx(expected([*log])[: len(found)], abs=1e-12)
        file = (await client.get(f"/v1/sessions/{session}/events")).content
        made = await client.post("/v1/sessions/import?name=again", content=file)
        assert made.status_code == 201, made.text
        ours = await client.decide(session, contexts_at(5), trajectory="u")
        theirs = await client.decide(made.json()["id"], contexts_at(5), trajectory="u")
        assert ours["scores"] == theirs["scores"]
        last = [await columns_of(client, one, "u") for one in (session, made.json()["id"])]
        assert (last[0] == last[1]).all()


@on_one_database
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"features": None, "products": None}, "repetition"),
        ({"repetition": 0}, "repetition"),
        ({"features": ["price", "new", "repetition"]}, "features"),
        ({"dim": 3}, "features"),
    ],
)
async def test_where_there_is_no_such_column_it_is_refused(
    serve: Serve, change: dict[str, Any], field: str
) -> None:
    async with serve() as client:
        refused = await client.post("/v1/sessions", json={"name": "bad", **TOLD, **change})
        problem(refused, 422, refused.json()["code"], field)
