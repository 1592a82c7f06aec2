"""Many statements in one exchange with PostgreSQL: order, failures, sizes, lost connections."""

from collections.abc import Iterator

import psycopg
import pytest

import service.storage.postgres.statements
from service.storage.postgres.statements import Connection, Pipeline, ResultRows, Statement
from service.storage.postgres.store import connect

QUERIES = {
    "number": "select $1::bigint",
    "divide": "select 1 / $1::bigint",
    "create": "create temporary table kept (a bigint, b text, c float8, d bytea, e boolean)",
    "keep": "insert into kept values ($1, $2, $3, $4, $5)",
    "all": "select * from kept order by a",
    "repeat": "select repeat($1::text, $2)",
}


def run(pipeline: Pipeline, statements: list[Statement]) -> list[ResultRows]:
    return pipeline.wait(pipeline.exchange(statements))


@pytest.fixture
def connection(postgres_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name, query in QUERIES.items():
        monkeypatch.setitem(service.storage.postgres.statements.SQL, name, query)
    with connect(postgres_server, "test") as connection:
        yield connection


def test_rows_come_back_in_order_and_a_transaction_has_begun(connection: Connection) -> None:
    pipeline = Pipeline(connection)
    values = (2**40, 'a\\"é', 0.1, b"\0\xff", True)
    assert run(pipeline, [("number", (1,)), ("create", ())]) == [[(1,)], []]
    assert run(pipeline, [("keep", values), ("keep", (1, *[None] * 4))]) == [[], []]
    assert run(pipeline, [("all", ()), ("number", (2,))]) == [
        [(1, None, None, None, None), values],
        [(2,)],
    ]
    pipeline.rollback()
    with pytest.raises(psycopg.errors.UndefinedTable):
        run(pipeline, [("all", ())])
    pipeline.rollback()
    assert run(pipeline, [("create", ()), ("commit", ())]) == [[], []]
    assert run(pipeline, [("all", ())]) == [[]]


def test_after_a_failure_nothing_is_run_until_the_rollback(connection: Connection) -> None:
    pipeline = Pipeline(connection)
    run(pipeline, [("create", ()), ("commit", ())])
    row = (1, None, None, None, None)
    with pytest.raises(psycopg.errors.DivisionByZero):
        run(pipeline, [("keep", row), ("divide", (0,)), ("divide", (1,)), ("commit", ())])
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        run(pipeline, [("commit", ())])
    pipeline.rollback()
    assert run(pipeline, [("all", ()), ("divide", (1,))]) == [[], [(1,)]]


def test_a_value_that_cannot_be_sent_is_nothing_to_the_server(connection: Connection) -> None:
    pipeline = Pipeline(connection)
    run(pipeline, [("create", ())])
    with pytest.raises(psycopg.DataError):
        run(
            pipeline, [("keep", (1, None, None, None, None)), ("keep", (2, "\0", None, None, None))]
        )
    assert run(pipeline, [("all", ())]) == [[]]


def test_neither_side_waits_for_the_other_to_read(connection: Connection) -> None:
    """Far more both ways than lies between two sockets."""
    text = "ab" * 50_000
    found = run(Pipeline(connection), [("repeat", (text, 10))] * 20)
    assert found == [[(text * 10,)]] * 20


def test_a_connection_that_is_lost_is_closed(connection: Connection, postgres_server: str) -> None:
    pipeline = Pipeline(connection)
    run(pipeline, [("number", (1,))])
    with psycopg.connect(postgres_server, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        run(pipeline, [("number", (2,)), ("commit", ())])
    pipeline.rollback()
    assert connection.closed


def test_what_is_prepared_outlives_a_rollback_and_the_drivers_own(connection: Connection) -> None:
    pipeline = Pipeline(connection)
    for _ in range(10):
        assert run(pipeline, [("number", (1,))]) == [[(1,)]]
        assert connection.execute("select 2").fetchall() == [(2,)]
        pipeline.rollback()
