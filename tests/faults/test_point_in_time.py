"""A database goes back to a moment, as docs/operations.md says (Any moment in time)."""

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from service.storage.maintenance import migrate
from tests.faults.load_generator import Player, log_of, make_players, play_all
from tests.faults.server_process import ROOT, Server, WorkerProcess, assert_replay_equals_live
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.slow


def settings_of_the_guide(archive: Path) -> tuple[str, str]:
    """What the page has PostgreSQL archive with, and come back with."""
    page = (ROOT / "docs/operations.md").read_text()
    section = page.partition("## Any moment in time")[2].partition("\n## ")[0]
    archiving, recovering = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return archiving.replace("/archive/", f"{archive}/"), recovering.replace(
        "/archive/", f"{archive}/"
    )


def coming_back(recovering: str, target: datetime) -> str:
    """The guide's settings with another moment, for a server beside the one that goes on."""
    said, n = re.subn(r"(recovery_target_time = )'[^']*'", rf"\1'{target}'", recovering)
    assert n == 1
    return f"{said}\narchive_mode = off"


@contextmanager
def running(server: PostgresServer) -> Iterator[str]:
    try:
        server.start()
        yield server.url()
    finally:
        server.remove()


def answered(players: list[Player]) -> list[dict[str, Any]]:
    """The answers to each player's decisions so far, and the rewards that were taken."""
    return [
        {"decided": dict(player.decided), "rewarded": dict(player.rewarded)} for player in players
    ]


def assert_as_then(client: httpx.Client, players: list[Player], then: list[dict[str, Any]]) -> None:
    """All that was answered by then is there, and nothing that was answered since."""
    for player, known in zip(players, then, strict=True):
        rounds = log_of(client, player)
        assert {item["event_id"]: (item["round"], item["arm"]) for item in rounds} == {
            event_id: (answer["round"], answer["arm"])
            for event_id, answer in known["decided"].items()
        }
        assert {
            item["round"]: item["reward"] for item in rounds if item["reward"] is not None
        } == known["rewarded"]


def end_of_log(url: str) -> None:
    """Have what was committed so far archived, and wait for that."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        row = connection.execute("select pg_walfile_name(pg_switch_wal())").fetchone()
        assert row is not None
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            archived = connection.execute(
                "select last_archived_wal, last_failed_wal from pg_stat_archiver"
            ).fetchone()
            assert archived is not None
            assert archived[1] is None  # no file has failed
            if archived[0] is not None and archived[0] >= row[0]:
                return
            time.sleep(0.1)
    raise AssertionError("the log was not archived")


def now_of(url: str) -> datetime:
    """The database's time, between two commits."""
    time.sleep(0.2)
    with closing(psycopg.connect(url)) as connection:
        row = connection.execute("select clock_timestamp()").fetchone()
    time.sleep(0.2)
    assert row is not None
    found: datetime = row[0]
    return found


def wait_for_promotion(url: str) -> None:
    deadline = time.monotonic() + 120
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        while connection.execute("select pg_is_in_recovery()").fetchone() != (False,):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_postgresql_comes_back_to_a_moment_of_its_archive() -> None:
    lost = PostgresServer()
    archive = lost.folder("archive")
    archiving, recovering = settings_of_the_guide(archive)
    lost.configure(archiving)
    with running(lost) as url:
        migrate(url)
        with WorkerProcess(url), Server(url) as server:
            players = make_players(server, 21)
            asyncio.run(play_all(server, players, 200))
            base, at = archive / "base", url.partition("@")[2].partition("/")[0].split(":")
            lost.run(
                *("pg_basebackup", "-D", str(base), "-X", "stream", "-c", "fast"),
                *("-h", at[0], "-p", at[1], "-U", "lhb"),
            )
            asyncio.run(play_all(server, players, 300))
            then, target = answered(players), now_of(url)
            asyncio.run(play_all(server, players, 200))
        end_of_log(url)
        restored = PostgresServer(base)
        restored.configure(coming_back(recovering, target), recovers=True)
        with running(restored) as there:
            wait_for_promotion(there)
            n_decided = sum(len(one["decided"]) for one in then)
            assert assert_replay_equals_live(there) == n_decided >= 500
            with WorkerProcess(there), Server(there) as server, server.client() as client:
                assert_as_then(client, players, then)
        too_late = PostgresServer(base)
        too_late.configure(coming_back(recovering, target + timedelta(days=1)), recovers=True)
        try:
            with suppress(RuntimeError):
                too_late.start()  # it may answer for a second before it ends
            said = too_late.wait_for_end()
            assert "recovery ended before configured recovery target was reached" in said
        finally:
            too_late.remove()


def test_a_snapshot_of_sqlite_s_file_and_log_is_whole(tmp_path: Path) -> None:
    """A volume's snapshot has both as they are at one moment, and so has a server that stands."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()

    async def copy_amid(server: Server, players: list[Player]) -> list[dict[str, Any]]:
        await play_all(server, players, 300)
        playing = asyncio.create_task(play_all(server, players, 300))
        await asyncio.sleep(0.2)
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            known = answered(players)
            for name in ("lhb.db", "lhb.db-wal"):
                shutil.copyfile(here / name, there / name)
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        await playing
        return known

    with Server(here / "lhb.db") as server:
        players = make_players(server, 22)
        then = asyncio.run(copy_amid(server, players))
        server.kill()
    with Server(there / "lhb.db") as server, server.client() as client:
        for player, known in zip(players, then, strict=True):
            stored = {item["event_id"]: item["arm"] for item in log_of(client, player)}
            assert known["decided"].keys() <= stored.keys()
            assert len(stored) <= len(known["decided"]) + 1  # one was under way
            assert all(player.decided[event_id]["arm"] == stored[event_id] for event_id in stored)
        server.kill()
    assert assert_replay_equals_live(f"sqlite:///{there / 'lhb.db'}") >= 300
