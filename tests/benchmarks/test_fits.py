"""`lhb bench fit`, on sizes that take a moment."""

import json

from typer.testing import CliRunner

from benchmarks.fits import run
from benchmarks.regret_scoreboard import World
from clients.cli.main import app
from lhb_engine.agents import fit_past
from lhb_engine.posterior import fit_data
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401


def test_a_fit_is_timed_from_moments_and_from_rows():
    arguments = ["bench", "fit", "--size", "6,2,500", "--size", "6,2,150000", "--json"]
    found = json.loads(CliRunner().invoke(app, arguments).output)
    small, large = found["sizes"]
    assert small["rows"] > 0
    assert large["rows"] is None
    assert found["runs"] == []
    for row in (small, large):
        assert row["cosine"] > 0.99
        assert row["fit"] > 0
        assert row["us_a_row"] > 0


def test_reading_rows_is_told_apart_from_the_fits_of_a_run():
    before = fit_past.align, fit_data.session_moments
    found = run(World("small", rounds=600, horizon=10, dim=2), 1)
    assert (fit_past.align, fit_data.session_moments) == before
    assert found["n_fits"] > 20
    assert found["fits"] > found["reading"] > 0


def test_a_world_that_is_none_is_refused():
    answer = CliRunner().invoke(app, ["bench", "fit", "--world", "flat 6"])
    assert answer.exit_code == 2
    assert "no such world" in answer.output


def test_fits_with_levels_are_timed_beside_those_without():
    arguments = ["bench", "fit", "--levels", "4000", "--json"]
    found = json.loads(CliRunner().invoke(app, arguments).output)
    [row] = found["levels"]
    assert found["sizes"] == found["runs"] == []
    assert row["cosine"] > 0.99
    assert row["fit"] > 0
    assert row["without"] > 0
    low, high = row["interval"]
    assert low < row["spread"] < high


def test_fits_of_own_responses_are_timed_for_users_in_turn_and_one_after_another():
    asked = ["bench", "fit", "--own", "25", "--users", "600", "--json"]
    found = json.loads(CliRunner().invoke(app, asked).output)
    assert [row["order"] for row in found["own"]] == ["one after another", "in turn"]
    for row in found["own"]:
        assert min(row["fit"], row["without"], row["theta_ms"]) > 0
        assert 0.03 < row["spread"] < 0.4
