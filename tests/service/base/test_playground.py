"""The playground: closed by default, bounded, and played by the engine."""

import asyncio
from typing import Any

import pytest

from service.base.playground import Playground, PlaygroundBody
from service.base.problems import Problem
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio
nothing_is_stored = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
WORLD: PlaygroundBody = {
    **{"lag_weights": [0.0, 1.0], "noise": 0.1, "arms": 3, "dim": 2, "rounds": 60, "seed": 1}
}
PATH = "/dashboard/playground"


@nothing_is_stored
async def test_it_is_closed_by_default(serve: Serve) -> None:
    async with serve() as client:
        assert (await client.read(PATH))["is_open"] is False
        problem(await client.post(PATH, json=WORLD), 404, "unknown_route")
        assert client.service.playground._processes._pool is None


@nothing_is_stored
async def test_it_is_bounded_and_plays(serve: Serve) -> None:
    async with serve(playground=True) as client:
        client.service.playground.seconds = 300.0  # on a busy machine too
        limits = (await client.read(PATH))["limits"]
        too_large: dict[str, Any] = {
            name: limits[name] + 1 for name in ("arms", "dim", "rounds", "noise")
        }
        too_large["lag_weights"] = [0.0] * (limits["lags"] + 1)
        for name, value in too_large.items():
            answer = await client.post(PATH, json={**WORLD, name: value})
            problem(answer, 422, "out_of_range", name)
        answers = await asyncio.gather(*(client.post(PATH, json=WORLD) for _ in range(2)))
        answer, refused = sorted(answers, key=lambda one: one.status_code)
        problem(refused, 503, "overloaded")  # one world at a time
        played = answer.json()
        assert played["round"][-1] == 60
        assert played["agent"][-1] < played["uniform"][-1]
        assert played["fits"][-1]["lag_weights"][1] == pytest.approx(1.0, abs=0.2)


async def test_a_play_that_takes_too_long_is_stopped() -> None:
    grounds = Playground(niceness=0)
    grounds.seconds = 0.01
    try:
        with pytest.raises(Problem, match="took longer"):
            await grounds.run(WORLD)
        assert not grounds.is_busy
    finally:
        await grounds.close()
