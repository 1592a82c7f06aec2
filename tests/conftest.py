"""Databases for the tests: SQLite files, and a real PostgreSQL, never skipped."""

import gc
import os
import shutil
import tempfile
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
import structlog
from psycopg.conninfo import conninfo_to_dict

from lhb_engine.blas import one_thread
from service.storage.maintenance import migrate
from tests.postgres_server import PostgresServer

TESTS = Path(__file__).resolve().parent
IN_MEMORY = Path("/dev/shm")
# where the longest tests are: the engine's worlds, all experiments, all routes, all examples
LONG = ("lhb_engine", "test_experiments", "test_fuzzed", "test_stateful", "test_site", "test_late")
ROOM = 4 * 2**30  # bytes that files of a whole run may need


def pytest_configure() -> None:
    """Give BLAS one thread: more wait by spinning, at ten times the CPU where cores are busy."""
    one_thread()
    # a worker has the modules of all tests, and looks through them a tenth of its time
    gc.set_threshold(20_000, 20, 20)
    # or each of the servers that tests start compiles all that it imports, once more
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # a commit waits for its sync, which takes a disk milliseconds; TMPDIR says otherwise
    room = shutil.disk_usage(IN_MEMORY).free if IN_MEMORY.is_dir() else 0
    if "TMPDIR" not in os.environ and room > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)
    # no refusal by waits, which depend on the machine's speed; tests of overload set their own
    os.environ.setdefault("LHB_MAX_WAIT_SECONDS", "0")
    # fits that others wait for: in idle time they starve for seconds beside the other tests, and
    # begin anew in a new process; tests of priority set their own
    os.environ.setdefault("LHB_FIT_IDLE_SECONDS", "0")
    os.environ.setdefault("LHB_FIT_NICENESS", "0")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI nothing skips silently: a missing part is a failure there."""
    report = yield
    reason = str(call.excinfo.value) if call.excinfo else ""
    if report.skipped and "CI" in os.environ and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped in CI: {reason}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Have each worker of a whole run load its share of the modules first.

    So what pytest adds to their assertions is compiled once, and not by each worker at a time.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker or [Path(one).resolve() for one in session.config.args] != [TESTS]:
        return
    number, n = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in sorted(TESTS.rglob("test_*.py"))[number::n]:
        import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest of the slow tests, which would else run alone at the end."""

    def is_long(item: pytest.Item) -> bool:
        return "slow" in item.keywords and any(part in item.nodeid for part in LONG)

    items.sort(key=lambda item: not is_long(item))


@pytest.fixture(scope="module", autouse=True)
def own_log_level() -> Iterator[None]:
    """What a module logs does not depend on the level of a service that another one ran."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL's URL: LHB_TEST_DATABASE_URL, this machine's, or the one from pip."""
    given = os.environ.get("LHB_TEST_DATABASE_URL")
    if given:
        yield given
        return
    server = PostgresServer()
    server.start()
    try:
        yield server.url()
    finally:
        server.remove()


@contextmanager
def database(server: str) -> Iterator[str]:
    """A database of its own."""
    name = f"lhb_{uuid.uuid4().hex}"
    parts = conninfo_to_dict(server)
    host, port = parts.get("host", "127.0.0.1"), parts.get("port", "5432")
    access = ":".join(str(parts[part]) for part in ("user", "password") if parts.get(part))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
        try:
            yield f"postgresql://{access}@{host}:{port}/{name}"
        finally:
            connection.execute(f'drop database "{name}" with (force)')


@pytest.fixture
def empty_postgres(postgres_server: str) -> Iterator[str]:
    """A fresh database without a schema."""
    with database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def migrated(postgres_server: str) -> Iterator[str]:
    """A database that has our schema."""
    with database(postgres_server) as url:
        migrate(url)
        yield url


@pytest.fixture
def postgres_url(migrated: str) -> Iterator[str]:
    """A database with our schema and nothing in it."""
    yield migrated
    with psycopg.connect(migrated) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        tables = connection.execute(
            "select tablename from pg_tables where schemaname = 'public'"
        ).fetchall()
        for (table,) in tables:
            if table != "schema_revision":
                connection.execute(f'delete from "{table}"')


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'lhb.db'}"
    return str(request.getfixturevalue("postgres_url"))
