"""The log is copied into the file when it is long, though its file does not shrink by that."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from service.storage.sqlite import database_file
from service.storage.sqlite.connection import connect
from service.storage.sqlite.database_file import LogLength, check_copy, checkpoint, log_bytes


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
                checkpoint(connection, cut=size > database_file.CUT_BYTES)
                (mark,) = connection.execute("pragma user_version").fetchone()
                assert mark == database_file.PLAIN
                with open(file, "rb") as alone:  # where SQLite has user_version
                    header = alone.read(64)
                assert int.from_bytes(header[60:64]) == database_file.LOG_FOLLOWS
    most = database_file.CUT_BYTES + database_file.GROWTH_BYTES
    assert max(sizes) < most + 2**20
    assert min(sizes) > database_file.LONG_BYTES


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


@pytest.mark.parametrize("cut", [True, False])
def test_killed_at_any_statement_of_a_checkpoint_the_file_opens(tmp_path: Path, cut: bool) -> None:
    file = tmp_path / "lhb.db"
    seen: list[Path] = []

    def keep(_: str) -> None:
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        for path in tmp_path.glob("lhb.db*"):
            if not path.name.endswith("-shm"):  # after a kill it is made anew
                shutil.copy(path, folder)
        seen.append(folder / "lhb.db")

    with closing(connect(file)) as connection:
        connection.execute("create table rows (content)")
        for n in range(1, 3):
            connection.execute("insert into rows values (zeroblob(100000))")
            connection.set_trace_callback(keep)
            checkpoint(connection, cut=cut)
            connection.set_trace_callback(None)
            keep("")
            for copy in seen:
                has_log = log_bytes(copy) > 0
                with closing(connect(copy)) as opened:
                    if not has_log:
                        check_copy(opened, copy)
                    assert opened.execute("select count(*) from rows").fetchone() == (n,)
            assert len(seen) > 3
            seen.clear()
            for folder in tmp_path.glob("[0-9]"):
                shutil.rmtree(folder)
        assert (log_bytes(file) < 50_000) == cut
