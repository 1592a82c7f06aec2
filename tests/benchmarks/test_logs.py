"""`lhb bench logs`, on a log that takes a moment."""

import json

import pytest
from typer.testing import CliRunner

from clients.cli.main import app


def shown(*arguments: str) -> dict:
    answer = CliRunner().invoke(
        app, ["bench", "logs", *arguments, "--json"], catch_exceptions=False
    )
    return json.loads(answer.stdout)


def test_each_reading_is_timed_and_compared_with_the_first() -> None:
    """Here alone: tests/clients/test_large_logs.py has a cluster."""
    for module in ("pyarrow", "distributed"):
        pytest.importorskip(module)
    size = ["--horizon", "8", "--dim", "2", "--rows", "5000", "--files", "3"]
    found = shown(*size, "--workers", "0", "--workers", "0")
    assert [row["workers"] for row in found["times"]] == [0, 0]
    for row in found["times"]:
        assert row["difference"] < 1e-12
        assert row["rows_per_second"] == pytest.approx(5000 / row["seconds"], abs=1)


def test_a_cluster_of_less_than_no_process_is_refused() -> None:
    answer = CliRunner().invoke(app, ["bench", "logs", "--workers", "-1"])
    assert answer.exit_code == 2
