"""The schema of a PostgreSQL database: its revision, and the scripts that it lacks."""

from typing import Any

import psycopg

from service.storage.postgres.errors import translated
from service.storage.schema import ONE_AT_A_TIME, REVISION, Schema

Connection = psycopg.Connection[Any]


def tables_of(connection: Connection) -> set[str]:
    """Return the names of all tables of the database."""
    rows = connection.execute("select tablename from pg_tables where schemaname = 'public'")
    return {name for (name,) in rows}


def revision_of(connection: Connection) -> str | None:
    """Return the revision of a database's schema, or None if it has none of ours."""
    is_there = connection.execute("select to_regclass('schema_revision') is not null").fetchone()
    found = connection.execute(REVISION).fetchone() if is_there == (True,) else None
    return None if found is None else found[0]


def migrate_database(url: str, schema: Schema) -> str | None:
    """Migrate a database, one process at a time; see `service.storage.migrate`."""
    with (
        translated(),
        psycopg.connect(url, connect_timeout=10, application_name="lhb migrate") as connection,
    ):
        connection.execute(f"select pg_advisory_xact_lock({ONE_AT_A_TIME})")
        before = revision_of(connection)
        schema.check_upgrade(before, tables_of(connection))
        connection.execute(schema.script("postgres", before).encode())
    return before
