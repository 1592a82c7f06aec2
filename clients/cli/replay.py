"""`lhb replay`: what is stored is computed again, and has to come out the same."""

import os
from typing import Any


def replay(names: list[str]) -> list[dict[str, Any]]:
    """Reports on the sessions named, by id or name; on all of the database without names.

    Reads beside a running server, which may go on.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from lhb_engine.blas import one_thread
    from service.replay import replay_session
    from service.settings import Settings
    from service.storage.database_url import open_reader
    from service.without_server import all_sessions, find

    with one_thread(), open_reader(Settings().database_url) as reader:
        sessions = [find(reader, name) for name in names] if names else all_sessions(reader)
        return [replay_session(reader, session).to_json() for session in sessions]


def lines(reports: list[dict[str, Any]]) -> list[str]:
    """A line a session, and a line a difference."""
    out = []
    for report in reports:
        verdict = "equal" if report["equal"] else "DIFFERENT"
        counted = f"{report['decisions']} decisions, {report['estimates']} estimates"
        out.append(f"{report['session_id']}  {verdict}  {counted}")
        if report["estimates_from_elsewhere"]:
            n = report["estimates_from_elsewhere"]
            out.append(f"    {n} estimates were made elsewhere: compared within 1e-9")
        out += [f"    {difference}" for difference in report["differences"]]
    return out
