"""What a server without keys refuses, so that no web page in a browser beside it can use it.

A page of another site may send a request with an Origin, or a form's content type. By DNS rebinding
it may also pass for this server's own page, under a name that its owner made point here: such a
name has a dot.
"""

import ipaddress

from starlette.types import Scope

from service.problems import Problem, ProblemCode

LOCAL = ".localhost"
BODY_TYPES = (b"application/json", b"application/x-ndjson")


class BrowserGuard:
    """Checks Host, Origin and content type.

    Parameters
    ----------
    allowed_hosts : str
        Further host names, with commas between; "*": any.
    """

    def __init__(self, allowed_hosts: str) -> None:
        names = {name.strip().lower() for name in allowed_hosts.split(",") if name.strip()}
        self._takes_any = "*" in names
        self._names = names
        self._known: set[bytes] = set()  # Host headers that have been let through, few

    def check(self, scope: Scope) -> None:
        """Refuse what only a browser that was tricked would send.

        Raises
        ------
        Problem
            403 foreign_host or foreign_origin; 415 unsupported_media_type.
        """
        host, origin, kind = b"", None, b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"content-type":
                kind = value
        if host not in self._known:
            self._check_host(host)
        if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
            detail = f"pages of {origin.decode('latin-1')!r} may not use a server without keys"
            raise Problem(ProblemCode.FOREIGN_ORIGIN, detail, "origin")
        if kind and kind != BODY_TYPES[0]:
            _check_type(kind)

    def _check_host(self, host: bytes) -> None:
        name = _without_port(host.decode("latin-1").lower())
        if not (self._takes_any or name in self._names or _is_ours(name)):
            detail = f"without keys this server does not answer to {name!r}: LHB_ALLOWED_HOSTS"
            raise Problem(ProblemCode.FOREIGN_HOST, detail, "host")
        if len(self._known) < 100:
            self._known.add(host)


def _check_type(kind: bytes) -> None:
    if kind.partition(b";")[0].strip().lower() not in BODY_TYPES:
        detail = f"{kind.decode('latin-1')!r}: a body is sent as application/json"
        raise Problem(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail, "content-type")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_ours(name: str) -> bool:
    """Whether no stranger can make this name point at this server."""
    if "." not in name and ":" not in name:
        return True
    if name.endswith(LOCAL):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
