"""`lhb bench solver`, on a size that takes a moment."""

import json
import sys

import pytest
from typer.testing import CliRunner

from clients.bench.solver import run
from clients.cli import app

SMALL = "2,6,40"


def test_celer_in_this_environment_is_measured_at_the_same_gap():
    result = run(
        sizes=[(2, 6, 40)], seeds=2, peers=["celer"], peers_python=sys.executable, repeat=1
    )
    cells = result["sizes"][0]["cells"]
    assert [c["lam"] for c in cells] == ["0.5", "0.5", "0.1", "0.1", "0.02", "0.02", "path", "path"]
    for cell in cells:
        assert max(cell["gap"]) <= cell["target"]
        assert len(cell["ratios"]) == 2
        assert all(s > 0 for s in cell["peers"]["celer"])
        assert cell["ratio"] == pytest.approx((cell["ratios"][0] * cell["ratios"][1]) ** 0.5)


@pytest.mark.slow
def test_the_command_prints_one_object_or_a_table():
    arguments = ["bench", "solver", "--size", SMALL, "--seeds", "1", "--peer", "celer"]
    arguments += ["--peers-python", sys.executable]
    whole = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(whole.output)["sizes"][0]["n_rows"] == 40
    table = CliRunner().invoke(app, arguments)
    assert "best peer / ours" in table.output


def test_a_size_must_be_three_numbers():
    result = CliRunner().invoke(app, ["bench", "solver", "--size", "2,6"])
    assert result.exit_code == 2
