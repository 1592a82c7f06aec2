"""A PostgreSQL database as a whole: the scripts that it lacks, and copies by its own programs.

`pg_dump` writes a copy, and `pg_restore` brings it back in one transaction.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service.storage.ports import Refused
from service.storage.postgres.connection import Connection, translated
from service.storage.schema import ONE_AT_A_TIME, REVISION, SCHEMA, Schema

BARE = ("--no-owner", "--no-privileges")  # the roles of the other server may not be here
DEBIAN = Path("/usr/lib/postgresql")


def tables_of(connection: Connection) -> set[str]:
    """Return the names of all tables of the database."""
    rows = connection.execute("select tablename from pg_tables where schemaname = 'public'")
    return {name for (name,) in rows}


def revision_of(connection: Connection) -> str | None:
    """Return the revision of a database's schema, or None if it has none of ours."""
    is_there = connection.execute("select to_regclass('schema_revision') is not null").fetchone()
    row = connection.execute(REVISION).fetchone() if is_there == (True,) else None
    return None if row is None else row[0]


def migrate(url: str, schema: Schema) -> str | None:
    """Migrate a database, one process at a time; see `service.storage.maintenance`."""
    with _connected(url, "migrate") as connection:
        connection.execute(f"select pg_advisory_xact_lock({ONE_AT_A_TIME})")
        before = revision_of(connection)
        schema.check_upgrade(before, tables_of(connection))
        connection.execute(schema.script("postgres", before).encode())
    return before


def back_up(url: str, target: Path) -> tuple[str, int]:
    """Dump a database to a file; see `service.storage.maintenance.back_up`."""
    with _connected(url, "backup") as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        if revision_of(connection) is None:
            raise Refused("the database is not of this program")
        contents = _contents(connection)
        moment = connection.execute("select pg_export_snapshot()").fetchone()
        assert moment is not None
        dump = tool("pg_dump", connection.info.server_version // 10000)
        how = ("--format=custom", f"--snapshot={moment[0]}", f"--file={target}")
        run(dump, url, *how, *BARE)
    run(dump.with_name("pg_restore"), None, "--file=/dev/null", str(target))  # reads it whole
    return contents


def restore(source: Path, url: str) -> tuple[str, int]:
    """Fill a database from a dump; see `service.storage.maintenance.restore`."""
    with _connected(url, "backup") as connection, _alone(connection):
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
def _connected(url: str, role: str) -> Iterator[Connection]:
    with (
        translated(),
        psycopg.connect(url, connect_timeout=10, application_name=f"lhb {role}") as connection,
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


def tool(name: str, server: int) -> Path:
    """Return a program of PostgreSQL's, like "pg_dump", that can speak to a server; else `Refused`.

    The program is of the server's major version, or of the next newer one: an older one refuses,
    and a much newer one says things that the server does not know.
    """
    on_path = map(Path, filter(None, [shutil.which(name)]))
    places = [*on_path, *DEBIAN.glob(f"*/bin/{name}")]
    paths = sorted(
        ((version, path) for path in places if (version := _version(path)) >= server),
        key=lambda pair: pair[0],
    )
    if not paths:
        raise Refused(
            f"{name} of PostgreSQL {server} or newer is not on the PATH; "
            f"install postgresql-client-{server}, or run this where the database runs"
        )
    return paths[0][1]


def run(program: Path, url: str | None, *arguments: str) -> str:
    """Run a program on a database and return its output; `Refused` has its message if it failed.

    The password goes by the environment: other users of the machine can read arguments.
    """
    command, environment = [str(program), *arguments], dict(os.environ)
    if url is not None:
        settings = conninfo_to_dict(url)
        password = settings.pop("password", None)
        if password is not None:
            environment["PGPASSWORD"] = str(password)
        command.append(f"--dbname={make_conninfo(**{k: str(v) for k, v in settings.items()})}")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode != 0:
        raise Refused(" ".join(done.stderr.split())[:500] or f"{program.name} failed")
    return done.stdout


def _version(program: Path) -> int:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\) (\d+)", output.stdout)
    return int(number[1]) if number else 0
