"""`lhb serve` beyond loopback, and `lhb keys` beside a server: real processes."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.examples import repeats
from tests.faults.server_process import Server
from tests.faults.test_offline import lhb

EVERYWHERE = "from service.operation.server import run; run(host='0.0.0.0', port=0)"


class OpenServer(Server):
    """Listens on every address."""

    code = EVERYWHERE


@pytest.mark.slow
def test_beyond_loopback_needs_a_key_that_is_in_use(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    refused = lhb(database, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 1
    assert re.search(rb"refusing to listen on 0\.0\.0\.0.*lhb keys create", refused.stderr)
    assert refused.stderr.count(b"\n") == 1  # a line, no traceback
    made = lhb(database, "keys", "create", "--label", "shop")
    assert made.returncode == 0, made.stderr
    key = made.stdout.decode().strip()
    assert key.encode() not in made.stderr
    assert key.encode() not in database.read_bytes()
    with OpenServer(database) as server:
        port = server.url.rpartition(":")[2]
        url = f"http://127.0.0.1:{port}/v1/sessions"  # loopback too
        assert httpx.get(url, timeout=60).status_code == 401
        assert (
            httpx.get(url, headers={"authorization": f"Bearer {key}"}, timeout=60).status_code
            == 200
        )
    [row] = json.loads(lhb(database, "keys", "list", "--json").stdout)["keys"]
    assert (row["label"], row["revoked_at"]) == ("shop", None)
    assert lhb(database, "keys", "revoke", row["id"]).returncode == 0
    with pytest.raises(AssertionError, match="refusing to listen"):
        OpenServer(database).start()
    with Server(database) as server:  # loopback, but there were keys
        assert httpx.get(f"{server.url}/v1/sessions", timeout=60).status_code == 401
        assert httpx.get(f"{server.url}/healthz", timeout=60).status_code == 200


def test_beside_a_server_keys_are_listed_and_not_changed(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    assert lhb(database, "keys", "create", "--tenant", "a").returncode == 0
    with Server(database) as server:
        assert server.process is not None
        listed = lhb(database, "keys", "list")
        assert listed.returncode == 0
        assert b"in use" in listed.stdout
        [row] = json.loads(lhb(database, "keys", "list", "--json").stdout)["keys"]
        for change in (("create",), ("revoke", row["id"])):
            refused = lhb(database, "keys", *change)
            assert refused.returncode == 1
            assert f"pid {server.process.pid}); stop it first" in refused.stderr.decode()
            assert b"or give --url, with an admin's key" in refused.stderr
            assert refused.stderr.count(b"\n") == 1
            assert refused.stdout == b""
    assert lhb(database, "keys", "revoke", "nobody").stderr == (
        b"lhb keys revoke: there is no key 'nobody'\n"
    )
    assert b"no such key" not in lhb(database, "keys", "revoke", row["id"]).stderr


@pytest.mark.slow
def test_a_leaked_key_is_replaced_and_revoked_while_its_server_runs(tmp_path: Path) -> None:
    """All of it by the command line through the server, which is not restarted."""
    database = tmp_path / "lhb.db"
    with Server(database) as server:
        url = ("--url", server.url)

        def keys(*arguments: str, by: str = "") -> str:
            done = lhb(database, *arguments, *url, LHB_API_KEY=by)
            assert done.returncode == 0, done.stderr
            return done.stdout.decode().strip()

        def status(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return httpx.get(f"{server.url}/v1/sessions", headers=headers, timeout=60).status_code

        admin = keys("keys", "create", "--role", "admin", "--label", "me")
        assert (
            httpx.get(f"{server.url}/v1/sessions", timeout=60).status_code == 401
        )  # closed from now on
        shop = keys("keys", "create", "--label", "shop", "--days", "90", by=admin)
        listed = json.loads(keys("keys", "list", "--json", by=admin))["keys"]
        [leaked] = [row for row in listed if row["label"] == "shop"]
        assert leaked["expires_at"] is not None
        new = keys("keys", "rotate", leaked["id"], "--hours", "1", by=admin)
        assert status(shop) == status(new) == 200
        keys("keys", "revoke", leaked["id"], by=admin)
        assert (status(shop), status(new)) == (401, 200)
        refused = lhb(database, "keys", "revoke", leaked["id"], *url, LHB_API_KEY=new)
        assert refused.returncode == 1
        assert b"403 forbidden" in refused.stderr
        said = json.loads(keys("audit", "--json", by=admin))["entries"]
        actions = ["key_created", "key_created", "key_rotated", "key_revoked"]
        assert [entry["action"] for entry in said] == actions
        assert said[-1]["subject"] == leaked["id"]
        assert said[0]["actor"] is None  # nobody had a key then
        assert said[1]["actor"] == next(row["id"] for row in listed if row["label"] == "me")
        server.kill()
        offline = json.loads(lhb(database, "audit", "--json").stdout)["entries"]
        assert offline == said
        assert not any(key in database.read_bytes().decode("latin-1") for key in (shop, new))


def test_a_key_revoked_by_one_process_is_refused_by_the_other(postgres_url: str) -> None:
    with Server(postgres_url) as one, Server(postgres_url) as other:
        made = httpx.post(f"{one.url}/v1/keys", json={"role": "admin"}, timeout=60).json()
        headers = {"authorization": f"Bearer {made['key']}"}
        wait_for(
            lambda: (
                httpx.get(f"{other.url}/v1/keys", headers=headers, timeout=60).status_code == 200
            )
        )
        shop = httpx.post(f"{one.url}/v1/keys", json={}, headers=headers, timeout=60).json()
        theirs = {"authorization": f"Bearer {shop['key']}"}
        wait_for(
            lambda: (
                httpx.get(f"{other.url}/v1/sessions", headers=theirs, timeout=60).status_code == 200
            )
        )
        gone = httpx.delete(f"{one.url}/v1/keys/{shop['id']}", headers=headers, timeout=60)
        assert gone.status_code == 204
        assert httpx.get(f"{one.url}/v1/sessions", headers=theirs, timeout=60).status_code == 401
        wait_for(
            lambda: (
                httpx.get(f"{other.url}/v1/sessions", headers=theirs, timeout=60).status_code == 401
            )
        )


@pytest.mark.parametrize("kind", ["sqlite", *repeats("postgresql")])
def test_on_one_connection_each_request_is_checked(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whatever the same connection has presented before."""
    database = tmp_path / "lhb.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with Server(database) as server, httpx.Client(base_url=server.url, timeout=60) as admins:
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=60)
        connection.connect()
        connection.auto_open = 0  # it is the one connection

        def make(path: str = "/v1/keys", **body: Any) -> dict[str, Any]:
            answer = admins.post(path, json=body).raise_for_status()
            found: dict[str, Any] = answer.json()
            return found

        def status(authorization: str | None) -> int:
            headers = {} if authorization is None else {"authorization": authorization}
            connection.request("GET", "/v1/sessions", headers=headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status

        admins.headers["authorization"] = f"Bearer {make(role='admin')['key']}"
        shop = make()
        old = f"Bearer {shop['key']}"
        assert [status(old) for _ in range(3)] == [200] * 3
        for other in (None, "", "Bearer", f"Basic {shop['key']}", old[:-1], f"{old}x"):
            assert [status(other), status(other), status(old)] == [401, 401, 200], other
        rotation = f"/v1/keys/{shop['id']}/rotation"
        new = f"Bearer {make(rotation, overlap_seconds=3600)['key']}"
        assert [status(new), status(old), status(new), status(old)] == [200] * 4
        admins.delete(f"/v1/keys/{shop['id']}").raise_for_status()
        assert [status(old), status(new), status(old)] == [401, 200, 401]
        brief = make(expires_in_seconds=2.0)
        until = datetime.fromisoformat(brief["expires_at"]).timestamp()
        while (answered := status(f"Bearer {brief['key']}")) == 200:
            assert time.time() < until + 60
        assert (answered, time.time() >= until) == (401, True)
        assert status(new) == 200
        connection.close()


def wait_for(holds: Callable[[], bool]) -> None:
    """Until it holds, for at most 120 seconds."""
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_client_and_the_command_line_present_their_key(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    key = lhb(database, "keys", "create").stdout.decode().strip()
    code = (
        "import sys; from lhb import Client\n"
        "with Client(sys.argv[1]) as client:\n"
        "    print(client.create_session('s', dim=2, horizon=4).decide([[1, 0]]).round)"
    )
    with Server(database) as server:
        run = [sys.executable, "-c", code, server.url]
        refused = subprocess.run(run, capture_output=True, text=True, check=False)
        assert "401 unauthorized" in refused.stderr
        given = subprocess.run(
            run, env={"LHB_API_KEY": key}, capture_output=True, text=True, check=False
        )
        assert given.stdout.strip() == "1", given.stderr
        for arguments in (("export", "s"),):
            assert b"Bearer" in lhb(database, *arguments, "--url", server.url).stderr
