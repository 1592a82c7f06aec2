"""PostgreSQL reads by an index what every server and every scrape reads again and again."""

import psycopg
import pytest

from service.storage.postgres.statements import SQL
from service.storage.postgres.store import PostgresStore
from tests.contracts.sample_rows import commit, session


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
