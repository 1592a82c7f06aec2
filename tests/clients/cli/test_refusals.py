"""What cannot be done is a line that says why, no traceback, and costs nothing that is there."""

import sqlite3
import subprocess
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from clients.cli.output import EXPECTED, UNREACHABLE
from tests.forked_process import lhb_text


def lhb(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    database = {"LHB_DATABASE_URL": f"sqlite:///{folder / 'lhb.db'}"}
    return lhb_text(*arguments, **(database | environment))


def refused(done: subprocess.CompletedProcess[str], said: str) -> None:
    """Assert that it failed in one line that says this."""
    assert done.returncode == 1, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_no_server_at_the_url(tmp_path: Path) -> None:
    nobody = ("--url", "http://127.0.0.1:1")
    refused(lhb(tmp_path, "export", "shop", *nobody), "no server")
    refused(lhb(tmp_path, "simulate", "--json", "--rounds", "9", *nobody), "no server")
    refused(lhb(tmp_path, "export", "shop", "--url", "nowhere"), "http://")


def test_a_server_that_says_no(url: str, tmp_path: Path) -> None:
    asked = ("--json", "--rounds", "9", "--algorithm", "lin_ucb", "--dim", "200")
    refused(lhb(tmp_path, "simulate", *asked, "--url", url), "bad_option")


def test_no_such_file(tmp_path: Path) -> None:
    refused(lhb(tmp_path, "import", str(tmp_path / "nothing")), "nothing")
    url = f"sqlite:///{tmp_path / 'no' / 'lhb.db'}"
    refused(lhb(tmp_path, "serve", LHB_DATABASE_URL=url), "No such file")


def test_a_setting_that_cannot_be(tmp_path: Path) -> None:
    refused(lhb(tmp_path, "serve", LHB_FIT_WORKERS="0"), "LHB_FIT_WORKERS")


@pytest.mark.parametrize("command", [("serve",), ("replay",), ("keys", "list")])
def test_a_file_that_is_no_database_of_ours(tmp_path: Path, command: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(tmp_path / "lhb.db")) as connection:
        connection.execute("create table somebody_elses (x)")
    refused(lhb(tmp_path, *command), "lhb migrate")
    (tmp_path / "lhb.db").write_text("words, not a database, and more than a hundred of them " * 9)
    refused(lhb(tmp_path, *command), "not a SQLite database")


def test_an_export_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    lhb(tmp_path, "migrate")
    before = tmp_path / "shop.ndjson"
    before.write_text("yesterday's")
    refused(lhb(tmp_path, "export", "shop", "--out", str(before)), "no session")
    assert before.read_text() == "yesterday's"
    assert {path.name for path in tmp_path.glob("shop*")} == {"shop.ndjson"}


@pytest.mark.parametrize("name", [*EXPECTED, *UNREACHABLE])
def test_what_is_expected_is_an_exception_that_exists(name: str) -> None:
    module, _, kind = name.rpartition(".")
    assert issubclass(getattr(import_module(module), kind), Exception)
