"""docker-compose.yml as local processes: each service's own command and environment.

The containers' names become ports of this machine, and nothing else is changed. A simulation is
played through the proxy, an API process and a worker are killed in the middle, and the regret is
that of the run in process.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest
import yaml

from clients.simulator import SimulationSettings, simulate_all
from tests.free_port import free_port
from tests.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
SETTINGS = SimulationSettings(
    ("ad_lasso", "uniform"), rounds=300, horizon=24, dim=3, arms=4, sparsity=2, seeds=2
)
PASSWORD = "not a secret: p@ss/word"


def nginx() -> str:
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        assert "CI" not in os.environ, "nginx is missing"
        pytest.skip("nginx is not installed")
    return found


class Compose:
    """The services of the file, one process each."""

    def __init__(self, postgres: PostgresServer, scratch: Path) -> None:
        whole = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
        self.services: dict[str, Any] = whole["services"]
        self._postgres = postgres
        self._secret = scratch / "postgres_password"
        self._secret.write_text(PASSWORD)

    def environment(self, name: str) -> dict[str, str]:
        """As in the file, with PostgreSQL's address and the secret's path of this machine."""
        given = {key: str(value) for key, value in self.services[name]["environment"].items()}
        url = given["LHB_DATABASE_URL"]
        assert "@postgres:5432/" in url
        given["LHB_DATABASE_URL"] = url.replace("postgres:5432", f"127.0.0.1:{self._postgres.port}")
        assert given["LHB_DATABASE_PASSWORD_FILE"] == "/run/secrets/postgres_password"
        given["LHB_DATABASE_PASSWORD_FILE"] = str(self._secret)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("LHB_")}
        if "LHB_METRICS_PORT" in given:  # workers share this machine's ports, unlike containers
            given["LHB_METRICS_PORT"] = str(free_port())
        return {**clean, **given, "LHB_LOG_LEVEL": "error"}

    def command(self, name: str, **replaced: str) -> list[str]:
        """As in the file, `lhb` being this one."""
        lhb, *arguments = self.services[name]["command"]
        assert lhb == "lhb"
        return [sys.executable, "-m", "clients.cli.main", *(replaced.get(a, a) for a in arguments)]

    @contextmanager
    def start(self, name: str, ready: str, **replaced: str) -> Iterator[subprocess.Popen[str]]:
        """The service, once it has said that it is ready."""
        process = subprocess.Popen(
            self.command(name, **replaced),
            env=self.environment(name),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(ready)
            yield process
        finally:
            process.kill()
            process.communicate()


def wait_until_it_listens(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def proxy(ports: list[int]) -> Iterator[str]:
    """nginx with the file's configuration; the name `api` is two ports here."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="lhb-nginx-") as folder:
        os.chmod(folder, 0o755)
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        [line] = re.findall(r"server api:8080 resolve .*;", text)
        here = [line.replace("api:8080 resolve", f"127.0.0.1:{p}") for p in ports]
        text = text.replace(line, "\n".join(here))
        assert "listen 8080;" in text
        text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};")
        text = text.replace("/tmp/", f"{folder}/")
        configuration = Path(folder, "nginx.conf")
        configuration.write_text(text)
        process = subprocess.Popen(
            [nginx(), "-c", str(configuration), "-g", "daemon off;"], stderr=subprocess.DEVNULL
        )
        try:
            wait_until_it_listens(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(120)


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """With the role, the database and the password of the compose file."""
    nginx()
    server = PostgresServer()
    server.start()
    make_role(server, tmp_path_factory.mktemp("role"), PASSWORD)
    yield server
    server.remove()


def make_role(server: PostgresServer, folder: Path, password: str) -> None:
    """Let deploy/postgres-role.sh make the role and the database lhb, as the container does.

    The superuser is lhb_owner; the role lhb that the test's server was made with is renamed.
    """
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("create role lhb_owner superuser login password 'x'")
    with psycopg.connect(server.url(), autocommit=True, user="lhb_owner") as connection:
        connection.execute("alter role lhb rename to lhb_of_the_tests")
    (folder / "password").write_text(f"{password}\n")
    environment = {
        **os.environ,
        "POSTGRES_USER": "lhb_owner",
        "LHB_PASSWORD_FILE": str(folder / "password"),
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PATH": f"{server._bin}:{os.environ['PATH']}",
    }
    script = ROOT / "deploy/postgres-role.sh"
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_whole_composition_survives_deaths_and_gets_the_same_regret(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    compose = Compose(postgres, tmp_path)
    assert compose.services["postgres"]["environment"]["POSTGRES_USER"] == "postgres"
    mounted = compose.services["postgres"]["volumes"]
    assert "./deploy/postgres-role.sh:/docker-entrypoint-initdb.d/role.sh:ro" in mounted
    migrated = subprocess.run(
        compose.command("migrate"), env=compose.environment("migrate"), cwd=ROOT, check=True
    )
    assert migrated.returncode == 0
    ports = [free_port(), free_port()]
    with ExitStack() as stack:
        apis = [
            stack.enter_context(
                compose.start("api", "listening", **{"8080": str(p), "0.0.0.0": "127.0.0.1"})
            )
            for p in ports
        ]
        workers = [stack.enter_context(compose.start("worker", "working")) for _ in range(2)]
        url = stack.enter_context(proxy(ports))
        wait_until_ready(url)
        deaths: list[int] = []

        def kill_one_of_each() -> None:
            deadline = time.monotonic() + 240
            while n_decisions(postgres) < 300 and time.monotonic() < deadline:
                time.sleep(0.01)
            deaths.append(n_decisions(postgres))
            apis[0].send_signal(signal.SIGKILL)
            workers[0].send_signal(signal.SIGKILL)

        killer = threading.Thread(target=kill_one_of_each)
        killer.start()
        served = simulate_all(SETTINGS, url, keep_sessions=True)
        killer.join()
        assert httpx.get(f"{url}/metrics", timeout=60).status_code == 404
        ready = httpx.get(f"{url}/readyz", timeout=60).json()
    total = SETTINGS.rounds * SETTINGS.seeds * len(SETTINGS.algorithms)
    assert 300 <= deaths[0] < total
    assert apis[0].returncode == workers[0].returncode == -signal.SIGKILL
    assert ready["workers"] == 1
    local = simulate_all(SETTINGS)
    for algorithm, runs in local.items():
        for mine, theirs in zip(runs, served[algorithm], strict=True):
            np.testing.assert_array_equal(mine.arms, theirs.arms)
            np.testing.assert_array_equal(mine.regret, theirs.regret)


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/readyz", timeout=60).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("the proxy did not become ready")


def n_decisions(postgres: PostgresServer) -> int:
    with psycopg.connect(postgres.url("lhb")) as connection:
        row = connection.execute("select count(*) from decisions").fetchone()
    assert row is not None
    return int(row[0])
