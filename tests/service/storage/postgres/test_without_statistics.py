"""PostgreSQL on tables that were never analysed, as those just filled or restored are."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from service.storage.maintenance import migrate
from service.storage.postgres.statements import SQL
from tests.conftest import database

N = 600  # rounds of each session
MORE: dict[str, list[object]] = {
    "rounds": [10],
    "measurements": [10, 10**9],
    "closed": [10**9, 1e12],
    "first_began_after": [1e12],
}
WINDOWS = [name for name in SQL if name.startswith(("window_", "alone_"))]
RANGES = json.dumps([["", 1, N]])
SOME = ["" for _ in range(50)], ["s1" for _ in range(50)], ["" for _ in range(50)]
OTHERS: dict[str, list[object]] = {
    "decisions_by_events": [*SOME, [f"e{i}" for i in range(50)]],
    "measurements_by_ids": [*SOME, [f"r{i}" for i in range(50)]],
    "decisions_by_numbers": [*SOME, list(range(50))],
    "decisions_by_rounds": [*SOME, list(range(50))],
    "measurements_over_rounds": [*SOME, list(range(50))],
    "oldest_measured": ["", "s1", 0, N, 1, True],
    "rounds_in": ["", "s1", RANGES, 10**9],
    "measurements_in": ["", "s1", RANGES, 10**9],
}


@pytest.fixture(scope="module")
def filled(postgres_server: str) -> Iterator[psycopg.Connection[Any]]:
    with database(postgres_server) as url:
        migrate(url)
        with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
            for table in ("decisions", "measurements"):
                connection.execute(f"alter table {table} set (autovacuum_enabled = off)")
            connection.execute(
                "insert into decisions (tenant, session_id, trajectory, round, number, position,"
                " event_id, arm, context, scores, explored, forced, epoch, model_version, at)"
                " select '', 's' || s, '', i, i, i, 'e' || i, 0, decode(repeat('00', 400), 'hex'),"
                " '', false, false, 1, 0, i"
                " from generate_series(1, $1::int) i, generate_series(1, 3) s",
                [N],
            )
            connection.execute(
                "insert into measurements (tenant, session_id, trajectory, first_round,"
                " last_round, number, position, value, reward_id, at)"
                " select '', 's' || s, '', i, i, i, i, 0, 'r' || i, i"
                " from generate_series(1, $1::int, 2) i, generate_series(1, 3) s",
                [N],
            )
            yield connection


def pages_read(connection: psycopg.Connection[Any], name: str, values: list[object]) -> int:
    explain = "explain (analyze, buffers, timing off, format json) " + SQL[name]
    [[[found]]] = connection.execute(explain, values).fetchall()
    return int(found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("name", [*WINDOWS, *OTHERS])
def test_no_statement_reads_a_session_for_each_of_its_rows(
    filled: psycopg.Connection[Any], name: str
) -> None:
    """A row costs some pages of an index; a session for each row is 600 times as much."""
    values = OTHERS.get(name)
    if values is None:
        kind, _, of = name.partition("_")
        values = ["", "s1", 1, N, *MORE.get(of, []), *([""] if kind == "alone" else [])]
    assert pages_read(filled, name, values) < 15 * N
