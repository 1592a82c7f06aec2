"""Listings go on by their cursor, and no page is larger than it has to be."""

import base64

import numpy as np
import pytest

from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio


@on_one_database
@pytest.mark.parametrize("listing", ["rounds", "credit"])
async def test_rounds_of_many_numbers_come_in_small_pages(serve: Serve, listing: str) -> None:
    dim, n = 20_000, 17
    row = np.random.default_rng(1).normal(size=(1, dim))
    contexts = {"dtype": "float64", "shape": [1, dim], "data": base64.b64encode(row).decode()}
    async with serve() as client:
        session = await client.create(dim=dim)
        for _ in range(n):
            await client.decide(session, contexts)
        rounds, cursor, n_pages = [], "0", 0
        while cursor is not None:
            path = f"/v1/sessions/{session}/{listing}?limit=1000&cursor={cursor}"
            answer = await client.get(path)
            assert answer.status_code == 200
            assert len(answer.content) < 5 * 2**20
            rounds += [item["round"] for item in answer.json()["items"]]
            cursor = answer.json()["next"]
            n_pages += 1
        assert rounds == list(range(1, n + 1))
        assert n_pages == 3  # 160 kB a round: seven are more than a megabyte


async def test_small_items_fill_their_page(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for _ in range(25):
            await client.decide(session)
        path = f"/v1/sessions/{session}/rounds"
        for limit, cursor, first, last, following in (
            (25, 0, 1, 25, None),
            (24, 0, 1, 24, "24"),
            (10, 20, 21, 25, None),
            (1, 3, 4, 4, "4"),
        ):
            page = await client.read(f"{path}?limit={limit}&cursor={cursor}")
            rounds = [item["round"] for item in page["items"]]
            assert (rounds, page["next"]) == (list(range(first, last + 1)), following)
        assert (await client.read(f"{path}?cursor=25"))["items"] == []
        problem(await client.get(f"{path}?trajectory=%00"), 422, "invalid", "trajectory")
