"""A disk that is full, or cannot be written: 503 with the reason, nothing by halves, and back."""

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.base.problems import Unavailable
from service.storage.database_url import open_store
from service.storage.maintenance import migrate
from tests.faults.server_process import Server

ARMS = [[0.5, -0.25], [1.0, 2.0]]


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs leave to mount a small file system: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def create(client: httpx.Client) -> str:
    body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
    return str(client.post("/v1/sessions", json=body).json()["id"])


def decide(client: httpx.Client, session: str, i: int) -> httpx.Response:
    body = {"contexts": ARMS, "event_id": f"e{i}"}
    if i > 1:
        body["rewards"] = [{"round": i - 1, "value": float(i - 1)}]
    return client.post(f"/v1/sessions/{session}/decisions", json=body)


def log_of(client: httpx.Client, session: str) -> list[Any]:
    items: list[Any] = []
    cursor = "0"
    while cursor:
        path = f"/v1/sessions/{session}/rounds?limit=1000&cursor={cursor}"
        page = client.get(path).json()
        items += page["items"]
        cursor = page["next"]
    return items


def assert_whole(client: httpx.Client, session: str, n: int) -> None:
    """n rounds, and the reward of each but the last."""
    log = log_of(client, session)
    assert [item["round"] for item in log] == list(range(1, n + 1))
    assert [item["reward"] for item in log[:-1]] == [float(i) for i in range(1, n)]
    assert log[-1]["reward"] is None


def test_a_full_disk(small_disk: Path) -> None:
    filler = small_disk / "filler"
    with Server(small_disk / "lhb.db") as server, server.client() as client:
        session = create(client)
        n = 0
        for _ in range(20):
            n += 1
            assert decide(client, session, n).status_code == 201
        free = os.statvfs(small_disk)
        filler.write_bytes(b"\0" * (free.f_bavail * free.f_bsize - 40_000))
        while (answer := decide(client, session, n + 1)).status_code == 201:
            n += 1
            assert n < 5000
        assert answer.status_code == 503, answer.text
        assert answer.json()["code"] in ("storage_full", "storage_failing")
        assert "disk" in answer.json()["detail"]
        assert answer.headers["retry-after"]
        assert client.get("/healthz").status_code == 200
        assert_whole(client, session, n)
        for _ in range(3):
            assert decide(client, session, n + 1).status_code == 503
        filler.unlink()
        for _ in range(20):
            n += 1
            answer = decide(client, session, n)
            assert answer.status_code == 201, answer.text
            assert answer.json()["round"] == n
        assert_whole(client, session, n)
        server.kill()
    with Server(small_disk / "lhb.db") as again, again.client() as client:
        assert_whole(client, session, n)


def test_a_server_that_starts_on_a_full_disk_says_so(small_disk: Path) -> None:
    file = small_disk / "lhb.db"
    migrate(f"sqlite:///{file}")
    open_store(f"sqlite:///{file}").close()
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"\0" * (free.f_bavail * free.f_bsize))
    with pytest.raises(Unavailable, match="the disk is full"):
        open_store(f"sqlite:///{file}")


def wide(client: httpx.Client, session: str, i: int) -> httpx.Response:
    """A decision of more than 2 kB."""
    body = {"contexts": [[1.0] * 256], "event_id": f"e{i}"}
    return client.post(f"/v1/sessions/{session}/decisions", json=body)


@pytest.mark.slow
def test_the_log_leaves_a_small_disk_to_the_data(small_disk: Path) -> None:
    """It would be moved after 16 MB: there are 3. Nor does it keep what a failed import took."""
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * 2**19)
    with Server(small_disk / "lhb.db") as server, server.client() as client:
        body = {"algorithm": "uniform", "dim": 256, "horizon": 4}
        session = str(client.post("/v1/sessions", json=body).json()["id"])
        path = f"/v1/sessions/{session}/history"
        answer = client.post(path, json={"contexts": [[1.0] * 256] * 1500})
        assert (answer.status_code, answer.json()["code"]) == (503, "storage_full")
        n = 0
        for harness in (2.5 * 2**20, 3 * 2**20):  # a decision takes a page of 4 kB
            while (answer := wide(client, session, n + 1)).status_code == 201:
                n += 1
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_full")
            assert n * 4096 > 0.8 * harness
            assert [item["round"] for item in log_of(client, session)] == list(range(1, n + 1))
            filler.unlink(missing_ok=True)
        server.kill()
    with Server(small_disk / "lhb.db") as again, again.client() as client:
        assert [item["round"] for item in log_of(client, session)] == list(range(1, n + 1))


def test_a_log_that_the_disk_has_no_room_for_blocks_nobody(small_disk: Path) -> None:
    """It fails with the true cause as often as it comes, and is taken once there is room."""
    with Server(small_disk / "lhb.db") as server, server.client() as client:
        body = {"algorithm": "uniform", "dim": 256, "horizon": 4}
        session = str(client.post("/v1/sessions", json=body).json()["id"])
        path = f"/v1/sessions/{session}/history"
        log = {"contexts": [[1.0] * 256] * 1500, "import_id": "a"}
        for n in (1, 2):
            answer = client.post(path, json=log)
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_full")
            assert answer.headers["retry-after"]
            assert wide(client, session, n).status_code == 201
        mount("-o", "remount,size=32m", str(small_disk))
        answer = client.post(path, json=log)
        assert answer.status_code == 201, answer.text
        assert (answer.json()["first_round"], answer.json()["last_round"]) == (3, 1502)
        assert client.post(path, json=log).status_code == 200
        assert wide(client, session, 3).json()["round"] == 1503


def test_a_disk_that_was_mounted_read_only(small_disk: Path) -> None:
    database = small_disk / "lhb.db"
    with Server(database) as server, server.client() as client:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        server.stop()
    mount("-o", "remount,ro", str(small_disk))
    try:
        with pytest.raises(AssertionError, match=r"(?i)read.?only|cannot be (written|opened)"):
            Server(database).start()
    finally:
        mount("-o", "remount,rw", str(small_disk))
    with Server(database) as again, again.client() as client:
        assert decide(client, session, 2).json()["round"] == 2
        assert_whole(client, session, 2)


class Immutable:
    """Files on ext4 that nobody may write any more, not through what is open either.

    (A file system with files open for writing cannot be remounted read-only.)
    """

    code, said = "storage_readonly", "cannot be written"

    def __init__(self, server: Server, folder: Path) -> None:
        self._folder = folder

    def begin(self) -> None:
        self._change("+i")

    def end(self) -> None:
        self._change("-i")

    def _change(self, how: str) -> None:
        files = [str(self._folder / f"lhb.db{end}") for end in ("", "-wal")]
        subprocess.run(["chattr", how, *files], check=True)


class NoFileWrites:
    """A limit of the process: the kernel refuses it every write to a file."""

    code, said = "storage_failing", "the disk reports an error"

    def __init__(self, server: Server, folder: Path) -> None:
        assert server.process is not None
        self._pid = server.process.pid

    def begin(self) -> None:
        _, hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (0, hard))

    def end(self) -> None:
        _, hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (hard, hard))


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Path]:
    """A small ext4 of its own, from a file."""
    image, disk = tmp_path / "image", tmp_path / "ext4"
    image.write_bytes(b"")
    os.truncate(image, 32 * 2**20)
    disk.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    mount("-o", "loop", str(image), str(disk))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


@pytest.mark.parametrize("cause", [Immutable, NoFileWrites])
def test_a_database_that_becomes_read_only_while_it_is_served(
    ext4: Path, cause: type[Immutable | NoFileWrites]
) -> None:
    with Server(ext4 / "lhb.db") as server, server.client() as client:
        session = create(client)
        for i in range(1, 6):
            assert decide(client, session, i).status_code == 201
        fault = cause(server, ext4)
        fault.begin()
        try:
            for _ in range(3):
                answer = decide(client, session, 6)
                assert (answer.status_code, answer.json()["code"]) == (503, fault.code)
                assert fault.said in answer.json()["detail"]
                assert "nothing was written" in answer.json()["detail"]
                assert answer.headers["retry-after"]
            body = {"algorithm": "uniform", "dim": 2, "horizon": 4, "name": "new"}
            assert client.post("/v1/sessions", json=body).json()["code"] == fault.code
            assert_whole(client, session, 5)  # what is there can be read
            assert client.get("/readyz").status_code == 200
        finally:
            fault.end()
        for i in range(6, 11):  # by itself
            assert decide(client, session, i).json()["round"] == i
        assert_whole(client, session, 10)
        assert client.post("/v1/sessions", json=body).status_code == 201
        server.kill()
    with Server(ext4 / "lhb.db") as again, again.client() as client:
        assert_whole(client, session, 10)


def test_shared_memory_that_becomes_read_only_loses_nothing(ext4: Path) -> None:
    """SQLite's index of its log is mapped memory: where that can be written no more, the kernel may
    end the process (SIGBUS). Then the next start finds all that was answered."""
    database = ext4 / "lhb.db"
    with Server(database) as server, server.client() as client:
        session, n = create(client), 0
        for _ in range(5):
            n += decide(client, session, n + 1).status_code == 201
        assert n == 5
        files = [f"{database}{end}" for end in ("", "-wal", "-shm")]
        os.sync()
        subprocess.run(["chattr", "+i", *files], check=True)
        try:
            for _ in range(3):
                assert decide(client, session, n + 1).status_code == 503
        except httpx.TransportError:
            assert server.process is not None
            assert server.process.wait(10) == -signal.SIGBUS
        finally:
            subprocess.run(["chattr", "-i", *files], check=True)
        server.kill()
    with Server(database) as again, again.client() as client:
        assert decide(client, session, 6).json()["round"] == 6
        assert_whole(client, session, 6)


def test_a_database_that_refuses_writes_while_it_is_served(tmp_path: Path) -> None:
    """Another process holds the write lock: busy, then fine again, and nothing by halves."""
    import sqlite3

    database = tmp_path / "lhb.db"
    with Server(database) as server, server.client() as client:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        with sqlite3.connect(database, isolation_level=None) as other:
            other.execute("begin immediate")
            answer = decide(client, session, 2)  # answered while the lock is held
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_busy")
            other.execute("rollback")
        other.close()
        assert decide(client, session, 2).json()["round"] == 2
        assert_whole(client, session, 2)
