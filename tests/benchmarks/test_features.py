"""`lhb bench serve --everything-on`: each feature is really on, and only then."""

import shutil
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.server import features
from benchmarks.server.features import FEATURES, OFF, ON
from clients.cli.main import app
from service.base.server_settings import known_variables


def test_a_setting_that_is_switched_is_one_of_the_servers() -> None:
    for feature in FEATURES.values():
        ours = {name for name in feature.settings if name.startswith("LHB_")}
        assert ours <= known_variables()
    for name, feature in FEATURES.items():
        if name in features.SINGLE:  # it is on where everything is
            assert feature.settings.items() <= FEATURES[ON].settings.items()


def check(found: dict[str, Any], measure: str) -> None:
    assert list(found) == [OFF, ON]
    assert found[OFF][measure] > 0
    assert found[OFF]["ratio"] == 1
    assert found[ON]["ratio"] == pytest.approx(found[ON][measure] / found[OFF][measure], rel=0.01)
    assert (found[OFF]["log_lines"], found[OFF]["scrapes"]) == (0, 0)
    assert found[ON]["log_lines"] > 64  # a line a request
    assert found[ON]["scrapes"] >= 1


@pytest.mark.slow
def test_everything_on_is_measured_against_nothing_on() -> None:
    check(features.run(1, 1, [ON])["features"], "cpu_us")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_the_instructions_of_a_decision_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the server that does most; one that does nothing besides is measured above."""
    counted = features._counted

    def of_on(feature: features.Feature, seconds: int) -> dict[str, float]:
        if feature.is_collected:
            return counted(feature, seconds, waves=8)
        return {"instructions": 400.0, "log_lines": 0, "scrapes": 0}

    monkeypatch.setattr(features, "_counted", of_on)
    found = features.run(1, 1, [ON], is_counted=True)["features"]
    check(found, "instructions")
    assert 100 < found[ON]["instructions"] < 5000  # thousands


def test_it_is_not_measured_on_postgresql() -> None:
    done = CliRunner().invoke(app, ["bench", "serve", "--everything-on", "--database", "x"])
    assert done.exit_code == 2
