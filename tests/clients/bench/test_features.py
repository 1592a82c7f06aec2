"""`lhb bench serve --everything-on`: each feature is really on, and only then."""

import pytest
from typer.testing import CliRunner

from clients.bench.server import features
from clients.bench.server.features import FEATURES, OFF, ON
from clients.cli.main import app
from service.settings import known_variables


def test_a_setting_that_is_switched_is_one_of_the_servers() -> None:
    for feature in FEATURES.values():
        ours = {name for name in feature.settings if name.startswith("LHB_")}
        assert ours <= known_variables()
    for name, feature in FEATURES.items():
        if name in features.SINGLE:  # it is on where everything is
            assert feature.settings.items() <= FEATURES[ON].settings.items()


@pytest.mark.slow
def test_everything_on_is_measured_against_nothing_on() -> None:
    found = features.run(1, 1, [ON])["features"]
    assert list(found) == [OFF, ON]
    assert found[OFF]["cpu_us"] > 0
    assert found[OFF]["cpu_us_ratio"] == 1
    assert found[ON]["cpu_us_ratio"] == pytest.approx(
        found[ON]["cpu_us"] / found[OFF]["cpu_us"], rel=0.01
    )
    assert (found[OFF]["log_lines"], found[OFF]["scrapes"]) == (0, 0)
    assert found[ON]["log_lines"] > 64  # a line a request
    assert found[ON]["scrapes"] >= 1


def test_it_is_not_measured_on_postgresql() -> None:
    done = CliRunner().invoke(app, ["bench", "serve", "--everything-on", "--database", "x"])
    assert done.exit_code == 2
