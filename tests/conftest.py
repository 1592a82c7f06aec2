"""Databases for the tests: SQLite files, and a real PostgreSQL, never skipped."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from service.storage.migrate import migrate
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL's URL: LHB_TEST_DATABASE_URL, this machine's, or the one from pip."""
    given = os.environ.get("LHB_TEST_DATABASE_URL")
    if given:
        yield given
        return
    server = PostgresServer(tmp_path_factory.mktemp("postgres"))
    server.start()
    try:
        yield server.url()
    finally:
        server.stop()


@pytest.fixture
def empty_postgres(postgres_server: str) -> Iterator[str]:
    """A fresh database without a schema."""
    name = f"lhb_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
        parts = psycopg.conninfo.conninfo_to_dict(postgres_server)
        host, port = parts.get("host", "127.0.0.1"), parts.get("port", "5432")
        access = ":".join(str(parts[p]) for p in ("user", "password") if parts.get(p))
        yield f"postgresql://{access}@{host}:{port}/{name}"
        connection.execute(f'drop database "{name}" with (force)')


@pytest.fixture
def postgres_url(empty_postgres: str) -> str:
    """A fresh database with our schema."""
    migrate(empty_postgres)
    return empty_postgres


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'lhb.db'}"
    return str(request.getfixturevalue("postgres_url"))
