"""Read logs of the Open Bandit Dataset (Saito et al. 2021), as it is published.

A folder holds one log and `item_context.csv`. A row of the log is one item shown at one position:
`timestamp`, `item_id`, `position`, `click`, `propensity_score`, `user_feature_*` and
`user-item_affinity_k` of each item k. An arm is an item; its context is the item's number, a 1 for
each of its categories, the user's affinity to it, and a 1 for the position.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ITEMS = "item_context.csv"
AFFINITY = "user-item_affinity_"
NUMBERS = ("item_feature_0",)  # the other features of an item are categories
POSITIONS = ("1", "2", "3")


def is_open_bandit(path: Path) -> bool:
    """Return whether a file is a log of this data set: its items lie beside it."""
    return path.suffix == ".csv" and path.name != ITEMS and (path.parent / ITEMS).is_file()


def read_rounds(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rounds of a log in the order of their times, as rows that `log_files` reads.

    Raises
    ------
    KeyError
        A column is missing.
    """
    items = _items(path.parent / ITEMS)
    with path.open(newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["timestamp"])
    for row in rows:
        place = [float(row["position"] == position) for position in POSITIONS]
        yield {
            "arm": int(row["item_id"]),
            "reward": float(row["click"]),
            "propensity": float(row["propensity_score"]),
            "contexts": [
                [*features, float(row.get(f"{AFFINITY}{item}") or 0.0), *place]
                for item, features in enumerate(items)
            ],
        }


def _items(path: Path) -> list[list[float]]:
    """Return the features of each item: its numbers, and a 1 for each of its categories."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["item_id"]))
    names = [n for n in rows[0] if n.startswith("item_feature_") and n not in NUMBERS]
    columns = sorted({(name, row[name]) for row in rows for name in names})
    return [
        [float(row[n]) for n in NUMBERS] + [float(row[name] == value) for name, value in columns]
        for row in rows
    ]
