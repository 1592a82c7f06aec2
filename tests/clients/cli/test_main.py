"""`lhb simulate` as a user types it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.forked_process import lhb_text as lhb


def simulate(*arguments: str) -> tuple[dict[str, Any], str]:
    done = lhb("simulate", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer, done.stderr


def test_json_has_the_documented_shape(tmp_path: Path) -> None:
    plot = tmp_path / "regret.png"
    answer, _ = simulate(
        *("--algorithm", "ad_lasso", "--algorithm", "uniform", "--rounds", "200"),
        *("--horizon", "20", "--dim", "3", "--arms", "4", "--seeds", "2", "--plot", str(plot)),
    )
    assert answer["settings"]["rounds"] == 200
    assert set(answer["algorithms"]) == {"ad_lasso", "uniform"}
    row = answer["algorithms"]["ad_lasso"]
    assert len(row["regret"]) == 2
    assert row["mean"] == pytest.approx(sum(row["regret"]) / 2)
    assert row["stderr"] > 0
    assert row["seconds"] > 0
    assert plot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_one_world_has_no_standard_error() -> None:
    answer, _ = simulate("--algorithm", "uniform", "--rounds", "50", "--seeds", "1")
    assert answer["algorithms"]["uniform"]["stderr"] is None


def test_table_names_every_algorithm() -> None:
    done = lhb("simulate", "--algorithm", "uniform", "--algorithm", "oracle", "--rounds", "50")
    assert done.returncode == 0
    assert "uniform" in done.stdout
    assert "oracle" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--algorithm", "nothing"),
        ("--weights", "nothing"),
        ("--option", "nothing=1", "--algorithm", "ad_lasso"),
        ("--option", "reg", "--algorithm", "ad_lasso"),
        ("--sparsity", "500"),
        ("--rounds", "0"),
    ],
)
def test_wrong_arguments_are_explained(arguments: tuple[str, ...]) -> None:
    done = lhb("simulate", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


PAPER = ("--rounds", "2000", "--horizon", "100", "--dim", "5", "--arms", "10", "--noise", "0.1")


def test_flat_weights() -> None:
    """The figures that the project promises on the paper's world, ten seeds."""
    answer, _ = simulate(
        *("--algorithm", "ad_lasso", "--algorithm", "uniform", "--algorithm", "oracle_w"),
        *(*PAPER, "--weights", "flat", "--sparsity", "5", "--seeds", "10"),
    )
    mean = {name: row["mean"] for name, row in answer["algorithms"].items()}
    assert mean["uniform"] == pytest.approx(1750, rel=0.03)
    assert mean["ad_lasso"] <= 400
    assert mean["oracle_w"] < 100


@pytest.mark.slow  # the same promise for another kind of weights
def test_spiking_weights() -> None:
    answer, _ = simulate(
        *("--algorithm", "ad_lasso", *PAPER),
        *("--weights", "spiking", "--sparsity", "5", "--seeds", "10"),
    )
    assert answer["algorithms"]["ad_lasso"]["mean"] <= 320


def test_theory_constants_learn_nothing_and_say_so() -> None:
    answer, warned = simulate(
        *("--algorithm", "ad_lasso", "--algorithm", "uniform", *PAPER, "--seeds", "2"),
        *("--option", "ad_lasso.reg=theory", "--option", "ad_lasso.c=1"),
    )
    regret = answer["algorithms"]
    assert regret["ad_lasso"]["regret"] == regret["uniform"]["regret"]
    assert "every estimate was zero" in warned
