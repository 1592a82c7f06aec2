"""Read logged trajectories from files, in chunks of rounds.

A file holds one row or object a round, in the order in which they were played, with the columns of
docs/evaluate.md, whose case does not matter; or it is an export of a session.

Logs of the Open Bandit Dataset (Saito et al. 2021) are read as published: a folder holds one log
and `item_context.csv`. A row is one item shown at one position; an arm is an item. Its context is
its number, a 1 for each of its categories, the user's affinity to it, and a 1 for the position.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from clients.cli.output import LogError
from lhb_engine.evaluation.log_replay import NO_ARM, Chunk

CHUNK_ROUNDS = 4096
NAMES = ("arm", "reward", "propensity", "contexts", "context", "trajectory", "covariates")
CHOSEN: Sequence[str] = ("arm", "propensity", "context", "contexts")  # of a decision with an action
ITEMS = "item_context.csv"
AFFINITY = "user-item_affinity_"
NUMBERS = ("item_feature_0",)  # the other features of an item are categories
POSITIONS = ("1", "2", "3")


def read_log(
    path: Path, chunk_rounds: int = CHUNK_ROUNDS, covariates: Sequence[str] = ()
) -> Iterator[Chunk]:
    """Read the rounds of a .csv, .ndjson or .parquet file, with the covariates of these names.

    Raises `LogError`: a row that is not of the documented form, or there is no reward in any row of
    the first chunk.
    """
    readers: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
        ".csv": partial(_csv, covariates=covariates),
        ".ndjson": _ndjson,
        ".jsonl": _ndjson,
        ".parquet": _parquet,
    }
    if path.suffix not in readers:
        raise LogError(f"{path.name}: must end in {', '.join(readers)}")
    is_open_bandit = path.name != ITEMS and (path.parent / ITEMS).is_file()  # its items beside it
    read = _open_bandit if path.suffix == ".csv" and is_open_bandit else readers[path.suffix]
    rounds = enumerate(map(_named, read(path)), 1)
    dim: int | None = None
    while rows := list(islice(rounds, chunk_rounds)):
        if dim is None and not any("reward" in row for _, row in rows):
            raise LogError(
                f"{path.name}: there is no reward; there are {', '.join(map(str, rows[0][1]))}"
            )
        dim = dim or next(filter(None, (_width(row) for _, row in rows)), None)
        for _, alike in groupby(rows, _arms):
            yield _chunk(list(alike), dim, covariates)


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose columns have their names as documented, `reward` for `Reward`."""
    if row.keys() <= set(NAMES):
        return row
    return {name.lower() if name.lower() in NAMES else name: value for name, value in row.items()}


def _width(row: dict[str, Any]) -> int | None:
    """Return the numbers of a row's context; None where it has none, or is not of the form."""
    context, contexts = row.get("context"), row.get("contexts")
    if isinstance(contexts, list) and contexts:
        context = contexts[0]
    return len(context) if isinstance(context, list) else None


def _arms(numbered: tuple[int, dict[str, Any]]) -> int | None:
    """Return the number of arms whose contexts a row has; a chunk holds rounds of one number."""
    contexts = numbered[1].get("contexts")
    return len(contexts) if isinstance(contexts, list) else None


def _csv(path: Path, covariates: Sequence[str]) -> Iterator[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        for name in covariates:
            if name not in (reader.fieldnames or ()):
                raise LogError(f"{path.name}: there is no column {name}")
        for row in map(_named, reader):
            out: dict[str, Any] = dict(row)
            for name in ({*NAMES, *covariates} - {"trajectory"}) & row.keys():
                out[name] = json.loads(row[name]) if row[name] else None
            if "x0" in row:
                names = [f"x{i}" for i in range(sum(n[:1] == "x" and n[1:].isdigit() for n in row))]
                filled = all(row[name] for name in names)
                out["context"] = [float(row[name]) for name in names] if filled else None
            yield out


def _ndjson(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                continue
            row = json.loads(line)
            if row.get("record") == "header":
                yield from _events(path)
                return
            yield row


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rounds of an exported session in the order in which they were played.

    The file has them by trajectory, and rewards after their decisions: a first pass keeps the
    rewards, and where each round stands. A reward over a span of rounds is left out, of a corrected
    one the last value counts, and the round of a voided decision is one without action. Contexts of
    all arms are read where the session keeps those of all rounds.
    """
    # trajectory, round, value and covariates, by the position of the first value
    values: dict[int, tuple[str, int, float, dict[str, float]]] = {}
    places: list[tuple[int, int]] = []  # position in the session, and in the file
    voids: set[tuple[str, int]] = set()
    chosen = CHOSEN
    with path.open("rb") as file:
        at = 0
        for line in file:
            record = json.loads(line)
            if record["record"] == "measurement" and record["first_round"] == record["last_round"]:
                root = record["replaces"] or record["position"]
                extra = record["covariates"] or {}
                values[root] = record["trajectory"], record["first_round"], record["value"], extra
            elif record["record"] == "decision":
                places.append((record["position"], at))
            elif record["record"] == "header" and not record["session"].get("keep_contexts"):
                chosen = [name for name in CHOSEN if name != "contexts"]
            elif record["record"] == "void":
                voids.add((record["trajectory"], record["round"]))
            at += len(line)
        rewards: dict[tuple[str, int], float] = {}
        covariates: dict[tuple[str, int], dict[str, float]] = {}
        for trajectory, number, value, extra in values.values():  # in sum mode a round has several
            rewards[trajectory, number] = rewards.get((trajectory, number), 0.0) + value
            covariates[trajectory, number] = covariates.get((trajectory, number), {}) | extra
        for _, place in sorted(places):
            file.seek(place)
            record = json.loads(file.readline())
            key = record["trajectory"], record["round"]
            row = {"reward": rewards.get(key), "trajectory": record["trajectory"]}
            row["covariates"] = (record["covariates"] or {}) | covariates.get(key, {})
            if key not in voids and record["arm"] is not None:
                row |= {name: record.get(name) for name in chosen}
            yield row


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise LogError("reading .parquet needs the extra: pip install '.[parquet]'") from None
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(CHUNK_ROUNDS):
            yield from batch.to_pylist()


def _chunk(
    rows: list[tuple[int, dict[str, Any]]], dim: int | None, covariates: Sequence[str]
) -> Chunk:
    rewards, chances, arms = (
        np.array([_number(n, name, row.get(name), np.nan) for n, row in rows])
        for name in ("reward", "propensity", "arm")
    )
    sets = [row.get("contexts") for _, row in rows]
    if all(contexts is not None for contexts in sets):
        contexts = _array(sets, rows, "contexts", 3)
        acted = np.isfinite(arms)
        taken = np.where(acted, arms, 0).astype(np.int64)
        outside = (taken < 0) | (taken >= contexts.shape[1])
        if outside.any():
            number = rows[int(outside.argmax())][0]
            raise LogError(f"row {number}, arm: must be one of 0 to {contexts.shape[1] - 1}")
        selected = contexts[np.arange(len(rows)), taken] * acted[:, None]
        taken[~acted] = NO_ARM
    else:
        contexts = None
        own = [row.get("context") for _, row in rows]
        width = dim or next((len(one) for one in own if one is not None), 0)
        if not width:
            raise LogError(f"row {rows[0][0]}: neither contexts nor context")
        blank = [0.0] * width
        filled = [blank if one is None else one for one in own]
        selected = _array(filled, rows, "context", 2)
        taken = np.nan_to_num(arms).astype(np.int64)
        taken[[one is None for one in own]] = NO_ARM
    if dim is not None and selected.shape[1] != dim:
        raise LogError(f"row {rows[0][0]}: {selected.shape[1]} numbers in a context, not {dim}")
    keys = [row.get("trajectory") or "" for _, row in rows]
    for (number, _), key in zip(rows, keys, strict=True):
        if not isinstance(key, str):
            raise LogError(f"row {number}, trajectory: {key!r} is not a text")
    named = np.array(keys, dtype=object) if any(keys) else None
    propensities = None if np.isnan(chances).all() else chances
    covariate_rows = _told(rows, covariates) if covariates else None
    return Chunk(selected, rewards, contexts, taken, propensities, named, covariate_rows)


def _number(number: int, name: str, value: Any, missing: float) -> float:
    """Return the value of a column in the row of this number; `missing` where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise LogError(f"row {number}, {name}: {value!r} is not a number")
    return missing if value is None else float(value)


def _told(
    rows: list[tuple[int, dict[str, Any]]], names: Sequence[str]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the covariates of rows, 0 where a row says nothing, (n_rows, n_names)."""
    out = np.zeros((len(rows), len(names)))
    for i, (number, row) in enumerate(rows):
        values = row.get("covariates") or {}
        for j, name in enumerate(names):
            out[i, j] = _number(number, name, values.get(name, row.get(name)), 0.0)
    if not np.isfinite(out).all():
        i, j = np.argwhere(~np.isfinite(out))[0]
        raise LogError(f"row {rows[i][0]}, {names[j]}: is not finite")
    return out


def _array(
    values: list[Any], rows: list[tuple[int, dict[str, Any]]], name: str, n_axes: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    try:
        out = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.empty(0)
    if out.ndim != n_axes or not np.isfinite(out).all():
        span = f"rows {rows[0][0]} to {rows[-1][0]}"
        raise LogError(f"{span}, {name}: must be finite numbers of one shape")
    return out


def _open_bandit(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rounds of a log of this data set in the order of their times."""
    try:
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
    except (KeyError, ValueError) as error:
        raise LogError(f"{path.name}: not a log of the Open Bandit Dataset: {error}") from None


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
