"""Settings that are wrong, and variables that are none."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.base.problems import Unavailable
from service.base.server_settings import Settings, unknown_variables
from service.storage.database_url import open_reader
from service.storage.maintenance import migrate
from service.storage.ports import Refused


def test_a_level_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LHB_LOG_LEVEL", "foo")
    with pytest.raises(ValidationError, match="'debug', 'info', 'warning', 'error'") as refused:
        Settings()
    assert refused.value.errors()[0]["loc"] == ("log_level",)
    monkeypatch.setenv("LHB_LOG_LEVEL", "WARNING")
    assert Settings().log_level == "warning"


def test_misspelt_variables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unknown_variables() == []
    monkeypatch.setenv("LHB_MAX_BATCH", "3")
    monkeypatch.setenv("LHB_API_KEY", "lhb_x")
    monkeypatch.setenv("LHB_MAX_BACH", "3")
    assert unknown_variables() == ["LHB_MAX_BACH"]


def test_a_strangers_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table customers (name text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Refused, match="customers"):
        migrate(f"sqlite:///{path}")
    assert path.read_bytes() == before
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear all, " * 1000)
    with pytest.raises(Refused, match=r"letter\.txt"):
        migrate(f"sqlite:///{letter}")
    assert letter.read_text().startswith("Dear all")


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.db"
    with (
        pytest.raises(Unavailable, match=r"cannot be opened \(.*absent\.db"),
        open_reader(f"sqlite:///{path}"),
    ):
        pass


def test_a_password_file_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes("größe\n".encode())
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    given = {"LHB_DATABASE_URL": "postgresql://lhb@db/lhb", "LHB_DATABASE_PASSWORD_FILE": str(file)}
    code = "from service.base.server_settings import Settings; print(Settings().database_url)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **locale, **given},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"postgresql://lhb:gr%C3%B6%C3%9Fe@db/lhb\n"
