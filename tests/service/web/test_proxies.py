"""Behind proxies that are named, the client's own address counts; nobody can make one up."""

from typing import Any

import pytest

from service.base.server_settings import Settings
from service.web.proxies import TrustedProxies
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio
PROXIES = "10.0.0.0/8, 127.0.0.1, fd00::/8"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.1.2.3", "203.0.113.7", "203.0.113.7"),
        ("10.1.2.3", "6.6.6.6, 203.0.113.7, 10.9.9.9", "203.0.113.7"),  # 6.6.6.6 is made up
        ("203.0.113.9", "6.6.6.6", "203.0.113.9"),  # asked without a proxy
        ("::ffff:10.1.2.3", "2001:db8::1", "2001:db8::1"),
        ("fd00::1", "203.0.113.7", "203.0.113.7"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", "6.6.6.6, what", "10.1.2.3"),
        ("10.1.2.3", "10.0.0.1, 127.0.0.1", "10.0.0.1"),
    ],
)
async def test_the_last_address_that_is_no_proxys_is_the_clients(
    peer: str, forwarded: str, client: str
) -> None:
    headers = [(b"x-forwarded-for", part.encode()) for part in forwarded.split(", 2")[:1]]
    if ", 2" in forwarded:  # the same in two headers
        headers.append((b"x-forwarded-for", b"2" + forwarded.partition(", 2")[2].encode()))
    scope: dict[str, Any] = {"client": (peer, 5), "headers": headers}
    TrustedProxies(PROXIES).find_client(scope)
    assert scope["client"][0] == client


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="trusted_proxies"):
        Settings(trusted_proxies="10.0.0.0/8, nginx")


async def test_clients_behind_a_named_proxy_are_limited_each_for_itself(serve: Serve) -> None:
    """The transport of this test asks from 127.0.0.1."""
    limit = {"requests_per_second": 0.001, "request_burst": 2}
    for proxies, statuses in (("127.0.0.1", [200, 200, 429, 200]), ("", [200, 200, 429, 429])):
        async with serve(trusted_proxies=proxies, **limit) as client:
            found = []
            for address in ("203.0.113.1",) * 3 + ("203.0.113.2",):
                headers = {"x-forwarded-for": address}
                found.append((await client.get("/v1/sessions", headers=headers)).status_code)
            assert found == statuses
            if proxies:
                answer = await client.get("/v1/sessions", headers={"x-forwarded-for": address})
                assert answer.status_code == 200
            else:
                problem(await client.get("/v1/sessions"), 429, "too_many_requests")
