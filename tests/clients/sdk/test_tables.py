"""Answers as tables and figures."""

import sys
from typing import Any

import matplotlib
import pytest

from lhb import plot, to_frame

ESTIMATE: dict[str, Any] = {
    "theta": [0.6, -0.8],
    "lag_weights": [0.0, 2.0],
    "features": ["price", "sport"],
    "intervals": {"theta": [[0.5, 0.7], [-0.9, -0.7]], "lags": [1], "lag_weights": [[1.5, 2.5]]},
}
SERIES = {"reason": None, "items": [{"last_round": 9, "reward": 1.0, "expected": 2.0}]}
LIFT = {"points": [{"n_rounds": 9, "difference": 1.0, "low": 0.5, "high": 2.0}]}
CREDIT = {"items": [{"feature": 0, "name": None, "at_once": 1.0, "later": -2.0}]}


@pytest.fixture(autouse=True)
def draw_nowhere() -> None:
    matplotlib.use("Agg")


def test_an_estimate_is_a_table_of_its_numbers() -> None:
    table = to_frame(ESTIMATE)
    assert table["of"].tolist() == ["theta", "theta", "lag weight", "lag weight"]
    assert table["name"].tolist() == ["price", "sport", 0, 1]
    assert table["low"].fillna(-9).tolist() == [0.5, -0.9, -9, 1.5]
    assert not table["drawn"].any()


def test_bands_of_draws_are_marked() -> None:
    drawn = ESTIMATE | {"intervals": ESTIMATE["intervals"] | {"drawn": True}}
    assert to_frame(drawn)["drawn"].all()
    assert [axis.get_title() for axis in plot(drawn).axes] == [
        "theta, bands of draws",
        "lag weight, bands of draws",
    ]


def test_items_points_and_listings_are_rows() -> None:
    assert to_frame(SERIES)["expected"].tolist() == [2.0]
    assert to_frame(LIFT)["high"].tolist() == [2.0]
    assert to_frame({"round": n} for n in (1, 2))["round"].tolist() == [1, 2]
    assert to_frame({"n_rounds": 3})["n_rounds"].tolist() == [3]


def test_what_can_be_drawn_is() -> None:
    theta, lags = plot(ESTIMATE).axes
    assert [bar.get_height() for bar in theta.patches] == [0.6, -0.8]
    assert lags.get_title() == "lag weight"
    assert [line.get_label() for line in plot(SERIES).axes[0].lines] == ["reward", "expected"]
    assert plot(LIFT).axes[0].collections
    assert [bar.get_height() for bar in plot(CREDIT).axes[0].patches] == [1.0, -2.0]


def test_what_is_empty_says_why() -> None:
    with pytest.raises(ValueError, match="no round yet"):
        plot({"items": [], "reason": "no round yet"})
    with pytest.raises(ValueError, match="nothing to draw"):
        plot({"status": "none"})


def test_without_pandas_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas: pip install pandas"):
        to_frame(SERIES)
