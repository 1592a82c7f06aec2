"""Deleted sessions: gone at once, and erased in the background by slices."""

from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from service.api.runtime import Service
from service.commands.erase_trajectory import erase_slice, sweep
from service.commands.sessions import remove_session
from service.session.records import HiddenRows
from service.storage.ports import Changes
from service.storage.transactions import Slices
from tests.contracts.test_store_hidden import n_rows
from tests.service.conftest import Serve, until
from tests.service.service_harness import ServiceHarness

pytestmark = pytest.mark.anyio


async def is_swept(service: Service) -> bool:
    """Whether no row of any session is left."""
    return not any(n_rows(service.store).values())


async def test_a_deleted_session_is_erased_while_others_decide(serve: Serve) -> None:
    async with serve() as client:
        client.service.store.slices = Slices(rows=5)
        session = await client.create(name="shop", algorithm="ad_lasso")
        path = f"/v1/sessions/{session}"
        body = {"contexts": [[1.0, 0.5]] * 60, "rewards": [1.0] * 60}
        assert (await client.post(f"{path}/history", json=body)).status_code == 201
        assert (await client.delete(path)).status_code == 204
        assert (await client.get(path)).status_code == 404
        assert (await client.get(f"{path}/rounds")).status_code == 404
        assert (await client.delete(path)).status_code == 404
        again = await client.create(name="shop")  # the name is free at once
        assert (await client.decide(again))["round"] == 1
        assert (await client.delete(f"/v1/sessions/{again}")).status_code == 204
        await until(lambda: is_swept(client.service))


async def test_what_a_killed_server_left_is_erased_at_the_next_start(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # until the server has stopped: it looks again at any time
        patch.setattr("service.operation.sweeper.Sweeper._sweep", AsyncMock())
        async with serve() as client:
            session = await client.create()
            await client.decide(session)
            assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
            assert n_rows(client.service.store)["decisions"] == 1
    async with serve() as client:
        await until(lambda: is_swept(client.service))


@pytest.mark.parametrize(
    ("writer", "sweep_at", "abandoned_by", "is_erased"),
    [
        (None, 2000.0, None, True),
        ("w", 2000.0, None, False),
        ("w", 1000.0, None, True),
        ("w", 2000.0, "w", True),
        ("w", 2000.0, "another", False),
    ],
)
def test_the_rows_of_a_living_writer_are_left_alone(
    harness: ServiceHarness,
    writer: str | None,
    sweep_at: float,
    abandoned_by: str | None,
    is_erased: bool,
) -> None:
    harness.create()
    harness.rounds(4)
    key = harness.key
    note = HiddenRows(*key, "", 2, writer, sweep_at)
    transaction = harness.store.begin()
    transaction.run(transaction.commit(Changes(hidden=[note])))
    harness.run_large(sweep(key, abandoned_by=abandoned_by))
    with harness.store.reader() as reader:
        assert n_rows(harness.store)["decisions"] == (2 if is_erased else 4)
        assert reader.hidden() == ([] if is_erased else [note])


def test_a_writer_finds_that_its_rows_are_no_longer_its_own(harness: ServiceHarness) -> None:
    harness.store.slices = Slices(rows=1)
    harness.create()
    harness.rounds(4)
    transaction = harness.store.begin()
    note = HiddenRows(*harness.key, "", 2, "w", 0.0)
    transaction.run(transaction.commit(Changes(hidden=[note])))
    assert harness.run(erase_slice(harness.key)) is not None
    with harness.store.reader() as reader:
        assert reader.hidden() == [note._replace(writer=None)]


def test_erasing_twice_from_one_place_is_harmless(tmp_path: Path) -> None:
    """A batch that is rolled back runs its commands again."""
    harness = ServiceHarness(tmp_path)
    harness.create()
    harness.rounds(3)
    harness.run(remove_session(harness.key))
    slice = erase_slice(harness.key)
    assert harness.run(slice) is None
    assert harness.run(slice) is None
    assert not any(n_rows(harness.store).values())
    harness.close()
