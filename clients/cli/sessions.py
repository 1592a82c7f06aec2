"""`lhb sessions`: which sessions there are, by a server or from the database itself."""

from collections.abc import Mapping
from typing import Any


def sessions(url: str | None, archived: bool) -> list[dict[str, Any]]:
    """Every session as the service answers it; archived ones too if asked for.

    Without `url` from the database of LHB_DATABASE_URL, every tenant's, beside a running server.
    """
    if url is not None:
        from clients import Client

        with Client(url) as client:
            return [session.info for session in client.sessions(archived=archived)]
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


def line(session: Mapping[str, Any]) -> str:
    """A session in a line."""
    version, deciding = session["model_version"], session["deciding"].replace("_", " ")
    counted = f"{session['n_rounds']} rounds, model {version} ({deciding})"
    state = ", archived" if session["archived"] else ""
    return f"{session['id']}  {session['algorithm']}  {counted}{state}  {session['name'] or ''}"
