"""Requests to URLs that callers name: to public addresses, and where the operator lets them.

A host's name is resolved, and the connection goes to an address that was checked: a name that leads
elsewhere a moment later leads nobody into the operator's network.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

Address = IPv4Address | IPv6Address
MOST_SECONDS = 10.0  # of one request, from the name to the answer's headers
TRANSLATED = ip_network("64:ff9b::/96")  # NAT64: holds an IPv4 address, private ones too


class NotAllowed(Exception):
    """The URL leads where requests may not go; the message says why, and names no address."""


class NotReached(Exception):
    """A request came to no answer; the message says why."""


class Outgoing:
    """Sends requests; `networks`, separated by commas, are open although they are not public."""

    def __init__(self, networks: str = "", seconds: float = MOST_SECONDS) -> None:
        self._seconds = seconds
        self._networks = [ip_network(part.strip()) for part in networks.split(",") if part.strip()]

    def check(self, url: str) -> httpx.URL:
        """Return the parsed URL; raise `NotAllowed` for one that no request can go to."""
        try:
            parsed = httpx.URL(url)
            secure = parsed.scheme == "https"
        except (httpx.InvalidURL, ValueError):
            raise NotAllowed("this is no URL") from None
        if not secure and not (parsed.scheme == "http" and self._networks):
            raise NotAllowed("a URL begins with https://")
        if not parsed.host or parsed.userinfo or parsed.fragment:
            raise NotAllowed("a URL names a host, and no user or fragment")
        with suppress(ValueError):  # a name
            self._refuse([ip_address(parsed.host)], secure=secure)
        return parsed

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Post a body and return the answer's status; raise `NotAllowed` or `NotReached`.

        No redirect is followed, and no answer's body is read.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(self.check(url), body, headers)
        except TimeoutError:
            raise NotReached("no answer in time") from None
        except (OSError, httpx.HTTPError) as error:
            raise NotReached(str(error) or type(error).__name__) from error

    async def _post(self, to: httpx.URL, body: bytes, headers: Mapping[str, str]) -> int:
        host, secure = to.raw_host.decode(), to.scheme == "https"
        address = self._refuse(await resolve(host, to.port or 443), secure=secure)
        # httpx's documented way to connect to an address and to check the name's certificate;
        # neither a proxy nor a netrc of the environment; no connection is kept for another name
        async with (
            httpx.AsyncClient(verify=_trusted(), trust_env=False, timeout=None) as client,
            client.stream(
                "POST",
                to.copy_with(host=str(address)),
                content=body,
                headers={**headers, "host": to.netloc.decode()},
                extensions={"sni_hostname": host},
            ) as answer,
        ):
            return answer.status_code

    def _refuse(self, addresses: list[Address], *, secure: bool) -> Address:
        """Return the first address that a request may go to; raise `NotAllowed` without one."""
        for address in addresses:
            if any(address in network for network in self._networks):
                return address
            if secure and is_public(address):
                return address
        raise NotAllowed(
            "the host has no public address" if secure else "a URL begins with https://"
        )


def is_public(address: Address) -> bool:
    """Return whether an address is one of the internet, and holds no other one."""
    if isinstance(address, IPv6Address) and (
        address.ipv4_mapped or address.sixtofour or address.teredo or address in TRANSLATED
    ):
        return False
    site = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not address.is_multicast and not site


async def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host, a name or an address itself; none if nobody knows it."""
    loop = asyncio.get_running_loop()
    try:
        places = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return [ip_address(place[0]) for *_, place in places]


@cache
def _trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context()
