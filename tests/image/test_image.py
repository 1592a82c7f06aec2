"""The image that `make image-check` has built: what is in it, and that it runs confined."""

import json
import os
import stat
import tarfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.image.container import Container
from tests.postgres_server import PostgresServer

FOLDER = os.environ.get("LHB_IMAGE", "out/image")
ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
OPEN = {"LHB_INSECURE_BIND": "true"}  # as in the composition, which publishes on loopback only
pytestmark = pytest.mark.image
PLAY = """
from lhb import Client
client = Client("http://127.0.0.1:8080")
session = client.create_session(name="shop", algorithm="uniform", dim=2, horizon=4)
print(session.decide([[1.0, 0.0], [0.0, 1.0]]).round)
"""
WRITABLE = """
import os
for folder, names, _ in os.walk("/"):
    if folder in ("/proc", "/sys"):
        names.clear()
    elif os.access(folder, os.W_OK):
        print(folder)
        names.clear()
"""


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    inspected = json.loads((Path(FOLDER) / "inspect.json").read_text())
    return dict(inspected["Docker"]["config"])


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A new volume: it has the owner and mode of the folder that it covers."""
    covered = (root() / "data").stat()
    made = tmp_path / "volume"
    made.mkdir()
    os.chown(made, covered.st_uid, covered.st_gid)
    made.chmod(stat.S_IMODE(covered.st_mode))
    return made


def root() -> Path:
    return Path(FOLDER).resolve() / "root"


def is_healthy(container: Container, config: dict[str, Any]) -> bool:
    kind, *command = config["Healthcheck"]["Test"]
    assert kind == "CMD"
    return container.run(*command).returncode == 0


def wait_until_healthy(container: Container, config: dict[str, Any]) -> None:
    deadline = time.monotonic() + 120
    while "listening on" not in container.output() or not is_healthy(container, config):
        assert time.monotonic() < deadline, container.output()
        time.sleep(0.2)


def own_members() -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """What the Dockerfile adds to its base: each layer's files, with what they hold."""
    layers = Path(FOLDER) / "layers"
    _, *own = json.loads((layers / "manifest.json").read_text())["layers"]  # the base is one
    assert own
    for layer in own:
        with tarfile.open(layers / layer["digest"].removeprefix("sha256:")) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                yield member, b"" if file is None else file.read()


def test_the_image_says_what_it_is(config: dict[str, Any]) -> None:
    assert config["User"] == "10001:10001"
    assert config["Labels"]["org.opencontainers.image.version"] == VERSION
    assert set(config["Volumes"]) == {"/data"}


def test_no_layer_holds_a_secret_or_a_cache() -> None:
    """`build.sh` has planted secrets, databases and caches in the folder that it built from."""
    names = set()
    for member, content in own_members():
        name = "/" + member.name
        names.add(name)
        assert b"lhb-planted-secret" not in content, name
        assert not any(part in name for part in ("/.cache", "/.git", "/.wh.", ".db", ".key"))
        assert name.partition("/lib/")[0] in ("/opt/lhb", "/etc", "/opt", "/data") or (
            name.startswith(("/opt/lhb/", "/etc/"))
        ), name
        assert not name.endswith((".pem", ".key")) or name.endswith("/certifi/cacert.pem")
        assert not member.mode & (stat.S_ISUID | stat.S_ISGID), name
        if name != "/data":
            assert member.uid == 0, name
            assert member.issym() or not member.mode & 0o022, name
    assert "/opt/lhb/bin/lhb" in names
    for gone in ("pip", "setuptools"):
        assert not any(f"/site-packages/{gone}/" in name for name in names), gone


def test_it_serves_on_a_read_only_root(config: dict[str, Any], volume: Path) -> None:
    """As nobody, without capabilities; what was answered outlives the container."""
    with Container(root(), config, volume, **OPEN) as container:
        wait_until_healthy(container, config)
        state = Path(f"/proc/{container.pid}/status").read_text().split("\n")
        said = {name: value.split() for name, _, value in (one.partition(":") for one in state)}
        assert set(said["Uid"]) == set(said["Gid"]) == {"10001"}
        assert {int(said[name][0], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
        assert said["NoNewPrivs"] == ["1"]
        played = container.run("python", "-c", PLAY)
        assert played.stdout == "1\n", played.stderr
        writable = container.run("python", "-c", WRITABLE).stdout.split()
        assert sorted(writable) == ["/data", "/dev/shm", "/tmp"]
        assert container.run("lhb", "--version").stdout.split()[-1] == VERSION
        assert container.stop() == 0
    kept = {path.name: stat.S_IMODE(path.stat().st_mode) for path in volume.iterdir()}
    assert not any(mode & 0o077 for mode in kept.values()), kept
    with Container(root(), config, volume, **OPEN) as container:
        wait_until_healthy(container, config)
        assert "shop" in container.run("lhb", "sessions").stdout


def test_the_health_check_tells_a_server_that_does_not_answer(
    config: dict[str, Any], volume: Path
) -> None:
    with Container(root(), config, volume, "sleep", "300", **OPEN) as container:
        assert container.run("true").returncode == 0
        assert not is_healthy(container, config)


def test_it_refuses_to_serve_everybody(config: dict[str, Any], volume: Path) -> None:
    """The image listens on all addresses: without a key somebody has to say that this is meant."""
    with Container(root(), config, volume) as container:
        assert container.wait() != 0
        assert "refusing to listen" in container.output()
    made = ("lhb", "keys", "create", "--role", "admin")
    with Container(root(), config, volume, *made) as container:
        assert container.wait() == 0, container.output()
    with Container(root(), config, volume) as container:
        wait_until_healthy(container, config)


def test_it_migrates_and_fits_on_postgres(config: dict[str, Any], volume: Path) -> None:
    server = PostgresServer()
    try:
        server.start()
        database = {"LHB_DATABASE_URL": server.url(), "has_network": True}
        with Container(root(), config, volume, "lhb", "migrate", **database) as container:
            assert container.wait() == 0, container.output()
        with Container(root(), config, volume, "lhb", "worker", **database) as container:
            deadline = time.monotonic() + 120
            while '"start"' not in container.output():
                assert time.monotonic() < deadline, container.output()
                time.sleep(0.2)
            assert container.stop() == 0, container.output()
    finally:
        server.remove()
    assert not any(volume.iterdir())
