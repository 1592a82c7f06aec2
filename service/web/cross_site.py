"""Protection of a server without keys against web pages of other sites in a local browser.

Two attacks are refused. A cross-site request has an Origin header, or another content type than
JSON's. With DNS rebinding, the attacker's host name resolves to this server, so that its page is of
the same origin; such a host name is not one of ours.
"""

import ipaddress
from collections.abc import Mapping

from starlette.types import Scope

from service.base.problems import Problem, ProblemCode

LOCAL = ".localhost"
CONTENT_TYPES = (b"application/json", b"application/x-ndjson")


class CrossSiteCheck:
    """Checks the Host, Origin and Content-Type headers.

    `allowed_hosts` are accepted beside local ones, separated by commas; "*" accepts any.
    """

    def __init__(self, allowed_hosts: str) -> None:
        names = {name.strip().lower() for name in allowed_hosts.split(",") if name.strip()}
        self._takes_any = "*" in names
        self._names = names
        self._known: set[bytes] = set()  # cache of accepted Host headers, at most 100

    def accept(self, name: str) -> None:
        """Accept one more host name: that which the server listens on."""
        self._names.add(name.lower())

    def check(self, headers: Mapping[bytes, bytes], scope: Scope) -> None:
        """Refuse a request that a page of another site may have sent: 403 or 415.

        Names of `headers` are in lower case.
        """
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        kind = headers.get(b"content-type", b"")
        if host in self._known and origin is None and kind == CONTENT_TYPES[0]:
            return  # most often
        if host not in self._known:
            self._check_host(host, scope)
        if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
            detail = (
                f"a server without keys refuses requests from pages of {origin.decode('latin-1')!r}"
            )
            raise Problem(ProblemCode.FOREIGN_ORIGIN, detail, "origin")
        if kind.partition(b";")[0].strip().lower() not in CONTENT_TYPES:
            length = headers.get(b"content-length", b"0")
            if kind or length != b"0" or b"transfer-encoding" in headers:
                content_type = kind.decode("latin-1")
                detail = f"{content_type!r}: the content type of a body is application/json"
                raise Problem(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail, "content-type")

    def _check_host(self, host: bytes, scope: Scope) -> None:
        name = host.decode("latin-1").lower()
        name = name[1:].partition("]")[0] if name[:1] == "[" else name.partition(":")[0]
        address = (scope.get("server") or ("", None))[0]  # that the connection came to
        if not (self._takes_any or name in self._names or _is_local_name(name, address)):
            detail = (
                "a server without keys does not answer to the host "
                f"{name!r}; add it to LHB_ALLOWED_HOSTS"
            )
            raise Problem(ProblemCode.FOREIGN_HOST, detail, "host")
        if len(self._known) < 100:
            self._known.add(host)


def _is_local_name(name: str, address: str) -> bool:
    """Return whether a name is this machine's, the address connected to, or none (no browser)."""
    if name in ("", "localhost", address) or name.endswith(LOCAL):
        return True
    try:
        host = ipaddress.ip_address(name)
        if host.is_loopback:
            return True
        bound = ipaddress.ip_address(address)
    except ValueError:
        return False
    return host in (bound, getattr(bound, "ipv4_mapped", None))
