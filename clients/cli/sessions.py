"""`lhb sessions`: which sessions there are, by a server or from the database itself."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show


def sessions(
    url: Annotated[
        str | None, typer.Option(help="URL of the server to use; default: the database itself.")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Include archived sessions.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List sessions. Without --url, from the database of LHB_DATABASE_URL, beside its server."""
    found = _from_database(archived) if url is None else _from_server(url, archived)
    show({"sessions": found}, as_json, map(_line, found))


def _from_server(url: str, archived: bool) -> list[dict[str, Any]]:
    from clients import Client

    with Client(url) as client:
        return [session.info for session in client.sessions(archived=archived)]


def _from_database(archived: bool) -> list[dict[str, Any]]:
    """Read every tenant's sessions, beside a running server."""
    from service.agent_cache import deciding
    from service.api.sessions import session_answer
    from service.settings import Settings
    from service.storage.database_url import open_reader
    from service.without_server import all_sessions

    with open_reader(Settings().database_url) as reader:
        return [
            session_answer(one, deciding(reader, one))
            for one in all_sessions(reader)
            if archived or one.archived_at is None
        ]


def _line(session: Mapping[str, Any]) -> str:
    version, deciding = session["model_version"], session["deciding"].replace("_", " ")
    counted = f"{session['n_rounds']} rounds, model {version} ({deciding})"
    state = ", archived" if session["archived"] else ""
    return f"{session['id']}  {session['algorithm']}  {counted}{state}  {session['name'] or ''}"
