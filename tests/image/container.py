"""A container made of an unpacked image by the kernel alone, as confined as in the compositions."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Any, Self

# the root read-only, /tmp in memory, one volume; no network but its own loopback
_LAY_OUT = """set -eu
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount --bind "$VOLUME" "$ROOT/data"
for at in tmp dev; do mount -t tmpfs -o mode=1777,nosuid tmpfs "$ROOT/$at"; done
for name in null zero full random urandom; do
  touch "$ROOT/dev/$name"
  mount --bind "/dev/$name" "$ROOT/dev/$name"
done
mkdir -m 1777 "$ROOT/dev/shm"
chmod 755 "$ROOT/dev"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$ROOT/dev/shm"
mount -o remount,ro "$ROOT/dev"
mount -t proc proc "$ROOT/proc"
[ -n "$NETWORK" ] || ip link set lo up
exec chroot "$ROOT" "$@"
"""


class Container:
    """`with Container(root, config, volume) as container`: the image's command, or another.

    Parameters
    ----------
    root : Path
        The image's files.
    config : dict
        What the image says: user, environment, command.
    volume : Path
        What is mounted on /data.
    *command : str
        Instead of the image's own.
    has_network : bool
        Whether it shares this machine's network.
    **settings : str
        Further environment.
    """

    def __init__(
        self,
        root: Path,
        config: dict[str, Any],
        volume: Path,
        *command: str,
        has_network: bool = False,
        **settings: str,
    ) -> None:
        self._place = {"ROOT": str(root), "VOLUME": str(volume)}
        self._network = "shared" if has_network else ""
        user, group = config["User"].split(":")
        # as cap_drop: [ALL] and no-new-privileges
        self._nobody = [
            *("/usr/bin/setpriv", "--reuid", user, "--regid", group, "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "/usr/bin/env", "-i"),
            *config["Env"],
            *(f"{name}={value}" for name, value in settings.items()),
        ]
        self._command = command or config["Cmd"]
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def __enter__(self) -> Self:
        """Return once the command sees the image's files only, or has ended."""
        spaces = ["--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        if not self._network:
            spaces.append("--net")
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            ["unshare", *spaces, "sh", "-c", _LAY_OUT, "sh", *self._nobody, *self._command],
            env={**os.environ, **self._place, "NETWORK": self._network},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
        )
        while self._process.poll() is None and self._seen() != self._place["ROOT"]:
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left of it."""
        assert self._process is not None
        self._process.kill()  # and its children with it
        self._process.wait()
        assert self._log is not None
        self._log.close()

    @property
    def pid(self) -> int:
        """Of its first process, as this machine sees it."""
        return self._children()[0]

    def _children(self) -> list[int]:
        assert self._process is not None
        path = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        return [int(pid) for pid in Path(path).read_text().split()]

    def _seen(self) -> str:
        """The folder that the first process takes for the root."""
        try:
            return str(Path(f"/proc/{self.pid}/root").readlink())
        except (IndexError, OSError):
            return ""

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as its user."""
        spaces = ["--mount", "--pid", "--ipc", "--uts", "--net", "--root", "--wd"]
        return subprocess.run(
            ["nsenter", "--target", str(self.pid), *spaces, "--", *self._nobody, *command],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def stop(self) -> int:
        """Ask it to stop; the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """The exit code, once it has ended."""
        assert self._process is not None
        return self._process.wait(120)

    def output(self) -> str:
        """What it printed so far."""
        assert self._log is not None
        self._log.seek(0)
        return self._log.read()
