"""`lhb sessions`: which sessions there are, by a server or from the database itself."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show, table

HEADS = ("id", "algorithm", "rounds", "model", "decides", "name")


def sessions(
    url: Annotated[
        str | None, typer.Option(help="URL of the server to use; default: the database itself.")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Include archived sessions.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List sessions. Without --url, from the database of LHB_DATABASE_URL, beside its server.

    Example: lhb sessions --url http://127.0.0.1:8080
    """
    if url is not None:  # those of the key's tenant
        listed = _from_server(url, archived)
        show({"sessions": listed}, as_json, table(HEADS, map(_row, listed)))
        return
    listed = _from_database(archived)
    rows = ((*_row(one)[:-1], one["tenant"] or "-", one["name"] or "") for one in listed)
    show({"sessions": listed}, as_json, table((*HEADS[:-1], "tenant", HEADS[-1]), rows))


def _from_server(url: str, archived: bool) -> list[Mapping[str, Any]]:
    from clients import Client

    with Client(url) as client:
        return [session.info for session in client.sessions(archived=archived)]


def _from_database(archived: bool) -> list[Mapping[str, Any]]:
    """Read every tenant's sessions, beside a running server."""
    from service.api.sessions import session_answer
    from service.base.settings import read_settings
    from service.storage.database_url import open_reader
    from service.transfer.without_server import all_sessions
    from service.writer.agent_cache import deciding

    with open_reader(read_settings().database_url) as reader:
        return [
            {"tenant": one.tenant, **session_answer(one, deciding(reader, one))}
            for one in all_sessions(reader)
            if archived or one.archived_at is None
        ]


def _row(session: Mapping[str, Any]) -> tuple[object, ...]:
    decides = "archived" if session["archived"] else session["deciding"].replace("_", " ")
    counts = session["n_rounds"], session["model_version"]
    return session["id"], session["algorithm"], *counts, decides, session["name"] or ""
