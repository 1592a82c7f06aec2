"""Copies of a SQLite database by SQLite's own backup, of one moment, and checked."""

import sqlite3
from contextlib import closing
from pathlib import Path

from service.storage.ports import Refused
from service.storage.schema import SCHEMA
from service.storage.sqlite.connection import connect
from service.storage.sqlite.errors import translated
from service.storage.sqlite.file_lock import FileLock
from service.storage.sqlite.migrate import revision_of
from service.storage.sqlite.write_ahead_log import PLAIN, check_copy, log_bytes

N_PAGES = 4096  # copied between two chances to be interrupted


def back_up(path: Path, target: Path) -> tuple[str, int]:
    """Copy a database to an empty file; see `service.storage.backup.back_up`."""
    has_log = log_bytes(path) > 0
    with translated(), closing(connect(path, readonly=True)) as source:
        source.execute("begin")  # one moment: else every commit would begin the copy anew
        if not has_log:
            check_copy(source, path)
        _known_revision(source, path)
        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            source.backup(copy, pages=N_PAGES)
            copy.execute("pragma journal_mode = delete")  # one file, readable from any medium
            copy.execute(f"pragma user_version = {PLAIN}")
            return check(copy, target)


def restore(source: Path, path: Path) -> tuple[str, int]:
    """Copy a backup into an empty file; see `service.storage.backup.restore`."""
    _check_file(source)
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


def _check_file(source: Path) -> None:
    """Raise `Refused` unless a file is a whole database of ours."""
    try:
        with closing(connect(source, readonly=True)) as backup:
            check(backup, source)
    except sqlite3.DatabaseError as error:
        raise Refused(f"{source} is damaged, or no backup: {error}") from error


def check(connection: sqlite3.Connection, path: Path) -> tuple[str, int]:
    """Read a database whole; return its revision and how many sessions it has.

    Raises
    ------
    Refused
        It is damaged, or its schema is not exactly one of ours.
    """
    try:
        revision = _known_revision(connection, path)
        damage = [said for (said,) in connection.execute("pragma integrity_check(3)")]
        strange = _shape(connection) ^ _our_shape(revision)
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


def _our_shape(revision: str) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA.script("sqlite", to=revision))
        return _shape(connection)
