"""The shipped proxy speaks TLS; the shipped database role is no superuser and is enough."""

import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from service.storage.maintenance import migrate
from tests.faults.server_process import Server
from tests.faults.test_compose import (
    ROOT,
    make_role,
    nginx,
    wait_until_it_listens,
)
from tests.free_port import free_port
from tests.postgres_server import PostgresServer

PASSWORD = "it's not: p@ss/word"


@contextmanager
def role_of_the_composition(folder: Path) -> Iterator[str]:
    """A PostgreSQL in which deploy/postgres-role.sh has made its role; the role's URL."""
    server = PostgresServer()
    server.start()
    try:
        make_role(server, folder, PASSWORD)
        yield f"postgresql://lhb@127.0.0.1:{server.port}/lhb"
    finally:
        server.remove()


def test_the_role_of_the_composition_is_no_superuser_and_is_enough(tmp_path: Path) -> None:
    with role_of_the_composition(tmp_path) as url:
        with psycopg.connect(url) as connection:
            rights = "rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls"
            role = f"select {rights}, rolcanlogin from pg_roles where rolname = 'lhb'"
            [found] = connection.execute(role).fetchall()
            assert found == (False, True)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select rolpassword from pg_authid")
        owner = f"postgresql://lhb_owner@{url.rpartition('@')[2].partition('/')[0]}/postgres"
        with psycopg.connect(owner) as connection:
            words = "select rolname, rolpassword is null from pg_authid where rolcanlogin"
            assert dict(connection.execute(words).fetchall())["lhb_owner"] is True
            assert dict(connection.execute(words).fetchall())["lhb"] is False
        migrate(url)
        with Server(url) as server, server.client() as client:
            body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
            path = f"/v1/sessions/{client.post('/v1/sessions', json=body).json()['id']}"
            decision = client.post(f"{path}/decisions", json={"contexts": [[1, 0]]})
            assert decision.status_code == 201
            assert "lhb_database_up 1.0" in client.get("/metrics").text


@contextmanager
def tls_proxy(folder: Path, api: int) -> Iterator[tuple[str, Path]]:
    """nginx with the files' configuration and a certificate of its own: address, certificate."""
    certificate, key, port = folder / "certificate.pem", folder / "key.pem", free_port()
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-days", "1", "-subj", "/CN=localhost", "-keyout", str(key)]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    tls = (ROOT / "deploy/tls.conf").read_text().replace("listen 8443", f"listen 127.0.0.1:{port}")
    tls = tls.replace("/run/secrets/tls_certificate", str(certificate))
    (folder / "tls.conf").write_text(tls.replace("/run/secrets/tls_key", str(key)))
    text = (ROOT / "deploy/nginx.conf").read_text().replace("/tmp/", f"{folder}/")
    [line] = re.findall(r"server api:8080 resolve .*;", text)
    text = text.replace(line, line.replace("api:8080 resolve", f"127.0.0.1:{api}"))
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{free_port()};")
    assert "/etc/nginx/tls/*.conf" in text
    (folder / "nginx.conf").write_text(text.replace("/etc/nginx/tls/*.conf", f"{folder}/tls.conf"))
    folder.chmod(0o755)
    process = subprocess.Popen(
        [nginx(), "-c", str(folder / "nginx.conf"), "-g", "daemon off; user root;"]
    )
    try:
        wait_until_it_listens(port)
        yield f"https://127.0.0.1:{port}", certificate
    finally:
        process.terminate()
        process.wait(120)


def test_the_shipped_proxy_speaks_tls_and_says_whose_request_it_is(tmp_path: Path) -> None:
    """A client cannot make up an address: its own counts, though it says another one."""
    limits = {"LHB_REQUESTS_PER_SECOND": "0.001", "LHB_REQUEST_BURST": "2"}
    with Server(tmp_path / "lhb.db", LHB_TRUSTED_PROXIES="127.0.0.0/8", **limits) as server:
        folder = tmp_path / "nginx"
        folder.mkdir()
        with tls_proxy(folder, int(server.url.rpartition(":")[2])) as (url, certificate):
            trusted = ssl.create_default_context(cafile=str(certificate))
            with httpx.Client(base_url=url, verify=trusted, timeout=60) as client:
                answers = [
                    client.get("/v1/sessions", headers={"x-forwarded-for": f"203.0.113.{n}"})
                    for n in range(3)
                ]
            assert [answer.status_code for answer in answers] == [200, 200, 429]
            assert "max-age" in answers[0].headers["strict-transport-security"]
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{url}/healthz", timeout=60)  # nobody knows this certificate
