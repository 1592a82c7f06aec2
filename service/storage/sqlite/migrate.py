"""The schema of a SQLite file: its revision, and the scripts that it lacks."""

import sqlite3
from contextlib import closing
from pathlib import Path

from service.storage.ports import Refused
from service.storage.schema import REVISION, Schema
from service.storage.sqlite.file_lock import FileLock


def revision_of(connection: sqlite3.Connection) -> str | None:
    """Return the revision of a file's schema, or None if it has none of ours."""
    if not connection.execute("pragma table_info(schema_revision)").fetchone():
        return None
    found = connection.execute(REVISION).fetchone()
    return None if found is None else found[0]


def upgrade(connection: sqlite3.Connection, schema: Schema) -> str | None:
    """Run the missing revisions in one transaction, and return the revision before.

    Nobody else may write to the file.
    """
    before = revision_of(connection)
    names = connection.execute("select name from sqlite_master where type = 'table'")
    schema.check_upgrade(before, {name for (name,) in names})
    connection.executescript(f"begin immediate; {schema.script('sqlite', before)} commit;")
    return before


def migrate_file(path: Path, schema: Schema) -> str | None:
    """Migrate a file that no server owns; see `service.storage.migrate`."""
    lock = FileLock(path)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return upgrade(connection, schema)
    except sqlite3.DatabaseError as error:
        raise Refused(f"{path} cannot be migrated: {error}") from error
    finally:
        lock.release()
