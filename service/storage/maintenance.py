"""`lhb migrate`, `lhb backup` and `lhb restore`: what is done to a whole database."""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from service.storage.database_url import adapter, is_sqlite
from service.storage.ports import Refused
from service.storage.schema import SCHEMA, Schema

MARK = b"\nlhb-backup sha256 "
LAST_LINE = len(MARK) + 64 + 1


def migrate(url: str, schema: Schema = SCHEMA) -> tuple[str | None, str]:
    """Run the missing revisions in one transaction; return the revisions before and after.

    That before is None for an empty database. Raises `OwnedElsewhere` while a server owns the
    SQLite file; `Refused` where the database holds tables of another program, or its schema is
    newer, or the file is no database; `Unavailable` where the database does not answer.
    """
    maintenance, place = adapter(url, "maintenance")
    return maintenance.migrate(place, schema), schema.head


class Contents(NamedTuple):
    """What a backup holds: the revision of its schema, and how many sessions."""

    schema: str
    n_sessions: int


def back_up(url: str, target: Path) -> Contents:
    """Write the committed rows of a database to a file, while servers write.

    The file holds one moment of the database. The file is read whole again before it gets its name.
    Its format is SQLite's own, or that of ``pg_dump --format=custom``, and a last line. Raises
    `Refused` where the file exists, the database is not ours or damaged, or PostgreSQL's tools are
    missing; `Unavailable` where the database does not answer.
    """
    if target.exists():
        raise Refused(f"{target} exists; a backup replaces no file")
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # for its owner alone
    try:
        maintenance, place = adapter(url, "maintenance")
        contents = Contents(*maintenance.back_up(place, part))
        with part.open("r+b") as file:
            file.write(_last_line(file, part.stat().st_size))
        _sync(part)
        part.rename(target)
        _sync(target.resolve().parent)
    finally:
        part.unlink(missing_ok=True)
    return contents


def restore(source: Path, url: str) -> Contents:
    """Fill an empty database from a backup of the same kind, whole or not at all.

    Empty is a SQLite file that is missing or empty, or a PostgreSQL database without tables. Raises
    `Refused` where it is not empty or owned by a server, the file is damaged or no backup of this
    program, or PostgreSQL's tools are missing; `Unavailable` where the database does not answer.
    """
    with source.open("rb") as file:
        begins, kind = (b"PGDMP", "PostgreSQL") if is_sqlite(url) else (b"SQLite", "SQLite")
        if file.peek(6).startswith(begins):
            raise Refused(f"{source} is a backup of {kind}; LHB_DATABASE_URL names another kind")
        line = _last_line(file, source.stat().st_size - LAST_LINE)
        ending = file.read()
        # a dump that pg_dump alone has made ends in no such line, and pg_restore checks it
        if ending != line and (is_sqlite(url) or ending.startswith(MARK)):
            raise Refused(f"{source} is damaged, or no backup: its digest does not fit")
    maintenance, place = adapter(url, "maintenance")
    return Contents(*maintenance.restore(source, place))


def _last_line(file: BinaryIO, n_bytes: int) -> bytes:
    """Read so many bytes of a file, and return the line that follows them in a backup."""
    digest = hashlib.sha256()
    while n_bytes > 0 and (chunk := file.read(min(n_bytes, 2**20))):
        digest.update(chunk)
        n_bytes -= len(chunk)
    return MARK + digest.hexdigest().encode() + b"\n"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
