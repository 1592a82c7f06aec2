"""`lhb export`, `import`, `replay`: a session's events, by a server or from the database itself."""

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from clients.cli.output import AsJson, ServerUrl, show, table

if TYPE_CHECKING:
    import httpx

FORMATS = ("ndjson", "csv", "parquet")
TABLES = {"decision": "decisions", "measurement": "rewards", "estimate": "estimates"}


def export_session(
    session: Annotated[str, typer.Argument(help="Id or name of the session.")],
    url: ServerUrl = None,
    out: Annotated[Path | None, typer.Option(help="Output file; default: standard output.")] = None,
    kind: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "ndjson",
    move: Annotated[
        bool,
        typer.Option("--move", help="Archive the session here, so that it can go on elsewhere."),
    ] = False,
) -> None:
    """Write a session whole, as NDJSON. Without --url, from the database of LHB_DATABASE_URL.

    As csv or parquet, --out is a new folder of three tables: decisions, rewards and estimates.

    Example: lhb export ID --out shop.ndjson
    """
    if kind not in FORMATS or (kind != "ndjson" and (out is None or out.exists())):
        raise typer.BadParameter("--format is ndjson, or csv or parquet with a new folder as --out")
    events = _from_database(session, move) if url is None else _from_server(url, session, move)
    if out is not None and kind != "ndjson":
        _write_tables(events, out, kind)
    elif out is None:
        _write(events, sys.stdout.buffer)
    else:
        with _replacing(out) as target:
            _write(events, target)


def import_session(
    file: Annotated[
        Path | None, typer.Argument(help="Input file; default: standard input.")
    ] = None,
    url: ServerUrl = None,
    name: Annotated[str | None, typer.Option(help="Name of the new session.")] = None,
) -> None:
    """Make a new session of an export; it goes on where the other one was. Prints its id.

    Example: lhb import shop.ndjson --name "shop again"
    """
    if file is None:
        session = _import(sys.stdin.buffer, url, name)
    else:
        with file.open("rb") as source:
            session = _import(source, url, name)
    typer.echo(session)


def _from_server(url: str, session: str, move: bool) -> Iterator[bytes]:
    from clients.sdk.wire import answer_of, path_of

    path = path_of(session)
    with _server(url) as client:
        if move:  # before the events are read, so that nothing is decided after them
            answer_of(client.patch(path, json={"archived": True}))
        with client.stream("GET", f"{path}/events") as answer:
            if not answer.is_success:
                answer.read()
                answer_of(answer)
            yield from answer.iter_bytes()


def _from_database(session: str, move: bool) -> Iterator[bytes]:
    from service.base.server_settings import read_settings
    from service.storage.database_url import open_reader
    from service.transfer.file_format import export_session
    from service.transfer.without_server import archive, find

    url = read_settings().database_url
    if move:
        archive(url, session)
    with open_reader(url) as reader:
        yield from export_session(reader, find(reader, session))


def _write(events: Iterator[bytes], target: BinaryIO) -> None:
    target.writelines(events)
    target.flush()


def _write_tables(events: Iterator[bytes], folder: Path, kind: str) -> None:
    """Write the tables of a new folder; lists and objects in them are JSON."""
    texts: dict[str, set[str]] = {}  # columns whose values are no numbers
    with ExitStack() as files:
        whole = files.enter_context(TemporaryFile())
        whole.writelines(events)
        folder.mkdir(parents=True)  # not before there is something to put there
        whole.seek(0)
        writers: dict[str, csv.DictWriter[str]] = {}
        for record in map(json.loads, whole):
            name = TABLES.get(record.pop("record"))
            if name is None:
                continue
            if name not in writers:
                table = (folder / f"{name}.csv").open("w", newline="", encoding="utf-8")
                writers[name] = csv.DictWriter(files.enter_context(table), list(record))
                writers[name].writeheader()
            for column, value in record.items():
                if isinstance(value, list | dict):
                    record[column] = json.dumps(value)
                if isinstance(record[column], str):
                    texts.setdefault(name, set()).add(column)
            writers[name].writerow(record)
    if kind == "parquet":
        from pyarrow import csv as tables
        from pyarrow import parquet, string

        newlines = tables.ParseOptions(newlines_in_values=True)
        for path in folder.glob("*.csv"):
            kinds = tables.ConvertOptions(column_types=dict.fromkeys(texts[path.stem], string()))
            read = tables.read_csv(path, parse_options=newlines, convert_options=kinds)
            parquet.write_table(read, path.with_suffix(".parquet"))
            path.unlink()


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` once it is whole: a failure leaves the old one.

    A device or a pipe is written as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as target:
            yield target
        return
    path = path.resolve()
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as target:
            yield target
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _import(source: BinaryIO, url: str | None, name: str | None) -> str:
    """Return the id of the new session that `source` describes."""
    chunks = iter(lambda: source.read(2**20), b"")
    if url is not None:
        from clients.sdk.wire import answer_of

        parameters = {} if name is None else {"name": name}
        with _server(url) as client:
            answer = client.post(
                "/v1/sessions/import",
                params=parameters,
                content=chunks,
                headers={"content-type": "application/x-ndjson"},
            )
        return str(answer_of(answer)["id"])
    from service.base.server_settings import read_settings
    from service.transfer.without_server import import_file

    with NamedTemporaryFile(prefix="lhb-import-") as file:
        file.writelines(chunks)
        file.flush()
        return import_file(read_settings(), Path(file.name), name)


def _server(url: str) -> "httpx.Client":
    import httpx

    from clients.sdk.wire import reaching

    return httpx.Client(**reaching(url), timeout=httpx.Timeout(600.0, connect=10.0))


def replay(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Ids or names of sessions; default: all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute stored decisions and estimates, and compare. Reads beside a running server.

    Example: lhb replay shop
    """
    from lhb_engine.blas import one_thread
    from service.base.server_settings import read_settings
    from service.storage.database_url import open_reader
    from service.transfer.replay import replay_session
    from service.transfer.without_server import all_sessions, find

    with one_thread(), open_reader(read_settings().database_url) as reader:
        rows = [find(reader, name) for name in sessions] if sessions else all_sessions(reader)
        reports = [replay_session(reader, session).to_json() for session in rows]
    show({"sessions": reports}, as_json, _lines(reports))
    if not all(report["equal"] for report in reports):
        raise SystemExit(1)


def _lines(reports: list[dict[str, Any]]) -> Iterator[str]:
    """Format a row for each session, and below them a line for each difference."""
    verdicts = ["equal" if report["equal"] else "DIFFERENT" for report in reports]
    yield from table(
        ("session", "decisions", "estimates", "verdict", "tenant", "name"),
        [
            (
                *(report["session_id"], report["decisions"], report["estimates"], verdict),
                *(report["tenant"] or "-", report["name"] or ""),
            )
            for report, verdict in zip(reports, verdicts, strict=True)
        ],
    )
    for report in reports:
        if report["estimates_from_elsewhere"]:
            n = report["estimates_from_elsewhere"]
            yield f"{report['session_id']}: {n} estimates were made elsewhere: compared within 1e-9"
        if report["estimates_erased"]:
            n = report["estimates_erased"]
            yield f"{report['session_id']}: erased: rows of {n} estimates"
        if report["dropped_to"]:
            n, to = report["estimates_dropped"], report["dropped_to"]
            yield f"{report['session_id']}: begins after position {to}: rows of {n} estimates went"
        yield from (f"{report['session_id']}: {one}" for one in report["differences"])
