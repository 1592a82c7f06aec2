"""`lhb replay`: decisions and estimates recomputed from what is stored, and compared with it."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show, table


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
    from service.base.settings import read_settings
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
