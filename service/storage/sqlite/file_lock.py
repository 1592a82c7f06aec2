"""An OS lock on a database file: one server process owns it, and a kill frees it."""

import fcntl
import os
from pathlib import Path

from service.storage.ports import Refused


class OwnedElsewhere(Refused):
    """Another process serves this database file."""


class FileLock:
    """Held until `release` or the end of the process.

    The lock is on the file's inode, so another name of the file (a link) is no way around it. A
    side file, ``<path>.lock``, tells who the owner is. It is locked too, and first: a process that
    closes any descriptor of a database file gives up the locks that SQLite holds on it.

    Parameters
    ----------
    path : Path
        The file to own. A new one is made empty, and only its owner may read it and its log.

    Raises
    ------
    OwnedElsewhere
        Another process owns it.
    Refused
        It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptors: list[int] = []
        side = Path(f"{path.resolve()}.lock")
        try:
            self._own(side, os.O_RDWR)
            self._own(path, os.O_RDONLY)
        except BlockingIOError:
            is_named = len(self._descriptors) == 1  # else the owner has written another side file
            owner = os.pread(self._descriptors[0], 32, 0).decode(errors="replace").strip()
            self.release()
            raise OwnedElsewhere(
                f"{path} is served by another process (pid {(is_named and owner) or 'unknown'}); "
                "stop it first, or use another LHB_DATABASE_URL"
            ) from None
        except OSError as error:
            self.release()
            where = error.filename or path
            raise Refused(f"{path} cannot be owned: {error.strerror}: {where}") from None
        os.ftruncate(self._descriptors[0], 0)
        os.pwrite(self._descriptors[0], str(os.getpid()).encode(), 0)

    def _own(self, path: Path, access: int) -> None:
        self._descriptors.append(os.open(path, access | os.O_CREAT | os.O_CLOEXEC, 0o600))
        fcntl.flock(self._descriptors[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Give the file up."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
