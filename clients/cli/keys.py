"""`lhb keys`: the API keys in the database of LHB_DATABASE_URL."""

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show, table
from clients.cli.refusals import CommandGroup

keys = typer.Typer(
    cls=CommandGroup,
    help="API keys. Once a database has one, its servers refuse requests without a key.",
    no_args_is_help=True,
)
HEADS = ("id", "made", "state", "tenant", "label")
WHILE_SERVED = "a server on SQLite reads its keys when it starts, one on PostgreSQL as they change"


@keys.command()
def create(
    label: Annotated[
        str, typer.Option(help="Note on the key's use, shown by `lhb keys list`.")
    ] = "",
    tenant: Annotated[
        str,
        typer.Option(
            help="Tenant that the key gives access to; default: the one used without keys."
        ),
    ] = "",
) -> None:
    """Create a key and print it. The database keeps only its digest: it cannot be shown again.

    Example: lhb keys create --label "the shop"
    """
    from service.web.api_keys import SaveKey, new_key
    from service.without_server import run

    if "\0" in tenant + label or max(len(tenant), len(label)) > 256:
        raise typer.BadParameter("tenant and label have at most 256 characters, and no zero byte")
    key, row = new_key(tenant, label, time.time())
    run(_url(), SaveKey(row), WHILE_SERVED)
    typer.echo(f"key {row.id}; it is shown only once:", err=True)
    typer.echo(key)


@keys.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List all keys, revoked ones too. Only a key's id is known, not the key.

    Example: lhb keys list
    """
    rows = [_shown(key) for key in _read()]
    show({"keys": rows}, as_json, table(HEADS, map(_row, rows)))


@keys.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, as `lhb keys list` shows it.")],
) -> None:
    """Revoke a key.

    Example: lhb keys revoke ID
    """
    from service.web.api_keys import SaveKey, revoked
    from service.without_server import run

    run(_url(), SaveKey(revoked(_read(), key_id, time.time())), WHILE_SERVED)


def _read() -> list[Any]:
    from service.storage.database_url import open_reader

    with open_reader(_url()) as reader:
        return reader.api_keys()


def _shown(key: Any) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "label": key.label,
        "created_at": _time(key.created_at),
        "revoked_at": None if key.revoked_at is None else _time(key.revoked_at),
    }


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    state = f"revoked {key['revoked_at']}" if key["revoked_at"] else "in use"
    return key["id"], key["created_at"], state, key["tenant"] or "-", key["label"]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _url() -> str:
    from service.settings import read_settings

    return read_settings().database_url
