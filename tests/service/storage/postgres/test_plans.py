"""PostgreSQL reads by an index what every server and every scrape reads again and again."""

from contextlib import closing
from itertools import product
from typing import Any

import psycopg
import pytest

from service.session.trial import Trial
from service.storage.postgres.statements import SQL
from service.storage.postgres.store import PostgresStore, connect
from tests.contracts.sample_rows import S1, commit, decision, measurement, session


@pytest.mark.parametrize(("name", "values"), [("unsummed", ("", "", 100)), ("guards_tripped", ())])
def test_looks_at_comparisons_read_no_other_session(
    postgres_url: str, name: str, values: tuple[str | int, ...]
) -> None:
    store = PostgresStore(postgres_url)
    commit(store, *(session(f"trial{i}", trial=Trial()) for i in range(3)))
    commit(store, *(session(f"s{i}") for i in range(1000)))
    store.close()
    with psycopg.connect(postgres_url, cursor_factory=psycopg.RawCursor) as connection:
        connection.execute("analyze sessions")
        found = connection.execute(f"explain {SQL[name]}", values).fetchall()
    plan = "\n".join(line for (line,) in found)
    assert "sessions_with_trial" in plan
    assert "Seq Scan on sessions" not in plan


def test_what_is_erased_is_read_up_to_its_last_row(postgres_url: str) -> None:
    """At an upper bound of several columns PostgreSQL 15 goes on to the trajectory's last round."""
    store = PostgresStore(postgres_url)
    commit(store, session(), decision(1))
    store.close()
    more = """insert into decisions select (jsonb_populate_record(d, jsonb_build_object(
        'round', g, 'number', g, 'position', g))).* from decisions d, generate_series(2, 5000) g"""
    owner = ("t", "s1")
    with psycopg.connect(postgres_url, cursor_factory=psycopg.RawCursor) as connection:
        connection.execute(more)
        connection.execute("analyze decisions")
        values = (*owner, "", 100, 100, 256)
        explain = f"explain (analyze) {SQL['erase_decisions']}"
        plan = "\n".join(line for (line,) in connection.execute(explain, values))
        left = connection.execute("select round from decisions order by round").fetchall()
    assert "Limit" in plan
    assert "Seq Scan" not in plan
    assert [round for (round,) in left] == [*range(1, 101), *range(357, 5001)]


# what retention runs to find and delete the rounds 401..500 of a trajectory, and their last lags
DROPPING: dict[str, tuple[Any, ...]] = {
    "next_dropped": (*S1, "a", 400, 8, 64),
    "dropped_complete": (*S1, "a", 401, 401, 500),
    "drop_measurements": (*S1, "a", 401, 500),
    "goes_on": (*S1, "a", 401, 500),
    "drop_voids": (*S1, "a", 401, 500),
    "drop_decisions": (*S1, "a", 401, 500),
    "time_of_round": (*S1, "a", 400),
    "first_left": (*S1, "a"),
    "began_from": (*S1, 400, 0),
    "oldest_measured": (*S1, 490, 500, 1, True),
}
MODES = ("force_custom_plan", "force_generic_plan")
MORE = """insert into {0} select (jsonb_populate_record(r, jsonb_build_object('{1}', g, 'number', g,
    'position', g, 'last_round', g, 'round', g))).* from {0} r, generate_series({2}, {3}) g
    where r.position = 1"""


@pytest.mark.slow
def test_a_slice_of_retention_reads_no_more_of_a_longer_trajectory(postgres_url: str) -> None:
    """Whether it is planned for its values or, after five runs, for any."""
    store = PostgresStore(postgres_url)
    commit(store, session(), decision(1, "a"), measurement(1, None, "a"))
    store.close()
    pages: list[dict[tuple[str, str], int]] = []
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in DROPPING:
            connection.execute(f"prepare {name} as {SQL[name]}")
        for first, last in ((2, 2000), (2001, 10_000)):
            for table, column in (("decisions", "round"), ("measurements", "first_round")):
                connection.execute(MORE.format(table, column, first, last))
            connection.execute("vacuum analyze decisions, measurements")
            pages.append({})
            for mode, (name, values) in product(MODES, DROPPING.items()):
                connection.execute(f"set plan_cache_mode = {mode}")
                given = ", ".join(map(psycopg.sql.quote, values))
                explain = f"explain (analyze, buffers, format json) execute {name}({given})"
                with connection.transaction(force_rollback=True):
                    [[[found]]] = connection.execute(explain).fetchall()
                plan = found["Plan"]
                pages[-1][mode, name] = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    short, long = pages
    assert {name: (n, long[name]) for name, n in short.items() if long[name] > 1.5 * n + 8} == {}


def test_no_statement_is_compiled(postgres_url: str) -> None:
    """A plan for any values expects a tenth of the table of a `limit $6`, and that seems to pay."""
    with closing(connect(postgres_url, "reader")) as connection:
        assert connection.execute("show jit").fetchone() == ("off",)
