"""An OS lock on a database file: one process owns it until it releases it or ends."""

import fcntl
import os
from pathlib import Path

from service.storage.ports import Refused


class OwnedElsewhere(Refused):
    """Another process owns this database file."""


class FileLock:
    """Exclusive lock on a file, held until `release` or the end of the process.

    The lock is on the inode, so links to the file are locked too. The side file ``<path>.lock``
    holds the owner's process id. It is locked first: a second attempt in the owning process then
    fails before it opens the database file, and closing any descriptor of that file would drop the
    locks that SQLite holds on it.

    Parameters
    ----------
    path : Path
        The file to own. A missing one is created empty, with access for its owner alone.

    Raises
    ------
    OwnedElsewhere
        Another process owns the file.
    Refused
        The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptors: list[int] = []
        side = Path(f"{path.resolve()}.lock")
        try:
            self._own(side, os.O_RDWR)
            self._own(path, os.O_RDONLY)
        except BlockingIOError:
            is_named = len(self._descriptors) == 1  # else the owner uses another link
            owner = os.pread(self._descriptors[0], 32, 0).decode(errors="replace").strip()
            self.release()
            raise OwnedElsewhere(
                f"{path} is served by another process (pid {(is_named and owner) or 'unknown'}); "
                "stop it first, or use another LHB_DATABASE_URL"
            ) from None
        except OSError as error:
            self.release()
            where = error.filename or path
            raise Refused(f"{path} cannot be locked: {error.strerror}: {where}") from None
        os.ftruncate(self._descriptors[0], 0)
        os.pwrite(self._descriptors[0], str(os.getpid()).encode(), 0)

    def _own(self, path: Path, access: int) -> None:
        self._descriptors.append(os.open(path, access | os.O_CREAT | os.O_CLOEXEC, 0o600))
        fcntl.flock(self._descriptors[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Release the lock."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
