"""The folder of files that imports and copies make on their way, and each tenant's share of it.

A tenant may take more while as much stays free on the disk as it then has. So of an empty disk one
tenant gets half, the next half of the rest: nobody's file takes all, and the database beside it
keeps its room.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path

from service.base.problems import Problem, ProblemCode
from service.base.server_settings import Settings
from service.storage.database_url import is_sqlite, sqlite_path

FULL = (ENOSPC, EDQUOT, EFBIG)  # what a system says that can store no more of a file
PREFIX = "lhb-spool-"


class Spool:
    """A folder for files on their way, made with the first file.

    `is_own`: no other server uses it; then what a killed one left there is removed. `free` tells
    the bytes that are free on its disk.
    """

    def __init__(
        self,
        folder: Path,
        *,
        is_own: bool = False,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._folder, self._free = folder, free
        self._taken: Counter[str] = Counter()
        if is_own:
            for left in folder.glob(f"{PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)

    @contextmanager
    def files(self, tenant: str) -> Iterator["SpooledFiles"]:
        """Make a folder for one import or copy, removed at the end; or raise 503 storage_full."""
        with full_said():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=self._folder)
        with folder:
            files = SpooledFiles(self, tenant, Path(folder.name))
            try:
                yield files
            finally:
                self._taken[tenant] -= files.n_bytes
                self._taken += Counter()  # forgets tenants without files

    def take(self, tenant: str, n_bytes: int) -> None:
        """Count bytes that a tenant is about to write.

        Raises 503 storage_full, without counting them, if they are beyond its share.
        """
        if self._taken[tenant] + n_bytes > self._free(self._folder) - n_bytes:
            raise no_room("this tenant's files on their way have their share of what is free")
        self._taken[tenant] += n_bytes


class SpooledFiles:
    """The files of one import or copy: what was sent, and the rows that are made of it."""

    def __init__(self, spool: Spool, tenant: str, folder: Path) -> None:
        self._spool, self._tenant = spool, tenant
        self.path, self.rows = folder / "file", folder / "rows"
        self.n_bytes = 0

    @contextmanager
    def opened(self) -> Iterator[Callable[[bytes], None]]:
        """Open the file; yield what writes a part of it, and raises 503 storage_full."""
        with self.path.open("wb", buffering=0) as file:

            def write(part: bytes) -> None:
                self.take(len(part))
                with full_said():
                    view = memoryview(part)
                    while view:
                        view = view[file.write(view) :]

            yield write

    def take(self, n_bytes: int) -> None:
        """Count bytes that are about to be written; raises what `Spool.take` does."""
        self._spool.take(self._tenant, n_bytes)
        self.n_bytes += n_bytes


@contextmanager
def full_said() -> Iterator[None]:
    """Turn what the system says of a full disk into a 503 storage_full."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise no_room("the disk is full") from error


def no_room(reason: str) -> Problem:
    """Make the 503 for a file that finds no room."""
    detail = f"{reason}; no session was made. Try again later, or send less at once"
    return Problem(ProblemCode.STORAGE_FULL, detail, "body", retry_after=5)


def open_spool(settings: Settings) -> Spool:
    """Return the spool of a server: by default beside a SQLite database, else the system's.

    On PostgreSQL that is the folder of temporary files, which other servers may use too.
    """
    if settings.spool_folder is not None:
        return Spool(settings.spool_folder)
    if not is_sqlite(settings.database_url):
        return Spool(Path(tempfile.gettempdir()))
    path = sqlite_path(settings.database_url)
    return Spool(path.with_name(f"{path.name}-spool"), is_own=True)
