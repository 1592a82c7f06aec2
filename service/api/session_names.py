"""Sessions addressed by name: a path or an item names its session by id or by name.

A text in the form of an id is an id and never a name; new names do not have that form. Any other
text is the name that a session of the tenant bears now: archived sessions count, deleted ones and
former names do not. Names are looked up before a route is found, so that routes see ids only.
"""

from collections.abc import Iterable
from urllib.parse import quote, unquote

from starlette.types import Scope

from service.api.runtime import Service
from service.base.session_ids import has_form_of_id
from service.commands.sessions import unknown_session
from service.storage.reader import Reader

PREFIX = b"/v1/sessions/"
IMPORT = b"/v1/sessions/import"
LENGTH_OF_ID = 23
ID = slice(len(PREFIX), len(PREFIX) + LENGTH_OF_ID)  # the place of an id in a path
AFTER_ID = slice(ID.stop, ID.stop + 1)


async def find_ids(service: Service, tenant: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the id of each text that is the name of a session; other texts are left out."""
    names = {text for text in texts if not has_form_of_id(text)}
    if not names:
        return {}

    def read(reader: Reader) -> dict[str, str]:
        named = {name: reader.session_named(tenant, name) for name in names}
        return {name: session.id for name, session in named.items() if session is not None}

    return await service.query(tenant, read, is_small=True)


def is_by_name(scope: Scope) -> bool:
    """Return whether the path of a request may name a session."""
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    if not path.startswith(PREFIX):
        return False
    if path[AFTER_ID] in (b"/", b"") and has_form_of_id(path[ID].decode("ascii", "replace")):
        return False
    return path != IMPORT or scope["method"] != "POST"


async def replace_name(service: Service, tenant: str, scope: Scope) -> None:
    """Put the session's id in the place of its name in the path of a request.

    A path whose name is unknown is left as it is: its route says that there is no such session. An
    unknown name with a slash is 404 unknown_session, or it would be taken for another path.
    """
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    encoded, slash, rest = path[len(PREFIX) :].partition(b"/")
    name = unquote(encoded.decode("ascii", "replace"))
    session_id = (await find_ids(service, tenant, [name])).get(name)
    if session_id is not None:
        scope["raw_path"] = PREFIX + session_id.encode() + slash + rest
        scope["path"] = unquote(scope["raw_path"].decode("ascii", "replace"))
    elif "/" in name:
        raise unknown_session(name)
