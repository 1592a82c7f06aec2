"""The log is copied into the file when it is long, though its file does not shrink by that."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from service.storage.sqlite import write_ahead_log
from service.storage.sqlite.connection import connect
from service.storage.sqlite.write_ahead_log import LogLength, checkpoint


def test_every_log_is_copied_when_it_is_long(tmp_path: Path) -> None:
    file = tmp_path / "lhb.db"
    with closing(connect(file)) as connection:
        connection.execute("pragma synchronous = off")
        connection.execute("create table rows (content)")
        length, sizes, n_commits = LogLength(), [], 0
        while len(sizes) < 24:
            connection.execute("insert into rows values (zeroblob(500000))")
            connection.execute("delete from rows")
            n_commits += 1
            assert n_commits < 4000
            size = os.stat(f"{file}-wal").st_size
            if length.is_long(size):
                sizes.append(size)
                checkpoint(connection, cut=size > write_ahead_log.CUT_BYTES)
                (mark,) = connection.execute("pragma user_version").fetchone()
                assert mark == write_ahead_log.PLAIN
                with open(file, "rb") as alone:  # where SQLite has user_version
                    header = alone.read(64)
                assert int.from_bytes(header[60:64]) == write_ahead_log.LOG_FOLLOWS
    most = write_ahead_log.CUT_BYTES + write_ahead_log.GROWTH_BYTES
    assert max(sizes) < most + 2**20
    assert min(sizes) > write_ahead_log.LONG_BYTES


def test_a_reader_that_stays_does_not_make_every_commit_a_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "lhb.db"
    with closing(connect(file)) as connection, closing(sqlite3.connect(file)) as other:
        connection.execute("pragma synchronous = off")
        connection.execute("pragma busy_timeout = 0")
        connection.execute("create table rows (content)")
        other.execute("begin")
        other.execute("select count(*) from rows").fetchone()
        length, n = LogLength(), 0
        for _ in range(250):
            connection.execute("insert into rows values (zeroblob(100000))")
            if length.is_long(os.stat(f"{file}-wal").st_size):
                n += 1
                checkpoint(connection, cut=True)
        assert 5 < n < 15  # one a megabyte beyond the first 16
