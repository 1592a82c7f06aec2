"""The client's own address behind proxies that the operator names."""

import ipaddress

from starlette.types import Scope

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The proxies whose X-Forwarded-For header is believed.

    `named` are addresses and networks, separated by commas; what is neither is a ValueError.
    """

    def __init__(self, named: str) -> None:
        parts = [part.strip() for part in named.split(",") if part.strip()]
        self._networks: list[Network] = [ipaddress.ip_network(part) for part in parts]

    def find_client(self, scope: Scope) -> None:
        """Set the scope's client to the last address that no trusted proxy has.

        Each proxy appends the address that it was asked from; the client may have made up others.
        """
        if scope.get("client") is None:
            return
        headers = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        forwarded = b",".join(headers).decode("latin-1").split(",")
        address, port = scope["client"]
        while forwarded and self._is_trusted(address):
            previous = forwarded.pop().strip()
            if _parsed(previous) is None:
                break
            address, port = previous, 0
        scope["client"] = address, port

    def _is_trusted(self, address: str) -> bool:
        parsed = _parsed(address)
        plain = getattr(parsed, "ipv4_mapped", None) or parsed
        return plain is not None and any(plain in network for network in self._networks)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
