"""One server owns a SQLite file, by whatever name another one finds it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.server_process import Server


def symlinked(file: Path) -> Path:
    other = file.with_name("symlink.db")
    other.symlink_to(file)
    return other


def hard_linked(file: Path) -> Path:
    other = file.parent / "elsewhere" / "hard.db"
    other.parent.mkdir()
    os.link(file, other)
    return other


def without_its_lock_file(file: Path) -> Path:
    Path(f"{file}.lock").unlink()
    return file


@pytest.mark.parametrize("other_name", [symlinked, hard_linked, without_its_lock_file])
def test_a_second_server_is_refused_whatever_it_calls_the_file(
    tmp_path: Path, other_name: Callable[[Path], Path]
) -> None:
    file = tmp_path / "lhb.db"
    with Server(file) as first:
        with (
            pytest.raises(AssertionError, match="served by another process"),
            Server(other_name(file)),
        ):
            pass
        with first.client() as client:
            assert client.get("/healthz").status_code == 200
    with Server(file):  # once it has ended, the file is free
        pass
