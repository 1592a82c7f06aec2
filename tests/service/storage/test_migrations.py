"""`lhb migrate` on both databases; programs refuse any schema but theirs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from service.storage.migrate import migrate
from service.storage.postgres.store import NotDurable, PostgresStore
from service.storage.schema import (
    VERSION_TABLE,
    WrongSchema,
    check_revision,
    head,
    revisions,
    script,
)
from service.storage.sqlite.file_lock import OwnedElsewhere
from service.storage.sqlite.store import SqliteStore


def shape(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select name, sql from sqlite_master where sql is not null")
        return sorted((name, " ".join(sql.lower().split())) for name, sql in rows)


def test_a_new_file_and_a_migrated_file_have_the_same_schema(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "new.db").close()
    assert migrate(f"sqlite:///{tmp_path / 'migrated.db'}") == (None, head())
    new, migrated = dict(shape(tmp_path / "new.db")), dict(shape(tmp_path / "migrated.db"))
    assert new.keys() == migrated.keys()
    del new["alembic_version"], migrated["alembic_version"]  # alembic writes its own the long way
    assert new == migrated


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    migrate(database_url)
    assert migrate(database_url) == (head(), head())


def test_a_served_file_is_not_migrated(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "lhb.db")
    with pytest.raises(OwnedElsewhere):
        migrate(f"sqlite:///{tmp_path / 'lhb.db'}")
    store.close()


def test_every_revision_of_alembic_has_its_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", "service.storage:migrations")
    directory = ScriptDirectory.from_config(config)
    assert directory.get_heads() == [head()]
    assert sorted(s.revision for s in directory.walk_revisions()) == list(revisions())


def test_an_empty_postgres_is_refused_with_the_command(empty_postgres: str) -> None:
    with pytest.raises(WrongSchema, match="lhb migrate"):
        PostgresStore(empty_postgres)


@pytest.mark.parametrize(("found", "said"), [("0000", "newer release"), (None, "lhb migrate")])
def test_any_other_schema_is_refused(found: str | None, said: str) -> None:
    with pytest.raises(WrongSchema, match=said):
        check_revision(found)


def test_an_older_schema_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.storage.schema.revisions", lambda: ("0001", "0002"))
    with pytest.raises(
        WrongSchema, match="schema 0001, this program needs 0002: run `lhb migrate`"
    ):
        check_revision("0001")


def test_a_file_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "lhb.db").close()
    with closing(sqlite3.connect(tmp_path / "lhb.db")) as connection:
        connection.execute("update alembic_version set version_num = '9999'")
        connection.commit()
    with pytest.raises(WrongSchema, match="newer"):
        SqliteStore(tmp_path / "lhb.db")


def test_a_failed_migration_leaves_nothing(
    empty_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "create table one (x integer); create table two (syntax error;"
    monkeypatch.setattr("service.storage.migrate.script", lambda revision, dialect: broken)
    file = tmp_path / "lhb.db"
    for url in (empty_postgres, f"sqlite:///{file}"):
        with pytest.raises(Exception, match="syntax"):
            migrate(url)
    assert shape(file) == []
    with psycopg.connect(empty_postgres) as connection:
        assert connection.execute("select to_regclass('one')").fetchone() == (None,)


def test_a_database_that_may_forget_is_refused(postgres_url: str) -> None:
    with pytest.raises(NotDurable, match="synchronous_commit"):
        PostgresStore(f"{postgres_url}?options=-csynchronous_commit%3Doff")


def test_the_test_server_syncs(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"show {name}").fetchone() == ("on",)


def test_sessions_survive_every_migration_with_their_counters(tmp_path: Path) -> None:
    file = tmp_path / "lhb.db"
    about = ("", "s", "n", "uniform", 2, 4, 1, "{}", "single", 0.0, None, "background", "{}", 1.0)
    schedule = '{"open":[],"current":null,"waiting":[]}'
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script("0001", "sqlite") + VERSION_TABLE)
        connection.execute("insert into alembic_version values ('0001')")
        values = (*about, None, 7, 3, 5, 2, 1, 1, schedule, None, None)
        connection.execute(f"insert into sessions values ({','.join('?' * len(values))})", values)
        connection.commit()
    migrate(f"sqlite:///{file}")
    store = SqliteStore(file)
    with store.reader() as reader:
        session = reader.session(("", "s"))
        assert session is not None
        assert (session.n_rounds, session.n_trajectories, session.n_complete) == (7, 3, 5)
        assert (session.n_estimates, session.estimate, session.model_version) == (2, 1, 1)
        assert session.created_as == "n"
        assert reader.sessions("", "", 10, False) == [session]
    store.close()


def test_decisions_survive_every_migration(tmp_path: Path) -> None:
    file = tmp_path / "lhb.db"
    row = ("", "s", "", 1, 1, 1, "a", b"d", 0, "left", b"x", b"y", 0.5, 0, 0, 1, 0, 8, 12.5)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script("0001", "sqlite") + VERSION_TABLE)
        connection.execute("insert into alembic_version values ('0001')")
        for number in (2, 1):
            values = (*row[:3], number, number, number, f"{number}", *row[7:])
            marks = ",".join("?" * len(values))
            connection.execute(f"insert into decisions values ({marks})", values)
        connection.commit()
    assert migrate(f"sqlite:///{file}") == ("0001", head())
    store = SqliteStore(file)
    with store.reader() as reader:
        found = reader.decisions(("", "s", ""), 0, 10)
        assert [decision.round for decision in found] == [1, 2]
        assert found[0] == (*row[:6], "1", *row[7:], *[None] * 4)  # columns that came later
        assert reader.decision(("", "s", ""), "2") == found[1]
    store.close()
    SqliteStore(tmp_path / "new.db").close()
    assert dict(shape(file))["decisions"] == dict(shape(tmp_path / "new.db"))["decisions"]
