"""`lhb bench solver`, on a size that takes a moment."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.commands.solver import _milliseconds
from benchmarks.solver.against_peers import problem, run
from benchmarks.solver.costs import _in_a_child, _profile
from benchmarks.solver.peer_process import ask
from clients.cli.main import app

SMALL = "2,6,40"


@pytest.mark.slow
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


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    save = tmp_path / "cells.jsonl"
    some = {"sizes": [(2, 6, 40)], "peers": [], "repeat": 1, "save": save}
    first = run(**some, seeds=1, lams=["0.5"])
    run(**some, seeds=2, lams=["0.5", "path"], gaps=[1e-4])
    assert len(save.read_text().splitlines()) == 2 + 1 + 2
    # nothing is left to measure
    monkeypatch.setattr("benchmarks.solver.against_peers.problem", None)
    again = run(**some, seeds=1, lams=["0.5"])
    assert again["sizes"] == first["sizes"]


def asked(tmp_path, python=sys.executable, peer="celer", limit=60.0, steps=(0, 5)):
    """What becomes of one cell, sought from each of these steps of the tolerance."""
    contexts, y = problem((2, 6, 40), 0)
    np.savez(tmp_path / "0.npz", contexts=contexts, y=y, n_lags=6)
    cells = [{"lams": [0.001], "target": 1e-6, "step": step} for step in steps]
    return ask(str(python), peer, str(tmp_path / "0.npz"), cells, 1, limit)


def test_the_loosest_tolerance_is_found_from_either_side(tmp_path):
    loosest, again = asked(tmp_path)
    assert loosest["outcome"] == again["outcome"] == "met"
    assert loosest["step"] == again["step"]
    assert loosest["gap"] <= 1e-6


def test_a_peer_that_is_late_or_fails_is_said_to_be(tmp_path):
    stuck = tmp_path / "python"
    stuck.write_text("#!/bin/sh\necho '{\"ready\": true}'\nexec sleep 60\n")
    stuck.chmod(0o755)
    assert [cell["outcome"] for cell in asked(tmp_path, stuck, limit=0.2)] == ["late", "late"]
    assert [cell["outcome"] for cell in asked(tmp_path, peer="none")] == ["failed", "failed"]
    assert _milliseconds([None, 0.002], ["late", "met"], 60) == "2.0, 1 not in 60 s"


def test_costs_of_a_small_problem():
    memory = _in_a_child((2, 6, 40), 0.1)
    assert 0 <= memory["above_imports_mb"] < 50
    assert memory["gap"] <= 1e-6
    profile = _profile((2, 60, 80), 0.1)
    assert 0.1 < sum(profile["shares"].values()) < 1.2  # FFTs count within the operator too
    assert all(share > 0 for name, share in profile["shares"].items() if name != "gram_products")


@pytest.mark.parametrize(
    ("size", "most"),
    [((10, 5000, 20000), 100), pytest.param((10, 100_000, 50_000), 2000, marks=pytest.mark.slow)],
)
def test_memory_stays_near_the_data_s(size, most):
    found = _in_a_child(size, 0.02 if most == 100 else 0.1)
    assert found["gap"] <= 1e-6
    assert found["above_imports_mb"] < most
