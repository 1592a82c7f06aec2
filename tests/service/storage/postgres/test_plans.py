"""PostgreSQL reads by an index what every server and every scrape reads again and again."""

import psycopg
import pytest

from service.storage.postgres.statements import SQL
from service.storage.postgres.store import PostgresStore
from tests.contracts.sample_rows import commit, decision, session


@pytest.mark.parametrize(("name", "values"), [("unsummed", ("", "", 100)), ("guards_tripped", ())])
def test_looks_at_comparisons_read_no_other_session(
    postgres_url: str, name: str, values: tuple[str | int, ...]
) -> None:
    store = PostgresStore(postgres_url)
    commit(store, *(session(f"trial{i}", trial="{}") for i in range(3)))
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
