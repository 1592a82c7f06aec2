"""Copies of a PostgreSQL database by pg_dump, and back by pg_restore, in one transaction."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import IsolationLevel

from service.storage.ports import Refused
from service.storage.postgres.errors import translated
from service.storage.postgres.migrate import Connection, revision_of, tables_of
from service.storage.postgres.tools import run, tool
from service.storage.schema import ONE_AT_A_TIME, SCHEMA

BARE = ("--no-owner", "--no-privileges")  # the roles of the other server may not be here


def back_up(url: str, target: Path) -> tuple[str, int]:
    """Dump a database to a file; see `service.storage.backup.back_up`."""
    with _connected(url) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        if revision_of(connection) is None:
            raise Refused("the database is not of this program")
        found = _contents(connection)
        moment = connection.execute("select pg_export_snapshot()").fetchone()
        assert moment is not None
        dump = tool("pg_dump", connection.info.server_version // 10000)
        how = ("--format=custom", f"--snapshot={moment[0]}", f"--file={target}")
        run(dump, url, *how, *BARE)
    run(dump.with_name("pg_restore"), None, "--file=/dev/null", str(target))  # reads it whole
    return found


def restore(source: Path, url: str) -> tuple[str, int]:
    """Fill a database from a dump; see `service.storage.backup.restore`."""
    with _connected(url) as connection, _alone(connection):
        strange = min(tables_of(connection), default=None)
        if strange is not None:
            raise Refused(
                f"the database is not empty: it has a table {strange!r}; "
                "a backup is restored into an empty database"
            )
        program = tool("pg_restore", connection.info.server_version // 10000)
        _check(program, source)
        run(program, url, "--single-transaction", "--exit-on-error", *BARE, str(source))
        connection.execute("analyze")  # a dump holds no statistics
        return _contents(connection)


def _check(program: Path, source: Path) -> None:
    """Raise `Refused` unless a file is a dump of a schema that this program knows."""
    if "TABLE DATA public schema_revision" not in run(program, None, "--list", str(source)):
        raise Refused(f"{source} is no backup of this program")
    row = ("--data-only", "--table=schema_revision", "--file=-")
    text = run(program, None, *row, str(source))
    revision = re.search(r"^COPY .*\n(\w+)$", text, re.M)
    SCHEMA.known(revision[1] if revision else None)


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    with (
        translated(),
        psycopg.connect(url, connect_timeout=10, application_name="lhb backup") as connection,
    ):
        yield connection


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Keep `lhb migrate` and other restorations away."""
    connection.autocommit = True
    free = connection.execute(f"select pg_try_advisory_lock({ONE_AT_A_TIME})").fetchone()
    if free != (True,):
        raise Refused("the database is being migrated or restored by another process")
    try:
        yield
    finally:  # said, because the server notices the end of a connection only some time later
        with suppress(psycopg.OperationalError):
            connection.execute(f"select pg_advisory_unlock({ONE_AT_A_TIME})")


def _contents(connection: Connection) -> tuple[str, int]:
    """Return the revision of the schema, and the number of sessions."""
    count = connection.execute("select count(*) from sessions").fetchone()
    assert count is not None
    return SCHEMA.known(revision_of(connection)), count[0]
