"""What is deleted from a SQLite file is overwritten in it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from service.storage.sqlite.connection import connect


def is_left(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether deleted bytes are in the file after a checkpoint."""
    connection.execute("create table rows (content)")
    connection.executemany("insert into rows values (?)", [(b"a secret",), (b"open",)])
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    assert b"a secret" in path.read_bytes()
    connection.execute("delete from rows where content = ?", [b"a secret"])
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    assert b"open" in path.read_bytes()
    return b"a secret" in path.read_bytes()


def test_deleted_bytes_leave_the_file(tmp_path: Path) -> None:
    """Whether SQLite overwrites them by itself depends on how it was compiled."""
    with closing(sqlite3.connect(tmp_path / "plain.db", isolation_level=None)) as plain:
        plain.execute("pragma journal_mode = wal")
        plain.execute("pragma secure_delete = off")
        assert is_left(plain, tmp_path / "plain.db")
    with closing(connect(tmp_path / "ours.db")) as ours:
        assert ours.execute("pragma secure_delete").fetchone() == (1,)
        assert not is_left(ours, tmp_path / "ours.db")
