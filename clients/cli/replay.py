"""`lhb replay`: decisions and estimates recomputed from what is stored, and compared with it."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show


def replay(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Ids or names of sessions; default: all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute stored decisions and estimates, and compare. Reads beside a running server."""
    from lhb_engine.blas import one_thread
    from service.replay import replay_session
    from service.settings import Settings
    from service.storage.database_url import open_reader
    from service.without_server import all_sessions, find

    with one_thread(), open_reader(Settings().database_url) as reader:
        found = [find(reader, name) for name in sessions] if sessions else all_sessions(reader)
        reports = [replay_session(reader, session).to_json() for session in found]
    show({"sessions": reports}, as_json, _lines(reports))
    if not all(report["equal"] for report in reports):
        raise SystemExit(1)


def _lines(reports: list[dict[str, Any]]) -> Iterator[str]:
    """Format a line for each session, and one for each difference."""
    for report in reports:
        verdict = "equal" if report["equal"] else "DIFFERENT"
        counted = f"{report['decisions']} decisions, {report['estimates']} estimates"
        yield f"{report['session_id']}  {verdict}  {counted}"
        if report["estimates_from_elsewhere"]:
            n = report["estimates_from_elsewhere"]
            yield f"    {n} estimates were made elsewhere: compared within 1e-9"
        yield from (f"    {difference}" for difference in report["differences"])
