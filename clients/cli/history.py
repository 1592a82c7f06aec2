"""`lhb history`: a table of logged rounds, by named columns, appended to a session."""

import csv
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from math import isfinite
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any
from urllib.parse import quote

import typer

from clients.cli.output import SERVER, AsJson, LogError, Url, counted, show, table
from clients.cli.session import asking
from clients.cli.simulate import read_option

CALL_ROUNDS = 10_000  # of one call
MOST_CALLS = 5000  # about: then trajectories are sent in fewer stretches of time
SHOWN_ROUNDS, SHOWN_ARMS = 5, 8
MOST_SECONDS, PAUSE = 120.0, 0.1  # of waiting for the fit of all rounds
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
        str | None,
        typer.Option(
            help="Column that orders the rounds; dates are stored with them, of UTC by default."
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the session from the columns; see --horizon.")
    ] = False,
    horizon: Annotated[
        int, typer.Option(min=0, help="Of --create: how many rounds a choice may still pay.")
    ] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Of --create: name=value, such as levels=true; repeatable."),
    ] = None,
    url: Url = SERVER,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what was understood, and send nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Append a file's rounds to a session, to start warm. The same file counts once.

    A row without an arm and features is a round without action.

    Example: lhb history mail log.csv --time day --reward revenue --arm arm --dry-run
    """
    from clients import NotFound

    covariates = tuple(covariate or ())
    columns = Columns(reward, arm, tuple(feature or ()), covariates, trajectory, time)
    rows = _rows(file)
    rounds, categories = columns.rounds(rows, 2 if file.suffix == ".csv" else 1)
    labels, first = _labels(rounds), rounds[0]["trajectory"]
    with asking(url) as client:
        try:
            handle = client.session(session)
            _refuse_unfit(session, handle.info, labels, covariates)
        except NotFound:
            options = dict(map(read_option, option or []))
            settings = columns.settings(rounds, labels, horizon, options)
            if not create:
                detail = f"add --create, or create it: client.create_session({session!r}, "
                listed = ", ".join(f"{name}={value!r}" for name, value in settings.items())
                raise LogError(f"there is no session {session!r}; {detail}{listed})") from None
            if not horizon:
                raise LogError(
                    "--create needs a --horizon: how many rounds may a choice pay?"
                ) from None
            if not dry_run:
                handle = client.create_session(session, **settings)
        was_there = not dry_run and not _send(handle, file, columns, rounds)
        fitted = None if dry_run else _fitted(handle)
    answer = {
        "rounds": len(rows),
        "trajectories": len({one["trajectory"] for one in rounds}),
        "missing": sum(one["reward"] is None for one in rounds),
        "categories": categories,
        "first": [one for one in rounds if one["trajectory"] == first][:SHOWN_ROUNDS],
        "sent": not dry_run,
        "was_there": was_there,
        "fitted": fitted,
        "decide": columns.next_decision(rounds),
        "n_arms": len({columns.name_of(one) for one in rounds if one["context"]}),
    }
    show(answer, as_json, _lines(answer, session, url))


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns, by what they hold."""

    reward: str
    arm: str | None
    features: tuple[str, ...]
    covariates: tuple[str, ...]
    trajectory: str | None
    time: str | None

    def rounds(self, rows: list[Cells], first: int) -> tuple[list[Cells], list[str]]:
        """Return the rounds in order, and which columns are categories.

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
        times: dict[int, float | datetime] = {}
        if self.time is not None:
            times = {number: _time(number, self.time, row[self.time]) for number, row in numbered}
            if len({type(time) for time in times.values()}) > 1:
                raise LogError(f"{self.time} holds both numbers and dates")
            numbered.sort(key=lambda pair: times[pair[0]])
        rounds: list[Cells] = []
        for number, row in numbered:
            context = {
                name: str(row[name]) if name in categories else _number(number, name, row[name])
                for name in chosen
                if _has(row[name])
            }
            measured: Cells = {n: _number(number, n, row[n]) for n in self.covariates}
            measured["reward"] = _number(number, self.reward, row[self.reward])
            measured["arm"] = context.get(self.arm) if self.arm else None
            time = times.get(number)
            measured["at"] = time.isoformat() if isinstance(time, datetime) else None
            measured["trajectory"] = "" if self.trajectory is None else str(row[self.trajectory])
            moment = None if self.time is None else str(row[self.time])
            rounds.append({**measured, "context": context, "time": moment})
        return rounds, categories

    def settings(
        self, rounds: list[Cells], labels: list[str], horizon: int, options: Cells
    ) -> Cells:
        """Return the settings of a session that takes these rounds, with some options."""
        arms = sorted({one["arm"] for one in rounds if one["arm"] is not None})
        settings: Cells = {"dim": len(labels), "horizon": horizon or 30}
        settings |= {"features": [one for one in labels if "=" not in one]}
        covariates = {"covariates": [*self.covariates]} if self.covariates else {}
        settings |= {"arms": arms, "options": {**options, **covariates}}
        return {name: value for name, value in settings.items() if value}

    def name_of(self, one: Cells) -> str:
        """Return what the arm of a round is called."""
        return one["arm"] or _text(one["context"])

    def next_decision(self, rounds: list[Cells]) -> Cells:
        """Return the body of a decision between the arms of the last rounds."""
        latest: dict[str, Cells] = {}
        for one in reversed(rounds):
            if one["context"]:
                latest.setdefault(self.name_of(one), one)
            if len(latest) == SHOWN_ARMS:
                break
        body: Cells = {"contexts": [one["context"] for one in latest.values()]}
        if self.arm is not None:
            body["arm_ids"] = [*latest]
        if self.trajectory is not None:
            body["trajectory"] = rounds[-1]["trajectory"]
        covariates = {n: rounds[-1][n] for n in self.covariates if rounds[-1][n] is not None}
        if covariates:
            body["covariates"] = covariates
        return body


def _labels(rounds: list[Cells]) -> list[str]:
    """Return what the columns of these contexts are called: a number's name, or name=category."""
    items = (item for one in rounds for item in one["context"].items())
    return [*dict.fromkeys(n if isinstance(v, float) else f"{n}={v}" for n, v in items)]


def _refuse_unfit(name: str, info: Any, labels: list[str], covariates: tuple[str, ...]) -> None:
    """Raise a `LogError` where a session does not take such rounds."""
    if info["clock"] is not None:
        detail = "send its decisions with forced_arm and at, and its totals as rewards"
        raise LogError(f"{name} has a clock, and takes no rounds without it: {detail}")
    names = (info["options"] or {}).get("covariates") or []
    if new := [one for one in covariates if one not in names]:
        raise LogError(f"{name} has no covariate {', '.join(new)}; it has {names or 'none'}")
    needed = dict.fromkeys([*(info["features"] or ()), *labels])
    if info["categories"] != "hashed" and len(needed) > info["dim"]:
        detail = f"there would be {len(needed)} columns: {', '.join(needed)}"
        raise LogError(f"{name} has dim {info['dim']}, and {detail}")


def _send(handle: Any, file: Path, columns: Columns, rounds: list[Cells]) -> bool:
    """Send the rounds, in the order of their times; return whether some were new."""
    digest = sha256(file.read_bytes() + repr(columns).encode()).hexdigest()[:32]
    before, sent = handle.read()["n_rounds"], Counter[str]()
    # in stretches of time: each sends a call a trajectory, and all go on in step
    n = len({one["trajectory"] for one in rounds})
    size = CALL_ROUNDS if n == 1 else min(CALL_ROUNDS, max(1, len(rounds) * n // MOST_CALLS))
    for i in range(0, len(rounds), size):
        parts: dict[str, list[Cells]] = {}
        for one in rounds[i : i + size]:
            parts.setdefault(one["trajectory"], []).append(one)
        for key, call in parts.items():
            handle.history(
                [one["context"] for one in call],
                [one["reward"] for one in call],
                trajectory=key,
                import_id=f"{digest}-{sha256(key.encode()).hexdigest()[:8]}-{sent[key]}",
                covariates={n: [one[n] for one in call] for n in columns.covariates},
                arm_ids=[one["arm"] for one in call] if columns.arm else None,
                at=[one["at"] for one in call] if call[0]["at"] else None,
            )
            sent[key] += len(call)
    return bool(handle.read()["n_rounds"] > before)


def _fitted(handle: Any) -> str:
    """Have all rounds fitted, and return how many of them the session's estimate knows."""
    from clients import Conflict

    n_begun, until = 0, monotonic() + MOST_SECONDS
    while n_begun < 2:  # where time closes rounds, one more may always begin
        try:
            answer = handle.ask_fit()
        except Conflict as error:
            return f"{error.detail}."
        if answer.get("reason") or monotonic() > until:
            return f"Not all rounds are fitted yet: {answer.get('reason') or 'a fit runs'}."
        if answer["asked"] == "nothing_new":
            break
        n_begun += answer["asked"] == "begun"
        sleep(PAUSE)
    n, estimate = handle.read()["n_rounds"], handle.estimate()
    if estimate["status"] == "none":
        return f"There is no estimate yet: nothing stands out in {counted(n, 'round')}."
    window = estimate["window"]
    span = f"rounds {window['first']} to {window['last']}"
    if window["last"] == n:
        return f"The estimate in use knows {span} of {n}."
    return f"All {n} rounds are fitted; the estimate in use stays that of {span}."


def _rows(file: Path) -> list[Cells]:
    rows: list[Cells]
    if file.suffix == ".parquet":
        from pyarrow import parquet

        with file.open("rb") as source:
            rows = parquet.read_table(source).to_pylist()
    elif file.suffix == ".csv":
        with file.open(newline="", encoding="utf-8-sig") as text:
            rows = list(csv.DictReader(text))
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


def _time(number: int, name: str, cell: Any) -> float | datetime:
    """Return what orders a time: the date, or the number that it is."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        pass
    try:
        at = datetime.fromisoformat(str(cell))
    except ValueError:
        raise LogError(f"row {number}, {name}: {cell!r} is no time") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at > datetime.now(UTC):
        raise LogError(f"row {number}, {name}: {cell} is to come")
    return at


def _lines(answer: dict[str, Any], session: str, url: str) -> Iterator[str]:
    rounds = counted(answer["rounds"], "round")
    n = answer["trajectories"]
    whose = f"{n} trajector{'y' if n == 1 else 'ies'}"
    ending = "" if answer["sent"] else "; nothing was sent"
    ending = "; the session has them already" if answer["was_there"] else ending
    yield f"{rounds} of {whose}, {answer['missing']} without a reward{ending}"
    if answer["fitted"]:
        yield answer["fitted"]
    if answer["categories"]:
        yield f"categories: {', '.join(answer['categories'])}"
    texts = (
        (n, one["time"] or "-", _text(one["context"]), _said(one["reward"]))
        for n, one in enumerate(answer["first"], 1)
    )
    yield from table(("round", "time", "context", "reward"), texts)
    if answer["first"][0]["time"] is not None and answer["first"][0]["at"] is None:
        yield "The times are numbers: rounds are in their order, and have the time of loading."
    body = answer["decide"]
    arguments = ", ".join([str(body["contexts"]), *(f"{n}={body[n]!r}" for n in [*body][1:])])
    left = answer["n_arms"] - len(body["contexts"])
    more = f", with the latest {SHOWN_ARMS} arms; {left} more are left out" if left else ""
    yield f"The next decision, in Python and by curl{more}:"
    yield f"  client.session({session!r}).decide({arguments})"
    path = f"{url}/v1/sessions/{quote(session, safe='')}/decisions"
    yield f"  curl -H content-type:application/json {path} -d {shlex.quote(json.dumps(body))}"


def _said(reward: float | None) -> str:
    return "-" if reward is None else f"{reward:g}"


def _text(context: Cells) -> str:
    return ", ".join(f"{name} {value}" for name, value in context.items()) or "no action"
