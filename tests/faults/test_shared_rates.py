"""Servers on one PostgreSQL hold one limit of requests a key, also after their link was cut."""

import time

import psycopg
import pytest

from service.commands.keys import new_key, save_key
from service.storage.maintenance import migrate
from service.transfer.without_server import run
from tests.faults.server_process import Server

BURST = 200
LIMIT = {"LHB_REQUESTS_PER_SECOND": "0.001", "LHB_REQUEST_BURST": str(BURST)}


def links(url: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "select pid from pg_stat_activity "
            "where application_name = 'lhb rates' and datname = current_database()"
        )
        return [int(pid) for (pid,) in found]


def wait_for_links(url: str, without: list[int]) -> list[int]:
    for _ in range(600):
        found = links(url)
        if len(found) == 2 and not set(found) & set(without):
            return found
        time.sleep(0.1)
    raise AssertionError(f"no two links: {links(url)}")


@pytest.mark.slow
def test_two_servers_hold_one_limit_of_a_key(postgres_url: str) -> None:
    migrate(postgres_url)
    keys = []
    for _ in range(2):
        key, row = new_key("", "a test", time.time())
        run(postgres_url, save_key(row))
        keys.append({"authorization": f"Bearer {key}"})
    with (
        Server(postgres_url, **LIMIT) as first,
        Server(postgres_url, **LIMIT) as second,
        first.client() as one,
        second.client() as two,
    ):
        cut = wait_for_links(postgres_url, [])
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for pid in cut:
                connection.execute("select pg_terminate_backend(%s)", (pid,))
        asked = [one.get("/v1/algorithms", headers=keys[0]).status_code for _ in range(BURST + 1)]
        assert asked == [200] * BURST + [429]  # one goes on by itself meanwhile
        wait_for_links(postgres_url, cut)
        for _ in range(BURST // 2):  # far from the limit that the second would have for itself
            refused = two.get("/v1/algorithms", headers=keys[0])
            if refused.status_code == 429:
                break
            time.sleep(0.3)
        assert refused.status_code == 429
        assert refused.json()["code"] == "too_many_requests"
        assert two.get("/v1/algorithms", headers=keys[1]).status_code == 200
        assert one.get("/v1/algorithms", headers=keys[1]).status_code == 200
