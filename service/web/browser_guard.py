"""Protection of a server without keys against web pages of other sites in a local browser.

Two attacks are refused. A cross-site request has an Origin header, or the content type of a form.
With DNS rebinding, the attacker's host name resolves to this server, so that its page is of the
same origin; such a host name has a dot and is not one of ours.
"""

import ipaddress

from starlette.types import Scope

from service.problems import Problem, ProblemCode

LOCAL = ".localhost"
BODY_TYPES = (b"application/json", b"application/x-ndjson")


class BrowserGuard:
    """Checks the Host, Origin and Content-Type headers.

    Parameters
    ----------
    allowed_hosts : str
        Host names to accept beside local ones, separated by commas; "*" accepts any.
    """

    def __init__(self, allowed_hosts: str) -> None:
        names = {name.strip().lower() for name in allowed_hosts.split(",") if name.strip()}
        self._takes_any = "*" in names
        self._names = names
        self._known: set[bytes] = set()  # cache of accepted Host headers, at most 100

    def check(self, scope: Scope) -> None:
        """Refuse a request that a page of another site may have sent.

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
    """Return whether a name is an address, ends in .localhost, or has no dot.

    An attacker cannot register such a name and have it resolve to this server.
    """
    if "." not in name and ":" not in name:
        return True
    if name.endswith(LOCAL):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
