"""Imports and copies on their way: a full folder is said, and nobody's file takes all of it."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from service.base.problems import Problem
from service.base.server_settings import Settings
from service.storage.spool import Spool, SpooledFiles, open_spool
from tests.service.conftest import Serve, problem

FREE = 1000  # bytes of the disk in these tests
NDJSON = {"content-type": "application/x-ndjson"}


class Disk:
    """How much a spool's files leave of FREE."""

    def __call__(self, folder: Path) -> int:
        return FREE - sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def written(files: SpooledFiles, n: int, size: int = 10) -> int:
    """How many bytes of n are written, in parts."""
    with files.opened() as write:
        for done in range(0, n, size):
            try:
                write(b"x" * size)
            except Problem as full:
                if full.code != "storage_full":
                    raise
                return done
    return n


def test_a_tenant_leaves_as_much_free_as_it_has(tmp_path: Path) -> None:
    spool = Spool(tmp_path, free=Disk())
    with ExitStack() as stack:
        shares = [
            written(stack.enter_context(spool.files(who)), FREE) for who in ("a", "a", "b", "c")
        ]
        assert shares == [500, 0, 250, 120]
    assert list(tmp_path.iterdir()) == []
    with spool.files("b") as files:
        assert written(files, FREE) == 500  # all that was taken is free again


def test_a_full_disk_is_a_problem_and_no_defect(tmp_path: Path) -> None:
    with Spool(tmp_path).files("") as files:
        files.path = Path("/dev/full")
        with files.opened() as write, pytest.raises(Problem, match="the disk is full") as refused:
            write(b"x")
    assert (refused.value.status, refused.value.code) == (503, "storage_full")


def test_what_a_killed_server_left_is_removed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lhb.db'}"
    left = tmp_path / "lhb.db-spool" / "lhb-spool-x"
    left.mkdir(parents=True)
    (left / "file").write_bytes(b"x")
    spool = open_spool(Settings(database_url=url))
    assert not left.exists()
    with spool.files("") as files:
        assert files.path.parent.parent == left.parent  # on the disk of the database


@pytest.mark.anyio
async def test_an_import_and_a_copy_without_room_are_said_so(serve: Serve, tmp_path: Path) -> None:
    async with serve(spool_folder=tmp_path / "spool") as client:
        session = await client.create()
        await client.decide(session)
        file = (await client.get(f"/v1/sessions/{session}/events")).content
        client.service.spool = Spool(tmp_path / "spool", free=lambda _: 2 * len(file))
        for _ in range(2):  # the room of the first one is given back
            answer = await client.post("/v1/sessions/import", content=file, headers=NDJSON)
            problem(answer, 503, "storage_full", "body")
            assert answer.headers["retry-after"] == "5"
        answer = await client.post(f"/v1/sessions/{session}/copy", json={"name": "other"})
        problem(answer, 503, "storage_full", "body")
        assert len((await client.read("/v1/sessions"))["items"]) == 1
        client.service.spool = Spool(tmp_path / "spool", free=lambda _: 5 * len(file))
        answer = await client.post("/v1/sessions/import", content=file, headers=NDJSON)
        assert answer.status_code == 201
