"""`lhb sync`: rows of a database or of Parquet files as decisions and rewards of a session.

A query's row is one decision or one reward. Its id is a hash of what names it, so that a row counts
once however often it is read; a file keeps what was sent, by id, and how far the times went.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from clients.cli.output import SERVER, AsJson, LogError, Url, show
from clients.cli.session import asking

ITEMS = 1000  # of a batch
SHOWN = 5  # refusals
SINCE = "$since"  # in a query: the watermark less the look-back
KEPT: tuple[str, ...] = ("value", "trajectory", "covariates")  # of a reward, by its correction
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
DECISION = ("event_id", "trajectory", "at")
IDS = ("event_id", "reward_id", "trajectory")
NAMED = ("event_id", "round", "first_round", "last_round", "from", "to", "at", "trajectory")
SCHEMA = """
create table if not exists sent (
    session text, id text, digest text not null, n_sent integer not null, primary key (session, id)
);
create table if not exists watermark (
    session text, query text, at text not null, primary key (session, query)
);
"""
Row = dict[str, Any]


def sync(
    session: Annotated[str, typer.Argument(help="Its name, or its id.")],
    source: Annotated[
        str, typer.Argument(help="postgresql://..., or a DuckDB file; :memory: for Parquet files.")
    ],
    state: Annotated[Path, typer.Option(help="File that keeps what was sent; made if missing.")],
    decisions: Annotated[
        str | None, typer.Option(help="SQL: event_id, trajectory, at; the others are features.")
    ] = None,
    rewards: Annotated[
        str | None,
        typer.Option(help="SQL: value, trajectory; event_id, round, at, or from and to."),
    ] = None,
    covariate: Annotated[
        list[str] | None, typer.Option(help="Column of a covariate; repeatable.")
    ] = None,
    look_back: Annotated[
        float, typer.Option(help="Days before the last time, from which $since reads again.")
    ] = 7.0,
    url: Url = SERVER,
    as_json: AsJson = False,
) -> None:
    """Send what queries give and was not sent yet; a changed reward is a correction.

    Example: lhb sync mail mail.db --state sent.db --rewards "select id as event_id, paid as value"
    """
    queries = {"decision": decisions, "reward": rewards}
    if decisions is None and rewards is None:
        raise LogError("say what to read: --decisions, --rewards, or both")
    with closing(sqlite3.connect(state)) as kept, asking(url) as client:
        kept.executescript(SCHEMA)
        handle = client.session(session)
        task = Sync(kept, handle.id, handle.info["clock"] is not None, tuple(covariate or ()))
        answer: dict[str, Any] = {"refused": 0, "problems": []}
        for kind, query in queries.items():
            if query is None:
                continue
            rows = [_plain_row(row) for row in _read(source, query, task.since(kind, look_back))]
            answer[f"{kind}s"], refused = task.send(client, kind, rows)
            answer["refused"] += len(refused)
            answer["problems"] += refused[:SHOWN]
            if not refused:  # else the rows that were refused are read again
                task.note(kind, rows)
            elif task.has_clock:  # after a total, decisions of its slots would be too late
                break
    show(answer, as_json, _lines(answer))
    if answer["refused"]:
        raise SystemExit(1)


class Sync:
    """What was sent to a session, and what is new beside it."""

    def __init__(
        self, kept: sqlite3.Connection, session: str, has_clock: bool, covariates: tuple[str, ...]
    ) -> None:
        self._kept, self._session = kept, session
        self.has_clock, self._covariates = has_clock, covariates

    def since(self, kind: str, look_back: float) -> datetime:
        """Return from when on a query of this kind reads."""
        statement = "select at from watermark where session = ? and query = ?"
        row = self._kept.execute(statement, [self._session, kind]).fetchone()
        if row is None:
            return BEGINNING
        return datetime.fromisoformat(row[0]) - timedelta(days=look_back)

    def note(self, kind: str, rows: list[Row]) -> None:
        """Keep the last time of rows that are sent."""
        times = [row[name] for row in rows for name in ("at", "to") if row.get(name) is not None]
        if times:
            write = "insert or replace into watermark values (?, ?, ?)"
            self._kept.execute(write, [self._session, kind, max(times)])
            self._kept.commit()

    def send(self, client: Any, kind: str, rows: list[Row]) -> tuple[int, list[str]]:
        """Send rows in the order of their times; return how many were new, and refusals."""
        n_new, refused = 0, []
        rows.sort(key=lambda row: row.get("at") or row.get("to") or "")
        item = self._decision if kind == "decision" else self._reward
        items = map(item, rows)
        while some := list(islice(items, ITEMS)):
            waiting = [(key, digest, body) for key, digest, body in some if body is not None]
            while waiting:
                bodies = [{"session_id": self._session, kind: body} for _, _, body in waiting]
                answered, waiting = zip(waiting, client.batch(bodies), strict=True), []
                for (key, digest, body), answer in answered:
                    code = answer.get("problem", {}).get("code")
                    if code == "reward_conflict" and "replaces" not in body:
                        waiting.append((key, digest, self._correction(body, key, digest, 1)))
                    elif code is not None:
                        refused.append(f"{key}: {answer['problem']['detail']}")
                    else:
                        n_new += self._keep(key, digest, answer)
            self._kept.commit()
        return n_new, refused

    def _keep(self, key: str, digest: str, answer: Row) -> bool:
        """Note that an item was stored; return whether it was new to the service."""
        write = (
            "insert into sent values (?, ?, ?, 1) on conflict (session, id) do update set "
            "digest = excluded.digest, n_sent = n_sent + 1"
        )
        self._kept.execute(write, [self._session, key, digest])
        return answer["status"] == 201 or bool(answer.get("reward", {}).get("accepted"))

    def _decision(self, row: Row) -> tuple[str, str, Row | None]:
        own = {name: row[name] for name in DECISION if row.get(name) is not None}
        beside = self._beside(row)
        features = {
            name: value
            for name, value in row.items()
            if name not in DECISION and name not in self._covariates and value is not None
        }
        key, digest = own.get("event_id") or _hash(row), _hash(row)
        if self._sent(key) is not None:
            return key, digest, None
        if not self.has_clock:
            own.pop("at", None)
        body = {**own, **beside, "event_id": key}
        action = {"contexts": [features], "forced_arm": 0} if features else {"skip": True}
        return key, digest, {**body, **action}

    def _reward(self, row: Row) -> tuple[str, str, Row | None]:
        named = {name: row[name] for name in NAMED if row.get(name) is not None}
        beside = self._beside(row)
        if row.get("value") is None:
            return "", "", None
        key = row.get("reward_id") or _hash(named)
        digest = _hash({"value": row["value"], **beside})
        body = {"value": row["value"], "reward_id": key, **named, **beside}
        sent = self._sent(key)
        if sent is not None:
            if sent[0] == digest:
                return key, digest, None
            body = self._correction(body, key, digest, sent[1])
        return key, digest, body

    def _correction(self, body: Row, key: str, digest: str, n_sent: int) -> Row:
        kept: Row = {name: body[name] for name in KEPT if name in body}
        return kept | {"replaces": key, "reward_id": _hash([key, digest, n_sent])}

    def _sent(self, key: str) -> tuple[str, int] | None:
        statement = "select digest, n_sent from sent where session = ? and id = ?"
        row: tuple[str, int] | None = self._kept.execute(statement, [self._session, key]).fetchone()
        return row

    def _beside(self, row: Row) -> Row:
        values = {name: row[name] for name in self._covariates if row.get(name) is not None}
        return {"covariates": values} if values else {}


def _read(source: str, query: str, since: datetime) -> Iterator[Row]:
    """Yield the rows of a query; times in it are of UTC where they name no zone."""
    statement = query.replace(SINCE, f"timestamp '{since:%Y-%m-%d %H:%M:%S}'")
    driver = import_module("psycopg" if source.startswith("postgres") else "duckdb")
    try:
        with driver.connect(source) as connection:
            connection.execute("set timezone = 'UTC'")
            yield from _rows(connection.execute(statement))
    except driver.Error as error:
        raise LogError(str(error).strip()) from None


def _rows(cursor: Any) -> Iterator[Row]:
    names = [column[0] for column in cursor.description]
    while rows := cursor.fetchmany(10_000):
        yield from (dict(zip(names, row, strict=True)) for row in rows)


def _plain_row(row: Row) -> Row:
    """Return a row as JSON has it; ids may be numbers in the database."""
    plain = {name: _plain(value) for name, value in row.items()}
    return plain | {name: str(plain[name]) for name in IDS if plain.get(name) is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _hash(members: Any) -> str:
    text = json.dumps(members, sort_keys=True, ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:32]


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    for kind in ("decisions", "rewards"):
        if kind in answer:
            yield f"{kind}: {answer[kind]} new"
    if answer["refused"]:
        yield f"refused: {answer['refused']}, and read again next time; among them"
        yield from answer["problems"]
