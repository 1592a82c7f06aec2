"""Commands that run the service, and look after its database and its settings."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from clients.cli.output import WIDTH, AsJson, counted, show


def serve(
    host: Annotated[str, typer.Option(envvar="LHB_HOST", help="Address to bind.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="LHB_PORT", min=0, max=65_535, help="Port; 0 takes a free one.")
    ] = 8080,
) -> None:
    """Serve the REST API. Where the data is kept: LHB_DATABASE_URL (sqlite:///lhb.db).

    Example: lhb serve --port 8081
    """
    from service.base.server_settings import read_settings
    from service.operation.server import run

    run(host, port, read_settings())


def worker() -> None:
    """Fit what is due in the PostgreSQL database of LHB_DATABASE_URL; any number may run.

    Example: LHB_DATABASE_URL=postgresql://lhb@db/lhb lhb worker
    """
    from service.base.server_settings import read_settings
    from service.operation.worker import run

    run(read_settings())


def migrate() -> None:
    """Bring the database of LHB_DATABASE_URL to the schema of this release.

    Example: lhb migrate
    """
    from service.base.server_settings import read_settings
    from service.storage.maintenance import migrate

    before, after = migrate(read_settings().database_url)
    typer.echo(f"schema {after}" + ("" if before == after else f" (was {before or 'empty'})"))


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
) -> None:
    """Write the database of LHB_DATABASE_URL to a file and check it, while servers run.

    PostgreSQL's own pg_dump and pg_restore do it there; they have to be installed.

    Example: lhb backup monday.lhb
    """
    from service.base.server_settings import read_settings
    from service.storage.maintenance import back_up

    contents = back_up(read_settings().database_url, file)
    sessions, size = counted(contents.n_sessions, "session"), counted(file.stat().st_size, "byte")
    typer.echo(f"{file}: schema {contents.schema}, {sessions}, {size}")


def restore(file: Annotated[Path, typer.Argument(help="A file of `lhb backup`.")]) -> None:
    """Fill the database of LHB_DATABASE_URL from a backup; the database must be empty.

    Example: LHB_DATABASE_URL=sqlite:///new.db lhb restore monday.lhb
    """
    from service.base.server_settings import read_settings
    from service.storage.maintenance import restore
    from service.storage.schema import SCHEMA

    contents = restore(file, read_settings().database_url)
    older = "" if contents.schema == SCHEMA.head else "; run `lhb migrate`"
    typer.echo(f"schema {contents.schema}, {counted(contents.n_sessions, 'session')}{older}")


def settings(as_json: AsJson = False) -> None:
    """List every setting: its variable, its value, its default and what it means.

    A password in a URL is not shown. A variable that is no setting is named on standard error.

    Example: LHB_FIT_WORKERS=2 lhb settings
    """
    rows = list(_settings())
    show({"settings": rows}, as_json, _lines(rows))


def _settings() -> Iterator[dict[str, Any]]:
    from service.base.server_settings import Settings, read_settings, variable_of

    values = read_settings().model_dump(mode="json")
    variables = {name.upper(): value for name, value in os.environ.items()}
    for name, field in Settings.model_fields.items():
        variable, value = variable_of(name), values[name]
        if value is None:  # the password's file, which is read into the URL
            value = variables.get(variable)
        is_text = isinstance(value, str)
        yield {
            "variable": variable,
            "value": re.sub(r"(://[^:/@]*):.*@", r"\1:***@", value) if is_text else value,
            "default": field.default,
            "is_set": variable in variables,
            "meaning": " ".join((field.description or "").split()),
        }


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "Environment variables; those that are set show their default in brackets."
    for one in rows:
        default = f"  (default: {_text(one['default'])})" if one["is_set"] else ""
        yield ""
        yield f"{one['variable']} = {_text(one['value'])}{default}"
        yield from wrap(one["meaning"], WIDTH, initial_indent="    ", subsequent_indent="    ")


def _text(value: Any) -> str:
    if value is None or value == "":
        return "(none)"
    return str(value).lower() if isinstance(value, bool) else str(value)
