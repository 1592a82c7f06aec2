"""`lhb migrate`: bring a database to the schema of this program, in one transaction."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, event, inspect
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from service.storage.database_url import is_sqlite, sqlite_path
from service.storage.ports import Refused
from service.storage.schema import ONE_AT_A_TIME, script
from service.storage.sqlite.file_lock import FileLock


def migrate(url: str) -> tuple[str | None, str]:
    """Run the missing revisions in one transaction.

    Parameters
    ----------
    url : str
        The database's URL.

    Returns
    -------
    tuple of (str or None, str)
        The revisions before and after; None before for an empty database.

    Raises
    ------
    OwnedElsewhere
        A server owns the SQLite file and has to be stopped first.
    Refused
        The database holds tables of another program, or the file is no database.
    Unavailable
        The database does not answer.
    """
    with _connected(url) as connection:
        config = Config()
        config.set_main_option("script_location", "service.storage:migrations")
        config.attributes["connection"] = connection
        before = revision_of(connection)
        strange = sorted(inspect(connection).get_table_names()) if before is None else []
        if strange:
            raise Refused(
                f"the database contains {strange[0]!r} but not this program's "
                "schema; it belongs to another program "
                "and was not changed"
            )
        command.upgrade(config, "head")
        after = revision_of(connection)
    assert after is not None
    return before, after


def revision_of(connection: Connection) -> str | None:
    """Return the revision of a database, or None if it has no schema."""
    return MigrationContext.configure(connection).get_current_revision()


def run_script(revision: str) -> None:
    """Run the script of a revision; called by alembic's version files."""
    bind = op.get_bind()
    sqlite = bind.dialect.name == "sqlite"
    text = script(revision, "sqlite" if sqlite else "postgres")
    for statement in _statements(text) if sqlite else [text]:
        bind.exec_driver_sql(statement)


def _statements(text: str) -> Iterator[str]:
    """Split a script, because SQLite's driver runs one statement at a time."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """Open a connection and a transaction, and commit it at the end."""
    if is_sqlite(url):
        path = sqlite_path(url)
        lock = FileLock(path)
        try:
            with _sqlite(path) as connection:
                yield connection
        except DatabaseError as error:
            if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_NOTADB:
                raise
            raise Refused(f"{path} cannot be migrated: {error.orig}") from None
        finally:
            lock.release()
        return
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: _connect(url), poolclass=NullPool
    )
    with engine.begin() as connection:
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({ONE_AT_A_TIME})")
        yield connection


def _connect(url: str) -> Any:
    import psycopg

    from service.storage.postgres.errors import translated

    with translated():
        return psycopg.connect(url, connect_timeout=10, application_name="lhb migrate")


@contextmanager
def _sqlite(path: Path) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{path.absolute()}", poolclass=NullPool)

    # by default the driver commits before every DDL statement: a failure would leave a part
    @event.listens_for(engine, "connect")
    def _no_implicit_transactions(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("begin immediate")

    with engine.begin() as connection:
        yield connection
