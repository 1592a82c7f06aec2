"""A database file that is removed or replaced under its server, and copies without their log."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from service.storage.database_url import open_reader, open_store
from service.storage.ports import Refused
from tests.faults.server_process import Server, url_of
from tests.faults.test_disk import assert_whole, create, decide, log_of


def removed(file: Path) -> None:
    file.unlink()


def moved_away(file: Path) -> None:
    file.rename(file.with_name("elsewhere.db"))


def replaced(file: Path) -> None:
    other = file.with_name("other.db")
    other.write_bytes(b"")
    other.rename(file)


def log_removed(file: Path) -> None:
    Path(f"{file}-wal").unlink()


def assert_nothing_is_acknowledged(client: httpx.Client, session: str, first: int) -> None:
    """Asked when the loss was not noticed yet, the outcome is unknown; then nothing is written."""
    codes = []
    for i in range(first, first + 3):
        answer = decide(client, session, i)
        assert answer.status_code == 503, answer.text
        codes.append(answer.json()["code"])
        assert "removed or replaced" in answer.json()["detail"]
    assert codes[1:] == ["storage_failing"] * 2
    assert codes[0] in ("outcome_unknown", "storage_failing")
    assert client.get("/readyz").json()["code"] == "storage_failing"
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("lose", [removed, moved_away, replaced, log_removed])
def test_a_server_without_its_file_acknowledges_nothing(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    file = tmp_path / "lhb.db"
    server = Server(file)
    server.leaves_sessions = False
    with server, server.client() as client:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        lose(file)
        while (answer := client.get("/readyz")).status_code == 200:  # for a moment
            pass
        assert answer.json()["code"] == "storage_failing"
        assert_nothing_is_acknowledged(client, session, 2)


def test_a_commit_into_a_file_that_has_gone_is_not_acknowledged(tmp_path: Path) -> None:
    """Also if nobody has looked since."""
    file = tmp_path / "lhb.db"
    server = Server(file)
    server.leaves_sessions = False
    with server, server.client() as client:
        session = create(client)
        n = 0
        while decide(client, session, n + 1).status_code == 201:
            n += 1
            assert n < 1000
            if n == 5:
                removed(file)
        assert_nothing_is_acknowledged(client, session, n + 2)


def test_a_file_that_comes_back_is_served_on(tmp_path: Path) -> None:
    file = tmp_path / "lhb.db"
    with Server(file) as server, server.client() as client:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        moved_away(file)
        while client.get("/readyz").status_code == 200:
            pass
        assert decide(client, session, 2).status_code == 503
        file.with_name("elsewhere.db").rename(file)
        while client.get("/readyz").status_code == 503:
            pass
        assert decide(client, session, 2).json()["round"] == 2
        assert_whole(client, session, 2)


def test_what_a_removed_log_held_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "lhb.db"
    with Server(file) as server, server.client() as client:
        session, n = create(client), 5
        for i in range(1, n + 1):
            assert decide(client, session, i).status_code == 201
        log_removed(file)
        while decide(client, session, n + 1).status_code == 201:
            n += 1
        server.kill()
    with Server(file) as again, again.client() as client:
        assert len(log_of(client, session)) in (n, n + 1)
        assert decide(client, session, n + 1).json()["round"] == n + 1
        assert_whole(client, session, n + 1)


def copied(file: Path, name: str, *ends: str) -> Path:
    for end in ("", *ends):
        shutil.copy(f"{file}{end}", file.with_name(f"{name}{end}"))
    return file.with_name(name)


def test_a_copy_without_its_log_is_refused(tmp_path: Path) -> None:
    """At first, and after a checkpoint; with the log, or by SQLite's own backup, it is whole."""
    file = tmp_path / "lhb.db"
    with Server(file) as server, server.client() as client:
        body = {"algorithm": "uniform", "dim": 256, "horizon": 4}
        session = str(client.post("/v1/sessions", json=body).json()["id"])
        wide = {"contexts": [[1.0] * 256]}
        assert client.post(f"/v1/sessions/{session}/decisions", json=wide).status_code == 201
        early = copied(file, "early.db")
        before = file.stat().st_size
        n = 1
        while file.stat().st_size == before:  # until a checkpoint
            answer = client.post(
                f"/v1/sessions/{session}/history", json={"contexts": [[1.0] * 256] * 500}
            )
            assert answer.status_code < 300, answer.text
            n += 500
            assert n < 50_000
        late = copied(file, "late.db")
        whole = copied(file, "whole.db", "-wal")
        backup = tmp_path / "backup.db"
        with closing(sqlite3.connect(file)) as here, closing(sqlite3.connect(backup)) as there:
            here.backup(there)
        with pytest.raises(AssertionError, match=r"copied without its log .*-wal"):
            Server(early).start()
        for open_copy in (open_store, open_reader_at_once):
            with pytest.raises(Refused, match="copied without its log"):
                open_copy(url_of(late))
        assert [n_rounds(copy, session) for copy in (whole, backup)] == [n, n]
        with closing(sqlite3.connect(late)) as there:  # as the message says
            there.execute("pragma user_version = 0")
        assert n_rounds(late, session) <= n
        server.kill()
    assert n_rounds(file, session) == n  # killed, its log is there
    open_store(url_of(file)).close()
    assert not os.path.exists(f"{file}-wal")
    assert n_rounds(copied(file, "stopped.db"), session) == n


def open_reader_at_once(url: str) -> None:
    with open_reader(url):
        pass


def n_rounds(file: Path, session: str) -> int:
    with open_reader(url_of(file)) as reader:
        found = reader.session(("", session))
    assert found is not None
    return found.n_rounds


def test_a_copy_from_an_earlier_release_without_tables_is_refused(tmp_path: Path) -> None:
    """That is all of a new database that was outside its log."""
    file = tmp_path / "lhb.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma journal_mode = wal")
    assert file.stat().st_size > 0
    with pytest.raises(AssertionError, match=r"copied without its log"):
        Server(file).start()


def test_a_server_whose_database_is_lost_does_not_begin_an_empty_one(tmp_path: Path) -> None:
    """Started again by the system, it would have no keys."""
    backups = tmp_path / "backups"
    backups.mkdir()
    file = tmp_path / "lhb.db"
    told = {"LHB_BACKUP_FOLDER": str(backups)}
    with Server(file, **told) as server, server.client() as client:
        create(client)
    (backups / "monday.lhb").write_bytes(b"of another day")
    with Server(file, **told):
        pass
    file.rename(tmp_path / "gone.db")
    with pytest.raises(AssertionError, match=r"holds backups: bring one back with `lhb restore`"):
        Server(file, **told).start()
    assert not file.exists()
