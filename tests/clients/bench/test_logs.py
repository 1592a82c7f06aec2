"""`lhb bench logs`, on a log that takes a moment."""

import json

import pytest
from typer.testing import CliRunner

from clients.cli.main import app


def shown(*arguments: str) -> dict:
    answer = CliRunner().invoke(
        app, ["bench", "logs", *arguments, "--json"], catch_exceptions=False
    )
    return json.loads(answer.output)


@pytest.mark.slow
def test_a_cluster_has_the_sums_of_one_machine() -> None:
    for module in ("pyarrow", "distributed"):
        pytest.importorskip(module)
    size = ["--horizon", "8", "--dim", "2", "--rows", "5000", "--files", "3"]
    found = shown(*size, "--workers", "0", "--workers", "2")
    assert [row["workers"] for row in found["times"]] == [0, 2]
    for row in found["times"]:
        assert row["difference"] < 1e-12
        assert row["rows_per_second"] == pytest.approx(5000 / row["seconds"], abs=1)


def test_a_cluster_of_less_than_no_process_is_refused() -> None:
    answer = CliRunner().invoke(app, ["bench", "logs", "--workers", "-1"])
    assert answer.exit_code == 2
