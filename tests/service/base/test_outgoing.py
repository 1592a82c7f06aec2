"""Requests to URLs that callers name go to public addresses, and to no other by any trick."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from service.base import outgoing
from service.base.outgoing import NotAllowed, NotReached, Outgoing, is_public

pytestmark = pytest.mark.anyio
PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "fec0::1"),
    *("ff02::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a00:1", "2002:a00:1::"),
)


@asynccontextmanager
async def receiver(
    answer: bytes, seen: list[bytes], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A server that answers each request with these bytes; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        n = next(int(line[15:]) for line in head.lower().split(b"\r\n") if b"content-l" in line)
        seen.append(head + await reader.readexactly(n))
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_no_public_host_are_refused(address: str) -> None:
    assert not is_public(ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(NotAllowed):
        Outgoing().check(f"https://{host}/x")
    with pytest.raises(NotAllowed):
        Outgoing("203.0.113.0/24").check(f"https://{host}/x")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111"])
def test_public_ones_are_not(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://example.com/",
            "ftp://example.com/",
            "example.com",
            "https://",
            "",
            "https://x:1x/",
        ),
        *("https://me:secret@example.com/", "https://example.com/#x", "http://10.0.0.1/"),
    ],
)
def test_what_is_no_https_url_is_refused(url: str) -> None:
    with pytest.raises(NotAllowed):
        Outgoing().check(url)


async def test_without_tls_only_allowed_networks_are_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def public(host: str, port: int) -> Any:
        return [ip_address("8.8.8.8")]

    monkeypatch.setattr(outgoing, "resolve", public)
    with pytest.raises(NotAllowed, match="https"):
        await Outgoing("127.0.0.0/8").post("http://hooks.example/", b"", {})


async def test_the_connection_goes_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is not known here: it is resolved once, by `resolve`."""
    seen: list[bytes] = []

    async def known(host: str, port: int) -> Any:
        return [ip_address("10.0.0.1"), ip_address("127.0.0.1")]

    monkeypatch.setattr(outgoing, "resolve", known)
    async with receiver(b"HTTP/1.1 204 No Content\r\n\r\n", seen) as port:
        url = f"http://hooks.invalid:{port}/a?b=1"
        assert await Outgoing("127.0.0.1").post(url, b"{}", {"x-a": "b"}) == 204
    [request] = seen
    assert request.startswith(b"POST /a?b=1 HTTP/1.1\r\n")
    assert f"host: hooks.invalid:{port}\r\n".encode() in request.lower()
    assert b"x-a: b\r\n" in request.lower()


async def test_of_the_address_that_was_checked_the_certificate_is_the_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    command += f" -subj /CN=x -addext subjectAltName=DNS:hooks.invalid -keyout {key}"
    subprocess.run([*command.split(), "-out", certificate], check=True, capture_output=True)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(certificate, key)
    trusted = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(outgoing, "_trusted", lambda: trusted)

    async def known(host: str, port: int) -> Any:
        return [ip_address("127.0.0.1")]

    monkeypatch.setattr(outgoing, "resolve", known)
    async with receiver(b"HTTP/1.1 204 No Content\r\n\r\n", [], served) as port:
        to = Outgoing("127.0.0.1")
        assert await to.post(f"https://hooks.invalid:{port}/", b"", {}) == 204
        with pytest.raises(NotReached, match="CERTIFICATE_VERIFY_FAILED"):
            await to.post(f"https://other.invalid:{port}/", b"", {})


async def test_a_name_that_leads_inside_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def inside(host: str, port: int) -> Any:
        return [ip_address("169.254.169.254"), ip_address("::1")]

    monkeypatch.setattr(outgoing, "resolve", inside)
    Outgoing().check("https://hooks.example/")
    with pytest.raises(NotAllowed, match="no public address") as refused:
        await Outgoing().post("https://hooks.example/", b"", {})
    assert "169" not in str(refused.value)


async def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(NotAllowed, match="no public address"):
        await Outgoing().post(f"https://{'a' * 64}.example/", b"", {})


async def test_redirects_are_not_followed_and_answers_not_read() -> None:
    seen: list[bytes] = []
    elsewhere = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n"
    elsewhere += b"content-length: 999999\r\n\r\n"
    async with receiver(elsewhere, seen) as port:
        assert await Outgoing("127.0.0.1").post(f"http://127.0.0.1:{port}/", b"x", {}) == 302
    assert len(seen) == 1


async def test_a_receiver_that_says_nothing_is_left() -> None:
    async with receiver(b"", []) as _, await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotReached, match="in time"):
            await Outgoing("127.0.0.1", 0.1).post(f"http://127.0.0.1:{port}/", b"x", {})


async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read, and answer nothing until the other side is gone."""
    await reader.read()
    writer.close()
