"""`lhb backup` and `lhb restore`: a whole database as a file."""

from pathlib import Path
from typing import Annotated

import typer

from clients.cli.output import counted


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
) -> None:
    """Write the database of LHB_DATABASE_URL to a file and check it, while servers run.

    PostgreSQL's own pg_dump and pg_restore do it there; they have to be installed.

    Example: lhb backup monday.lhb
    """
    from service.base.settings import read_settings
    from service.storage.backup import back_up

    contents = back_up(read_settings().database_url, file)
    sessions, size = counted(contents.n_sessions, "session"), counted(file.stat().st_size, "byte")
    typer.echo(f"{file}: schema {contents.schema}, {sessions}, {size}")


def restore(
    file: Annotated[Path, typer.Argument(help="A file of `lhb backup`.")],
) -> None:
    """Fill the database of LHB_DATABASE_URL from a backup. It has to be empty.

    Example: LHB_DATABASE_URL=sqlite:///new.db lhb restore monday.lhb
    """
    from service.base.settings import read_settings
    from service.storage.backup import restore
    from service.storage.schema import SCHEMA

    contents = restore(file, read_settings().database_url)
    older = "" if contents.schema == SCHEMA.head else "; run `lhb migrate`"
    typer.echo(f"schema {contents.schema}, {counted(contents.n_sessions, 'session')}{older}")
