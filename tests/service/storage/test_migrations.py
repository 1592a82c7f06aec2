"""`lhb migrate` on both databases; programs refuse any schema but theirs."""

import hashlib
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.base.server_settings import Settings
from service.storage.database_url import open_store
from service.storage.maintenance import migrate
from service.storage.ports import Refused
from service.storage.postgres.store import NotDurable, PostgresStore
from service.storage.schema import SCHEMA, Schema
from service.storage.sqlite.database_file import OwnedElsewhere
from service.storage.sqlite.store import SqliteStore
from service.transfer.without_server import import_file

# SHA-256 of the scripts of each released revision. A released script never changes: databases are
# out there that it made. The baseline may still change until 1.0 is released.
RELEASED: dict[str, str] = {}
EXPORTED = Path(__file__).parent.parent / "transfer/exported.ndjson"


def later(tmp_path: Path, sql: str) -> Schema:
    """This program's schema, and one more revision."""
    assert isinstance(SCHEMA.folder, Path)
    folder = Path(shutil.copytree(SCHEMA.folder, tmp_path / "scripts"))
    for dialect in ("sqlite", "postgres"):
        (folder / f"9998.{dialect}.sql").write_text(sql)
    return Schema(folder)


def query(url: str, sql: str) -> Any:
    """The rows of a statement, which is committed."""
    if url.startswith("postgres"):
        with psycopg.connect(url) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        return connection.execute(sql).fetchall()


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without a schema, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'lhb.db'}"
    return str(request.getfixturevalue("empty_postgres"))


def test_migrating_twice_changes_nothing(empty_url: str) -> None:
    assert migrate(empty_url) == (None, SCHEMA.head)
    assert migrate(empty_url) == (SCHEMA.head, SCHEMA.head)


def test_one_of_two_at_once_makes_the_tables(empty_postgres: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(migrate, [empty_postgres] * 8))
    assert sorted(found, key=str) == [(SCHEMA.head, SCHEMA.head)] * 7 + [(None, SCHEMA.head)]


def test_a_served_file_is_not_migrated(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "lhb.db")
    with pytest.raises(OwnedElsewhere):
        migrate(f"sqlite:///{tmp_path / 'lhb.db'}")
    store.close()


def test_every_revision_has_its_scripts_and_no_released_one_changed() -> None:
    found = {}
    for revision in SCHEMA.revisions:
        scripts = [
            SCHEMA.folder.joinpath(f"{revision}.{dialect}.sql").read_bytes()
            for dialect in ("sqlite", "postgres")
        ]
        found[revision] = hashlib.sha256(b"".join(scripts)).hexdigest()
    assert RELEASED.items() <= found.items()


def test_an_empty_postgres_is_refused_with_the_command(empty_postgres: str) -> None:
    with pytest.raises(Refused, match="lhb migrate"):
        PostgresStore(empty_postgres)


def test_a_later_revision_changes_a_database_and_loses_nothing(
    empty_url: str, tmp_path: Path
) -> None:
    """The program of before refuses the new schema, that of after the old one."""
    migrate(empty_url)
    import_file(Settings(database_url=empty_url), EXPORTED, None)
    tables = ("sessions", "trajectories", "decisions", "measurements", "estimates")
    before = {table: sorted(query(empty_url, f"select * from {table}")) for table in tables}
    assert all(before.values())
    schema = later(
        tmp_path,
        "alter table decisions add column colour text;"
        "update decisions set colour = 'green' where round > 1;"
        "create table songs (name text not null, primary key (name));",
    )
    with pytest.raises(Refused, match=f"schema {SCHEMA.head}, this program needs 9998: run"):
        schema.check(SCHEMA.head)
    assert migrate(empty_url, schema) == (SCHEMA.head, "9998")
    assert migrate(empty_url, schema) == ("9998", "9998")
    schema.check("9998")
    after = {table: sorted(query(empty_url, f"select * from {table}")) for table in tables}
    colours = [(*row, None if row[3] == 1 else "green") for row in before["decisions"]]
    assert after == {**before, "decisions": colours}
    assert query(empty_url, "select * from songs") == []
    for program in (open_store, migrate):
        with pytest.raises(Refused, match="newer release"):
            program(empty_url)


def test_a_new_database_has_the_schema_of_a_migrated_one(tmp_path: Path) -> None:
    schema = later(tmp_path, "alter table decisions add column colour text;")
    old, new = (f"sqlite:///{tmp_path / name}" for name in ("old.db", "new.db"))
    migrate(old)
    for url in (old, new):
        migrate(url, schema)
    shape = "select name, sql from sqlite_master order by name"
    assert query(old, shape) == query(new, shape)


def test_a_failed_migration_leaves_nothing(empty_url: str, tmp_path: Path) -> None:
    broken = later(tmp_path, "create table one (x integer); create table two (syntax error;")
    with pytest.raises(Exception, match="syntax"):
        migrate(empty_url, broken)
    assert migrate(empty_url) == (None, SCHEMA.head)
    with pytest.raises(Exception, match="syntax"):
        migrate(empty_url, broken)
    assert query(empty_url, "select revision from schema_revision") == [(SCHEMA.head,)]
    with pytest.raises(Exception, match="one"):
        query(empty_url, "select * from one")


def test_a_database_that_may_forget_is_refused(postgres_url: str) -> None:
    with pytest.raises(NotDurable, match="synchronous_commit"):
        PostgresStore(f"{postgres_url}?options=-csynchronous_commit%3Doff")


def test_the_test_server_syncs(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"show {name}").fetchone() == ("on",)
