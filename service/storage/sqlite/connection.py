"""Connections to a SQLite file."""

import operator
import sqlite3
from pathlib import Path

from service.base.problems import ProblemCode, Unavailable
from service.storage.sqlite.disk_space import keep_log

# the driver looks for an adapter of every value that is not a plain number or text; finding a
# registered one is cheaper than finding none, which raises and drops an error
sqlite3.register_adapter(type(None), {None: None}.get)
sqlite3.register_adapter(bytes, bytes.__bytes__)
sqlite3.register_adapter(bool, operator.pos)


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode, usable from any thread.

    Parameters
    ----------
    path : Path
        The database file.
    readonly : bool
        Whether the connection only reads. Otherwise a missing file is created, and commits are
        synced to a write-ahead log.

    Raises
    ------
    Unavailable
        The file cannot be opened.
    """
    mode = "ro" if readonly else "rwc"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    try:
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=5.0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
    except sqlite3.OperationalError as error:
        detail, text = "the database cannot be opened", f"{path}: {error}"
        raise Unavailable(ProblemCode.STORAGE_FAILING, detail, text) from error
    if not readonly:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma secure_delete = on")  # what is erased leaves the file, too
        keep_log(connection, is_tight=False)
    connection.execute("pragma cache_size = -16384")
    return connection
