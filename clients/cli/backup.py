"""`lhb backup` and `lhb restore`: a whole database as a file."""

from pathlib import Path
from typing import Annotated

import typer


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
) -> None:
    """Write the database of LHB_DATABASE_URL to a file and check it, while servers run.

    PostgreSQL's own pg_dump and pg_restore do it there; they have to be installed.

    Example: lhb backup monday.lhb
    """
    from service.base.settings import read_settings
    from service.storage.backup import back_up

    found = back_up(read_settings().database_url, file)
    n_bytes = file.stat().st_size
    typer.echo(f"{file}: schema {found.schema}, {found.n_sessions} sessions, {n_bytes} bytes")


def restore(
    file: Annotated[Path, typer.Argument(help="A file of `lhb backup`.")],
) -> None:
    """Fill the database of LHB_DATABASE_URL from a backup. It has to be empty.

    Example: LHB_DATABASE_URL=sqlite:///new.db lhb restore monday.lhb
    """
    from service.base.settings import read_settings
    from service.storage.backup import restore
    from service.storage.schema import SCHEMA

    found = restore(file, read_settings().database_url)
    older = "" if found.schema == SCHEMA.head else "; run `lhb migrate`"
    typer.echo(f"schema {found.schema}, {found.n_sessions} sessions{older}")
