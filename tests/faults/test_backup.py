"""`lhb backup` under load, kill -9, `lhb restore`: what was answered before the backup is there."""

import asyncio
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from service.base.server_settings import Settings
from service.storage.database_url import open_store
from service.storage.maintenance import LAST_LINE, back_up, migrate, restore
from service.storage.ports import Refused
from service.storage.postgres import maintenance
from service.storage.schema import SCHEMA
from service.transfer.without_server import import_file
from tests.conftest import database
from tests.faults.load_generator import Player, log_of, make_players, play_all
from tests.faults.server_process import ROOT, Server, WorkerProcess, assert_replay_equals_live
from tests.forked_process import lhb_text

EXPORTED = ROOT / "tests/service/transfer/exported.ndjson"


def lhb(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return lhb_text(*arguments, LHB_DATABASE_URL=url)


@contextmanager
def empty(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database of the same kind."""
    if url.startswith("sqlite"):
        yield f"sqlite:///{tmp_path / 'restored.db'}"
        return
    with database(request.getfixturevalue("postgres_server")) as new:
        yield new


@contextmanager
def served(url: str) -> Iterator[Server]:
    """A server, and the worker that it needs on PostgreSQL."""
    with ExitStack() as running:
        server = running.enter_context(Server(url))
        if not url.startswith("sqlite"):
            running.enter_context(WorkerProcess(url))
        yield server


async def back_up_amid(server: Server, players: list[Player], file: Path) -> list[dict[str, Any]]:
    """Play on during the backup, and some 100 decisions longer; what was answered before it."""
    await play_all(server, players, 300)
    before = [dict(player.decided) for player in players]
    backup = asyncio.create_task(asyncio.to_thread(lhb, server.database, "backup", str(file)))
    n_meanwhile = 0
    while not backup.done():
        n_meanwhile += await play_all(server, players, 100)
    assert (await backup).returncode == 0, (await backup).stderr
    assert n_meanwhile >= 100
    await play_all(server, players, 100)
    return before


def check_restored(
    client: httpx.Client, players: list[Player], before: list[dict[str, Any]]
) -> None:
    """All of before the backup, nothing that was never answered, no round missing between."""
    n_stored, n_answered = 0, 0
    for player, decided in zip(players, before, strict=True):
        rounds = log_of(client, player)
        assert [item["round"] for item in rounds] == list(range(1, len(rounds) + 1))
        stored = {item["event_id"]: (item["round"], item["arm"]) for item in rounds}
        answers = {e: (a["round"], a["arm"]) for e, a in player.decided.items()}
        assert decided.keys() <= stored.keys() <= answers.keys()
        assert stored.items() <= answers.items()
        for item in rounds[: len(decided) - 1]:
            assert item["reward"] == player.rewarded.get(item["round"])
        n_stored, n_answered = n_stored + len(stored), n_answered + len(answers)
    assert n_stored < n_answered  # the backup is of a moment before the end


@pytest.mark.slow
def test_a_backup_under_load_is_restored_after_a_kill(
    tmp_path: Path, database_url: str, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "kept.lhb"
    with served(database_url) as server:
        players = make_players(server, 7)
        before = asyncio.run(back_up_amid(server, players, file))
        server.kill()
    assert file.stat().st_mode & 0o077 == 0
    with empty(database_url, tmp_path, request) as url:
        done = lhb(url, "restore", str(file))
        assert done.returncode == 0, done.stderr
        assert "3 sessions" in done.stdout
        assert assert_replay_equals_live(url) >= 300
        with served(url) as restored, restored.client() as client:
            check_restored(client, players, before)
            for player, decided in zip(players, before, strict=True):  # a retry, and the next round
                event_id, answer = next(iter(decided.items()))
                path = f"/v1/sessions/{player.session}/decisions"
                again = {
                    "contexts": player.next_body()["contexts"],
                    "trajectory": player.trajectory,
                }
                told = client.post(path, json={**again, "event_id": event_id})
                assert told.status_code == 409, answer  # known, with other contexts
                assert client.post(path, json=again).status_code == 201
        assert lhb(url, "restore", str(file)).returncode == 1


def with_sessions(url: str, n: int) -> None:
    migrate(url)
    for i in range(n):
        import_file(Settings(database_url=url), EXPORTED, f"session {i}")


def test_only_an_empty_database_is_filled(
    tmp_path: Path, database_url: str, request: pytest.FixtureRequest
) -> None:
    with_sessions(database_url, 2)
    file = tmp_path / "kept.lhb"
    assert back_up(database_url, file) == (SCHEMA.head, 2)
    with pytest.raises(Refused, match="exists"):
        back_up(database_url, file)
    with pytest.raises(Refused, match="not empty"):
        restore(file, database_url)
    with empty(database_url, tmp_path, request) as url:
        assert restore(file, url) == (SCHEMA.head, 2)
        with pytest.raises(Refused, match="not empty"):
            restore(file, url)
        open_store(url).close()


def test_a_damaged_backup_leaves_the_database_empty(
    tmp_path: Path, database_url: str, request: pytest.FixtureRequest
) -> None:
    with_sessions(database_url, 2)
    file = tmp_path / "kept.lhb"
    back_up(database_url, file)
    content = bytearray(file.read_bytes())
    worse = tmp_path / "cut.lhb"
    worse.write_bytes(content[: len(content) * 2 // 3])
    other = tmp_path / "other.lhb"
    other.write_bytes(b"a shopping list\n" * 100)
    with empty(database_url, tmp_path, request) as url:
        for bad in (worse, other):
            with pytest.raises(Refused):
                restore(bad, url)
        assert restore(file, url).n_sessions == 2


@pytest.mark.parametrize(
    ("begins", "kind", "url"),
    [
        (b"PGDMP\x01", "PostgreSQL", "sqlite:///{}/new.db"),
        (b"SQLite format 3\0", "SQLite", "postgresql://nobody@127.0.0.1:1/none"),
    ],
)
def test_a_backup_of_the_other_kind_of_database_is_called_so(
    tmp_path: Path, begins: bytes, kind: str, url: str
) -> None:
    (tmp_path / "other.lhb").write_bytes(begins + b"1" * 4000)
    with pytest.raises(Refused, match=f"is a backup of {kind}; LHB_DATABASE_URL names another"):
        restore(tmp_path / "other.lhb", url.format(tmp_path))


def test_no_changed_bit_is_restored(
    tmp_path: Path, database_url: str, request: pytest.FixtureRequest
) -> None:
    """A bit in each of 30 parts of the file, and one of the digest; nothing is written."""
    with_sessions(database_url, 2)
    file, bad = tmp_path / "kept.lhb", tmp_path / "bad.lhb"
    back_up(database_url, file)
    content = file.read_bytes()
    rng = random.Random(29)
    n = len(content) - LAST_LINE
    places = [rng.randrange(n * i // 30, n * (i + 1) // 30) for i in range(30)]
    with empty(database_url, tmp_path, request) as url:
        for place in (*places, len(content) - 2):
            changed = bytearray(content)
            changed[place] ^= 1 << rng.randrange(8)
            bad.write_bytes(changed)
            with pytest.raises(Refused, match="damaged"):
                restore(bad, url)
            assert not (tmp_path / "restored.db").exists()
        assert restore(file, url) == (SCHEMA.head, 2)


def test_a_backup_is_a_database_that_sqlite_opens(tmp_path: Path) -> None:
    with_sessions(f"sqlite:///{tmp_path / 'lhb.db'}", 2)
    back_up(f"sqlite:///{tmp_path / 'lhb.db'}", tmp_path / "kept.lhb")
    with closing(sqlite3.connect(tmp_path / "kept.lhb")) as connection:
        assert connection.execute("select count(*) from sessions").fetchone() == (2,)
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_a_database_of_another_program_is_not_backed_up(
    tmp_path: Path, empty_postgres: str
) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("create table songs (name text)")
    with psycopg.connect(empty_postgres) as there:
        there.execute("create table songs (name text)")
    for url in (f"sqlite:///{other}", empty_postgres):
        with pytest.raises(Refused, match="of this program"):
            back_up(url, tmp_path / "kept.lhb")
    assert not list(tmp_path.glob("kept*"))


def test_a_damaged_file_is_not_backed_up(tmp_path: Path) -> None:
    url, path = f"sqlite:///{tmp_path / 'lhb.db'}", tmp_path / "lhb.db"
    with_sessions(url, 20)
    open_store(url).close()  # all of it in the file
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        query = "select rootpage from sqlite_master where name = 'decisions'"
        (page,) = connection.execute(query).fetchone()
    content[(page - 1) * 4096 + 8 : page * 4096] = bytes(4096 - 8)
    path.write_bytes(content)
    with pytest.raises(Refused, match="damaged"):
        back_up(url, tmp_path / "kept.lhb")
    assert not list(tmp_path.glob("kept*"))


def test_a_backup_of_the_first_schema_is_restored_and_migrated(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", f"sqlite:///{tmp_path / 'new.db'}"
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(SCHEMA.script("sqlite", to="0001"))
    assert back_up(f"sqlite:///{old}", tmp_path / "kept.lhb") == ("0001", 0)
    assert restore(tmp_path / "kept.lhb", new) == ("0001", 0)
    assert migrate(new) == ("0001", SCHEMA.head)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("update schema_revision set revision = '9999'")
        connection.commit()
    with pytest.raises(Refused, match="newer release"):
        back_up(f"sqlite:///{old}", tmp_path / "newer.lhb")


def test_a_restore_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    """The copy is one transaction of SQLite's; a server refuses what is left of it."""
    with_sessions(f"sqlite:///{tmp_path / 'lhb.db'}", 20)
    back_up(f"sqlite:///{tmp_path / 'lhb.db'}", tmp_path / "kept.lhb")
    code = (
        "import os, sqlite3; from pathlib import Path; from contextlib import closing;"
        "here, there = map(sqlite3.connect, ('kept.lhb', 'new.db'));"
        "there.execute('pragma cache_size = 4');"
        "die = lambda status, left, total: left < total // 2 and os.kill(os.getpid(), 9);"
        "here.backup(there, pages=1, progress=die)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == -9
    assert (tmp_path / "new.db").stat().st_size > 0
    with pytest.raises(Refused):
        open_store(f"sqlite:///{tmp_path / 'new.db'}")
    found = restore(tmp_path / "kept.lhb", f"sqlite:///{tmp_path / 'new.db'}")
    assert found.n_sessions == 20


def test_a_log_left_beside_is_not_mixed_in(tmp_path: Path) -> None:
    with_sessions(f"sqlite:///{tmp_path / 'lhb.db'}", 1)
    back_up(f"sqlite:///{tmp_path / 'lhb.db'}", tmp_path / "kept.lhb")
    (tmp_path / "new.db-wal").write_bytes(b"commits of a lost file")
    with pytest.raises(Refused, match="move it away"):
        restore(tmp_path / "kept.lhb", f"sqlite:///{tmp_path / 'new.db'}")


def test_tools_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, postgres_url: str
) -> None:
    monkeypatch.setattr(maintenance, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match=r"pg_dump of PostgreSQL \d+ or newer is not on the PATH"):
        back_up(postgres_url, tmp_path / "kept.lhb")
    assert not list(tmp_path.glob("kept*"))


def test_no_password_is_among_the_arguments(tmp_path: Path) -> None:
    """Any user of a machine can read the arguments of its processes."""
    program = tmp_path / "pg_dump"
    program.write_text('#!/bin/sh\necho "$PGPASSWORD" "$@"\n')
    program.chmod(0o755)
    said = maintenance.run(program, "postgresql://lhb:hunter2@db:5433/shop?sslmode=require")
    assert said.split() == [
        "hunter2", "--dbname=user=lhb", "dbname=shop", "host=db", "port=5433", "sslmode=require"
    ]  # fmt: skip
