"""Who has no key learns nothing of the database, and no password is shown to anybody."""

import re
from pathlib import Path

import psycopg
import pytest
from structlog.testing import CapturingLogger, capture_logs

from service.api import status
from service.base.logs import configure_logs, log_failure
from service.base.problems import ProblemCode, Unavailable
from service.commands.keys import new_key, save_key
from service.storage.database_url import is_sqlite, sqlite_path
from service.storage.maintenance import migrate
from service.storage.ports import Refused
from service.storage.postgres.connection import translated
from service.storage.sqlite.connection import connect
from service.storage.sqlite.store import SqliteStore
from tests.service.conftest import Serve, problem

SECRET = "it failed: host=db.internal port=5432 user=lhb"


@pytest.mark.anyio
async def test_readiness_says_nothing_of_the_database(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says it, and what the driver said."""
    key, row = new_key("", "test", 0.0)
    async with serve() as client:
        assert (await client.read("/readyz"))["database"] == "ok"
        await client.service.writer.submit(save_key(row))
    async with serve() as client:
        assert await client.read("/readyz") == {"status": "ok"}
        known = {"authorization": f"Bearer {key}"}
        assert (await client.get("/readyz", headers=known)).json()["fits_due"] == 0

        def away() -> None:
            raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, SECRET, "too many clients")

        monkeypatch.setattr(client.service.store, "reader", away)
        said = CapturingLogger()
        monkeypatch.setattr(status, "log", said)
        answer = await client.get("/readyz")
        problem(answer, 503, "storage_unreachable")
        assert said.calls[0].kwargs["reason"] == f"{SECRET} (too many clients)"
        assert "internal" not in answer.text
        assert "5432" not in answer.text


@pytest.mark.anyio
async def test_the_page_of_the_schema_loads_nothing_from_elsewhere(serve: Serve) -> None:
    async with serve() as client:
        page = await client.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|import\s*\(|@import", page.text)
        assert (await client.get("/redoc")).status_code == 404


@pytest.mark.parametrize(
    "url",
    [
        "postgresq://user:s3cret@db.internal/lhb",
        "postgresql:/user:s3cret@db.internal/lhb",
        "user:s3cret@db.internal",
        "mysql://user:s3cret/with@odd@db/lhb?password=s3cret",
    ],
)
def test_a_mistyped_url_shows_no_password(url: str) -> None:
    for read in (is_sqlite, sqlite_path):
        with pytest.raises(Refused) as refused:
            read(url)
        assert "s3cret" not in str(refused.value)


def test_a_new_database_is_its_owners_alone(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "served.db").close()
    migrate(f"sqlite:///{tmp_path / 'migrated.db'}")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_what_a_driver_says_is_for_the_log_alone() -> None:
    """psycopg names host and port, SQLite the file: an answer names neither, the log both."""
    said = 'connection to server at "10.0.0.5", port 5432 failed'
    configure_logs("info")
    for is_commit in (False, True):
        with pytest.raises(Unavailable) as refused, translated(is_commit=is_commit):
            raise psycopg.OperationalError(said)
        assert b"10.0.0.5" not in refused.value.body()
        with capture_logs() as lines:
            log_failure(refused.value, "id", "/v1/sessions")
        assert said in lines[0]["cause"]
    with pytest.raises(Unavailable) as refused:
        connect(Path("/nowhere/lhb.db"))
    assert b"nowhere" not in refused.value.body()
    assert "/nowhere/lhb.db" in str(refused.value)
