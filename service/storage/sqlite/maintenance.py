"""A SQLite file as a whole: the scripts that it lacks, and copies by SQLite's own backup."""

import sqlite3
from contextlib import closing
from pathlib import Path

from service.storage.ports import Refused
from service.storage.schema import REVISION, SCHEMA, Schema
from service.storage.sqlite.connection import connect, snapshot, translated
from service.storage.sqlite.database_file import PLAIN, FileLock, log_bytes

N_PAGES = 4096  # copied between two chances to be interrupted


def revision_of(connection: sqlite3.Connection) -> str | None:
    """Return the revision of a file's schema, or None if it has none of ours."""
    if not connection.execute("pragma table_info(schema_revision)").fetchone():
        return None
    row = connection.execute(REVISION).fetchone()
    return None if row is None else row[0]


def upgrade(connection: sqlite3.Connection, schema: Schema) -> str | None:
    """Run the missing revisions in one transaction, and return the revision before.

    Nobody else may write to the file.
    """
    before = revision_of(connection)
    names = connection.execute("select name from sqlite_master where type = 'table'")
    schema.check_upgrade(before, {name for (name,) in names})
    connection.executescript(f"begin immediate; {schema.script('sqlite', before)} commit;")
    return before


def migrate(path: Path, schema: Schema) -> str | None:
    """Migrate a file that no server owns; see `service.storage.maintenance`."""
    lock = FileLock(path)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return upgrade(connection, schema)
    except sqlite3.DatabaseError as error:
        raise Refused(f"{path} cannot be migrated: {error}") from error
    finally:
        lock.release()


def back_up(path: Path, target: Path) -> tuple[str, int]:
    """Copy a database to an empty file; see `service.storage.maintenance.back_up`."""
    with snapshot(path) as source:  # one moment: else every commit would begin the copy anew
        _known_revision(source, path)
        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            source.backup(copy, pages=N_PAGES)
            copy.execute("pragma journal_mode = delete")  # one file, readable from any medium
            copy.execute(f"pragma user_version = {PLAIN}")
            return check(copy, target)


def restore(source: Path, path: Path) -> tuple[str, int]:
    """Copy a backup into an empty file; see `service.storage.maintenance.restore`."""
    try:
        with closing(connect(source, readonly=True)) as backup:
            check(backup, source)  # a whole database of ours
    except sqlite3.DatabaseError as error:
        raise Refused(f"{source} is damaged, or no backup: {error}") from error
    lock = FileLock(path)
    try:
        with (
            translated(),
            closing(connect(source, readonly=True)) as backup,
            closing(sqlite3.connect(path, isolation_level=None)) as target,
        ):
            if path.stat().st_size == 0 and log_bytes(path):  # SQLite would delete it
                raise Refused(f"{path}-wal holds commits of a database that is gone; move it away")
            # not by its size: of a restore that was killed, this undoes what is there
            if target.execute("select 1 from sqlite_master").fetchone():
                raise Refused(f"{path} is not empty; a backup is restored into an empty database")
            backup.backup(target, pages=N_PAGES)
            return check(target, path)
    finally:
        lock.release()


def check(connection: sqlite3.Connection, path: Path) -> tuple[str, int]:
    """Read a database whole; return its revision and how many sessions it has.

    Raises `Refused` where it is damaged, or its schema is not exactly one of ours.
    """
    try:
        revision = _known_revision(connection, path)
        damage = [problem for (problem,) in connection.execute("pragma integrity_check(3)")]
        with closing(sqlite3.connect(":memory:")) as ours:
            ours.executescript(SCHEMA.script("sqlite", to=revision))
            strange = _shape(connection) ^ _shape(ours)
        (n_sessions,) = connection.execute("select count(*) from sessions").fetchone()
    except sqlite3.DatabaseError as error:
        raise Refused(f"{path} is damaged, or no database: {error}") from error
    if damage != ["ok"]:
        raise Refused(f"{path} is damaged: {damage[0]}")
    if strange:
        name = min(name for name, _ in strange)
        raise Refused(f"{path} is not as this program makes schema {revision}: see {name!r}")
    return revision, n_sessions


def _known_revision(connection: sqlite3.Connection, path: Path) -> str:
    """Return the revision of a database's schema, or raise `Refused`."""
    revision = revision_of(connection)
    if revision is None:
        raise Refused(f"{path} is no database of this program")
    return SCHEMA.known(revision)


def _shape(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return names and definitions of tables and indices, without what differs by who made them."""
    rows = connection.execute(
        "select name, sql from sqlite_master where sql is not null"
        " and name not in ('sqlite_stat1', 'sqlite_stat4')"
    )
    return {(name, " ".join(sql.lower().split())) for name, sql in rows}
