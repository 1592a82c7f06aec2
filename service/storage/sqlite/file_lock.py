"""An OS lock on a side file: one server process owns a database file, and a kill frees it."""

import fcntl
import os
from pathlib import Path

from service.storage.ports import Refused


class OwnedElsewhere(Refused):
    """Another process serves this database file."""


class FileLock:
    """Held until `release` or the end of the process.

    Parameters
    ----------
    path : Path
        The file to own; the lock is on ``<path>.lock``.
    """

    def __init__(self, path: Path) -> None:
        name = f"{path}.lock"
        try:
            self._descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Refused(f"{path} cannot be owned: {error.strerror}: {name}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise OwnedElsewhere(
                f"{path} is served by another process (pid {owner or 'unknown'}); "
                "stop it first, or use another LHB_DATABASE_URL"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Give the file up."""
        os.close(self._descriptor)
