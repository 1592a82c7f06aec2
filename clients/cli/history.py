"""`lhb history`: a table of logged rounds, by named columns, appended to a session."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, LogError, counted, show, table

CALL_ROUNDS = 10_000  # of one call
SHOWN_ROUNDS = 5  # of a dry run
Cells = dict[str, Any]


def history(
    session: Annotated[str, typer.Argument(help="Its name, or its id.")],
    file: Annotated[Path, typer.Argument(help="A .csv or .parquet; a row a round.")],
    reward: Annotated[str, typer.Option(help="Column of the rewards; an empty one is missing.")],
    arm: Annotated[
        str | None, typer.Option(help="Column of the arm that was played, as a category.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(help="Column of a number, or a category, of that arm; repeatable."),
    ] = None,
    covariate: Annotated[
        list[str] | None, typer.Option(help="Column of a covariate; repeatable.")
    ] = None,
    trajectory: Annotated[
        str | None, typer.Option(help="Column of the trajectory's key; default: one without.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column that orders the rounds; default: the file does.")
    ] = None,
    url: Annotated[str, typer.Option(help="The server.")] = "http://127.0.0.1:8080",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what was understood, and send nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Append a file's rounds to a session, to start warm. The same file counts once.

    A row without an arm and features is a round without action.

    Example: lhb history mail log.csv --time day --reward revenue --arm arm --dry-run
    """
    from clients import Client

    covariates = tuple(covariate or ())
    columns = Columns(reward, arm, tuple(feature or ()), covariates, trajectory, time)
    rows = _rows(file)
    parts, categories = columns.rounds(rows, 2 if file.suffix == ".csv" else 1)
    was_there = False
    if not dry_run:
        digest = sha256(file.read_bytes() + repr(columns).encode()).hexdigest()[:32]
        with Client(url) as client:
            handle = client.session_handle(session)
            before = handle.read()["n_rounds"]
            for i, (key, rounds) in enumerate(parts.items()):
                for first in range(0, len(rounds), CALL_ROUNDS):
                    call = rounds[first : first + CALL_ROUNDS]
                    handle.history(
                        [one["context"] for one in call],
                        [one["reward"] for one in call],
                        trajectory=key,
                        import_id=f"{digest}-{i}-{first}",
                        covariates={n: [one[n] for one in call] for n in covariates},
                        arm_ids=[one["arm"] for one in call] if arm else None,
                    )
            was_there = handle.read()["n_rounds"] == before
    answer = {
        "rounds": len(rows),
        "trajectories": len(parts),
        "missing": sum(one["reward"] is None for rounds in parts.values() for one in rounds),
        "categories": categories,
        "first": next(iter(parts.values()))[:SHOWN_ROUNDS],
        "sent": not dry_run,
        "was_there": was_there,
    }
    show(answer, as_json, _lines(answer))


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns, by what they hold."""

    reward: str
    arm: str | None
    features: tuple[str, ...]
    covariates: tuple[str, ...]
    trajectory: str | None
    time: str | None

    def rounds(self, rows: list[Cells], first: int) -> tuple[dict[str, list[Cells]], list[str]]:
        """Return the rounds by trajectory, in order, and which columns are categories.

        Raises `LogError`, which names the row, of which the first has the number `first`.
        """
        chosen = (*([self.arm] if self.arm else ()), *self.features)
        if not chosen:
            raise LogError("name the column of the --arm, or of a --feature")
        for name in (self.reward, *chosen, *self.covariates, self.trajectory, self.time):
            if name is not None and name not in rows[0]:
                raise LogError(f"there is no column {name}; there are {', '.join(rows[0])}")
        categories = [n for n in chosen if n == self.arm or not _are_numbers(rows, n)]
        numbered = list(enumerate(rows, first))
        if self.time is not None:
            times = {number: _time(number, self.time, row[self.time]) for number, row in numbered}
            numbered.sort(key=lambda pair: times[pair[0]])
        parts: dict[str, list[Cells]] = {}
        for number, row in numbered:
            context = {
                name: str(row[name]) if name in categories else _number(number, name, row[name])
                for name in chosen
                if _has(row[name])
            }
            measured: Cells = {n: _number(number, n, row[n]) for n in self.covariates}
            measured["reward"] = _number(number, self.reward, row[self.reward])
            measured["arm"] = context.get(self.arm) if self.arm else None
            at = None if self.time is None else str(row[self.time])
            key = "" if self.trajectory is None else str(row[self.trajectory])
            parts.setdefault(key, []).append({**measured, "context": context, "time": at})
        return parts, categories


def _rows(file: Path) -> list[Cells]:
    rows: list[Cells]
    if file.suffix == ".parquet":
        from pyarrow import parquet

        rows = parquet.read_table(file).to_pylist()
    elif file.suffix == ".csv":
        with file.open(newline="", encoding="utf-8-sig") as source:
            rows = list(csv.DictReader(source))
    else:
        raise LogError(f"{file.name}: must end in .csv or .parquet")
    if not rows:
        raise LogError(f"{file.name}: holds no row")
    return rows


def _has(cell: Any) -> bool:
    return cell is not None and cell != ""


def _are_numbers(rows: Iterable[Cells], name: str) -> bool:
    try:
        return all(isfinite(float(row[name])) for row in rows if _has(row[name]))
    except (TypeError, ValueError):
        return False


def _number(number: int, name: str, cell: Any) -> float | None:
    if not _has(cell):
        return None
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = float("nan")
    if not isfinite(value):
        raise LogError(f"row {number}, {name}: {cell!r} is no number")
    return value


def _time(number: int, name: str, cell: Any) -> tuple[float, str]:
    """Return what orders a time: seconds since 1970, or the number that it is."""
    try:
        return float(cell), ""
    except (TypeError, ValueError):
        pass
    try:
        return datetime.fromisoformat(str(cell)).timestamp(), str(cell)
    except ValueError:
        raise LogError(f"row {number}, {name}: {cell!r} is no time") from None


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    rounds = counted(answer["rounds"], "round")
    n = answer["trajectories"]
    whose = f"{n} trajector{'y' if n == 1 else 'ies'}"
    said = "" if answer["sent"] else "; nothing was sent"
    said = "; the session has them already" if answer["was_there"] else said
    yield f"{rounds} of {whose}, {answer['missing']} without a reward{said}"
    if answer["categories"]:
        yield f"categories: {', '.join(answer['categories'])}"
    texts = (
        (n, one["time"] or "-", _text(one["context"]), _said(one["reward"]))
        for n, one in enumerate(answer["first"], 1)
    )
    yield from table(("round", "time", "context", "reward"), texts)


def _said(reward: float | None) -> str:
    return "-" if reward is None else f"{reward:g}"


def _text(context: Cells) -> str:
    return ", ".join(f"{name} {value}" for name, value in context.items()) or "no action"
