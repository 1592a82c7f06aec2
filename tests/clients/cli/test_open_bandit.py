"""Logs in the published format of the Open Bandit Dataset, written by hand."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from clients.cli.log_files import LogError, read_log
from clients.cli.main import app

N_ITEMS, N = 5, 1500
COLOURS = ["red", "blue", "red", "green", "blue"]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["", *rows[0]])
        writer.writeheader()
        writer.writerows({"": i, **row} for i, row in enumerate(rows))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Uniform play; a user clicks on what she has an affinity to, whatever was shown before."""
    folder, rng = tmp_path_factory.mktemp("obd"), np.random.default_rng(3)
    items = [
        {"item_id": k, "item_feature_0": k / 10, "item_feature_1": colour}
        for k, colour in enumerate(COLOURS)
    ]
    write(folder / "item_context.csv", items[::-1])
    rows = []
    for i in range(N):
        item, affinity = int(rng.integers(N_ITEMS)), rng.integers(2, size=N_ITEMS)
        rows.append(
            {
                "timestamp": f"2019-11-24 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}+00:00",
                "item_id": item,
                "position": int(rng.integers(1, 4)),
                "click": int(rng.random() < 0.1 + 0.5 * affinity[item]),
                "propensity_score": 1 / N_ITEMS,
                "user_feature_0": "cef3390e",
                **{f"user-item_affinity_{k}": float(a) for k, a in enumerate(affinity)},
            }
        )
    write(folder / "men.csv", rows[::-1])
    return folder / "men.csv"


def test_an_item_is_an_arm_with_its_features(log: Path) -> None:
    [chunk] = list(read_log(log))
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))[::-1]  # in the order of their times
    assert chunk.contexts is not None
    assert chunk.arms is not None
    assert chunk.contexts.shape == (N, N_ITEMS, 1 + 3 + 1 + 3)
    assert chunk.arms.tolist() == [int(row["item_id"]) for row in rows]
    assert chunk.rewards.tolist() == [float(row["click"]) for row in rows]
    assert chunk.propensities is not None
    assert set(chunk.propensities) == {1 / N_ITEMS}
    for i in (0, 7):
        place = [float(rows[i]["position"] == p) for p in "123"]
        for k, colour in enumerate(COLOURS):
            categories = [float(colour == c) for c in ("blue", "green", "red")]
            affinity = float(rows[i][f"user-item_affinity_{k}"])
            assert chunk.contexts[i, k].tolist() == [k / 10, *categories, affinity, *place]


def test_lag_0_alone_is_found_and_more_clicks_could_have_been_had(log: Path) -> None:
    command = ["evaluate", str(log), "--horizon", "8", "--algorithm", "ad_lasso", "--json"]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)["algorithms"]["ad_lasso"]
    assert found["lags"] == [0]
    assert found["logged"]["low"] < 0.35 < found["logged"]["high"]
    # at least one of five items is liked in 31 of 32 rounds
    assert found["robust"]["value"] == pytest.approx(0.1 + 0.5 * 31 / 32, abs=0.1)
    assert found["gain"]["low"] > 0.1
    assert found["skill"]["low"] > 0


def test_another_file_beside_items_is_refused(log: Path, tmp_path: Path) -> None:
    (tmp_path / "item_context.csv").write_bytes((log.parent / "item_context.csv").read_bytes())
    (tmp_path / "log.csv").write_text("timestamp,item_id,position\n2019,0,1\n")
    with pytest.raises(LogError, match="click"):
        list(read_log(tmp_path / "log.csv"))
