"""Whether the files that a server has open are still those of their names."""

import os
import time
from pathlib import Path

from service.base.problems import ProblemCode, Unavailable

LOOK_SECONDS = 0.02  # at most so often; a look costs a tenth of a decision


class DatabaseFiles:
    """A database file, its log, and the log's index, as they are now.

    Parameters
    ----------
    path : Path
        The database file, open and with a log.

    Attributes
    ----------
    log_bytes : int
        Size of the log file at the last look.
    """

    def __init__(self, path: Path) -> None:
        file = path.resolve()
        self._paths = [path, Path(f"{file}-wal"), Path(f"{file}-shm")]
        self._opened = [_identity(path) for path in self._paths]
        self._next_look = 0.0
        self._is_lost = False
        self.log_bytes = 0

    def check(self) -> None:
        """Look at the files, if the last look was not just before.

        Raises
        ------
        Unavailable
            503 storage_failing: one of them was removed or replaced.
        """
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._is_lost = [_identity(path) for path in self._paths] != self._opened
            if not self._is_lost:
                self.log_bytes = os.stat(self._paths[1]).st_size
        if self._is_lost:
            detail = "the database file, or its log, was removed or replaced under the server"
            raise Unavailable(ProblemCode.STORAGE_FAILING, f"{detail}; nothing was written")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
