"""PostgreSQL frozen, in part or whole, and settings that change while it is used."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from service.storage.postgres.connection import ANSWER_SECONDS
from service.writer.group_commit import CONTENTION_SECONDS
from tests.faults.server_process import Server
from tests.faults.test_disk import assert_whole, create, decide
from tests.faults.test_many_processes import own_postgres
from tests.postgres_server import PostgresServer

__all__ = ["own_postgres"]
MARGIN = 60.0  # of a busy machine
NAP = """
create function nap() returns trigger language plpgsql as $$
begin perform pg_sleep(8); return null; end $$;
create constraint trigger nap after insert on decisions deferrable initially deferred
    for each row when (new.event_id = 'e2') execute function nap();
"""
WRITER = "select pid, wait_event from pg_stat_activity where application_name = 'lhb writer'"


@contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def all_of(postmaster: int) -> list[int]:
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text()
    return [postmaster, *map(int, children.split())]


@pytest.mark.slow
def test_frozen_under_a_commit(own_postgres: PostgresServer) -> None:
    """The outcome is said to be unknown, in time; once it goes on, the same id tells."""
    url = own_postgres.url()
    with (
        Server(url) as server,
        server.client() as client,
        server.client() as other,
        ThreadPoolExecutor(1) as pool,
        closing(psycopg.connect(url, autocommit=True)) as watching,
    ):
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        watching.execute(NAP)
        began = time.monotonic()
        asked = pool.submit(decide, client, session, 2)
        while not (found := [p for p, e in watching.execute(WRITER).fetchall() if e == "PgSleep"]):
            assert time.monotonic() - began < 60
        with frozen(found):
            assert other.get("/healthz").status_code == 200
            codes = set()
            while not asked.done():
                codes.add(other.get("/readyz").json().get("code"))
                time.sleep(0.2)
            answer = asked.result()
            assert (answer.status_code, answer.json()["code"]) == (503, "outcome_unknown")
            assert time.monotonic() - began < ANSWER_SECONDS + MARGIN
            assert codes == {None, "storage_busy"}  # at first it is only slow
            began = time.monotonic()
            answer = decide(client, session, 2)  # the frozen one holds the session's row
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_busy")
            assert time.monotonic() - began < ANSWER_SECONDS + CONTENTION_SECONDS + MARGIN
        deadline = time.monotonic() + 120
        while (answer := decide(client, session, 2)).status_code == 503:
            assert time.monotonic() < deadline
        assert (answer.status_code, answer.json()["round"]) == (200, 2)
        watching.execute("drop function nap cascade")
        assert decide(client, session, 3).json()["round"] == 3
        assert_whole(client, session, 3)


@pytest.mark.slow
def test_frozen_altogether(own_postgres: PostgresServer) -> None:
    url = own_postgres.url()
    with Server(url) as server, server.client() as client, ThreadPoolExecutor(4) as pool:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        assert own_postgres.pid is not None
        with frozen(all_of(own_postgres.pid)):
            began = time.monotonic()
            decided = pool.submit(decide, client, session, 2)
            read = pool.submit(client.get, f"/v1/sessions/{session}/rounds")
            assert client.get("/healthz").status_code == 200
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["code"]) == (503, "storage_unreachable")
            assert time.monotonic() - began < 5 + MARGIN
            for answer in (decided.result(), read.result()):
                assert (answer.status_code, answer.json()["code"]) == (503, "storage_unreachable")
                assert "nothing was written" in answer.json()["detail"]
            assert time.monotonic() - began < ANSWER_SECONDS + MARGIN
        deadline = time.monotonic() + 120
        while (answer := decide(client, session, 2)).status_code == 503:
            assert time.monotonic() < deadline
        assert answer.json()["round"] == 2
        assert client.get("/readyz").status_code == 200
        assert_whole(client, session, 2)


CHANGES = [
    ("alter system set full_page_writes = off", "alter system reset full_page_writes"),
    ("alter system set synchronous_commit = off", "alter system reset synchronous_commit"),
    ("alter role lhb set synchronous_commit = off", "alter role lhb reset synchronous_commit"),
]


@pytest.mark.slow
def test_a_setting_that_may_lose_commits_is_noticed(own_postgres: PostgresServer) -> None:
    url = own_postgres.url()
    with (
        Server(url) as server,
        server.client() as client,
        closing(psycopg.connect(url, autocommit=True)) as admin,
    ):
        session, n = create(client), 0
        for change, back in CHANGES:
            admin.execute(change)  # type: ignore[arg-type]
            admin.execute("select pg_reload_conf()")
            deadline = time.monotonic() + 2 + MARGIN
            while (answer := decide(client, session, n + 1)).status_code == 201:
                n += 1
                assert time.monotonic() < deadline
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_not_durable")
            assert change.split()[-3] in answer.json()["detail"]
            assert client.get("/readyz").json()["code"] == "storage_not_durable"
            admin.execute(back)  # type: ignore[arg-type]
            admin.execute("select pg_reload_conf()")
            while (answer := decide(client, session, n + 1)).status_code == 503:
                assert time.monotonic() < deadline + MARGIN
            n += 1
            while client.get("/readyz").status_code == 503:  # by a connection of its own
                assert time.monotonic() < deadline + 2 * MARGIN
        assert_whole(client, session, n)


def test_synchronous_commit_stays_on_until_the_change_is_noticed(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    """The writer's session has it as its own."""
    from service.storage.postgres.store import PostgresStore

    store = PostgresStore(own_postgres.url())
    with closing(psycopg.connect(own_postgres.url(), autocommit=True)) as admin:
        admin.execute("alter system set synchronous_commit = off")
        admin.execute("select pg_reload_conf()")
        while admin.execute("show synchronous_commit").fetchone() == ("on",):
            pass
        transaction = store.begin()
        time.sleep(0.2)
        found = transaction.connection.execute("show synchronous_commit").fetchone()
        transaction.rollback()
    store.close()
    assert found == ("on",)
