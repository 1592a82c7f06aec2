"""`lhb keys` and `lhb audit`: by a server, or in the database of LHB_DATABASE_URL itself."""

import time
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, CommandGroup, show, table
from clients.cli.session import asking

keys = typer.Typer(
    cls=CommandGroup,
    help="API keys. Once a database has one, its servers refuse requests without a key.",
    no_args_is_help=True,
)
HEADS = ("id", "role", "made", "state", "last used", "tenant", "label")
AUDIT_HEADS = ("at", "by", "action", "subject", "tenant", "detail")
LIMIT_HEADS = ("tenant", "key", "requests_per_second", "max_sessions", "max_tenant_mb")
ALL = {"cursor": "", "limit": 1000}  # of a listing that has pages
THROUGH_SERVER = "or give --url, with an admin's key in LHB_API_KEY"
Url = Annotated[
    str | None,
    typer.Option(
        help="URL of the server to ask, with an admin's key in LHB_API_KEY; default: the database "
        "itself, which on SQLite needs its server stopped for changes."
    ),
]
KeyId = Annotated[str, typer.Argument(help="Id of the key, as `lhb keys list` shows it.")]


@keys.command()
def create(
    label: Annotated[
        str, typer.Option(help="Note on the key's use, shown by `lhb keys list`.")
    ] = "",
    role: Annotated[
        str,
        typer.Option(
            help="reader; writer: also decides, rewards, makes and deletes sessions; "
            "admin: also manages keys."
        ),
    ] = "writer",
    tenant: Annotated[
        str,
        typer.Option(
            help="Tenant that the key gives access to; default: the one used without keys."
        ),
    ] = "",
    days: Annotated[
        float | None, typer.Option(min=0.0, help="Expires after so long; default: never.")
    ] = None,
    url: Url = None,
) -> None:
    """Create a key and print it. The database keeps only its digest: it cannot be shown again.

    Example: lhb keys create --label "the shop" --days 90
    """
    from service.api.access import ROLES
    from service.commands.keys import new_key, save_key

    if "\0" in tenant + label or max(len(tenant), len(label)) > 256:
        raise typer.BadParameter("tenant and label have at most 256 characters, and no zero byte")
    if role not in ROLES:
        raise typer.BadParameter(f"a role is one of {', '.join(ROLES)}")
    seconds, now = None if days is None else days * 86_400, time.time()
    key, row = new_key(tenant, label, now, role, None if seconds is None else now + seconds)
    body = {"label": label, "role": role, "expires_in_seconds": seconds}
    body |= {"tenant": tenant} if tenant else {}
    made = _do(url, save_key(row), "POST", "/v1/keys", body)
    _show_new(made or {"id": row.id, "key": key})


@keys.command("list")
def list_keys(url: Url = None, as_json: AsJson = False) -> None:
    """List all keys, revoked ones too. Only a key's id is known, not the key.

    Example: lhb keys list
    """
    rows = _listed(url, "keys", **ALL)
    show({"keys": rows}, as_json, table(HEADS, map(_row, rows)))


@keys.command()
def rotate(
    key_id: KeyId,
    hours: Annotated[float, typer.Option(min=0.0, help="How long the old key stays valid.")] = 24.0,
    url: Url = None,
) -> None:
    """Create a key that takes the place of another, print it, and let the old one expire.

    Example: lhb keys rotate ID --hours 1
    """
    from service.commands.keys import rotate_key

    seconds, path = hours * 3600, f"/v1/keys/{key_id}/rotation"
    made = _do(url, rotate_key(key_id, seconds), "POST", path, {"overlap_seconds": seconds})
    _show_new(made if url is not None else {"id": made[1].id, "key": made[0]})


@keys.command()
def revoke(key_id: KeyId, url: Url = None) -> None:
    """Revoke a key. Through a server (--url) it is refused from then on, without a restart.

    Example: lhb keys revoke ID
    """
    from service.commands.keys import revoke_key

    _do(url, revoke_key(key_id), "DELETE", f"/v1/keys/{key_id}")


@keys.command()
def limit(
    key: Annotated[str, typer.Option(help="Id of the key; by default a tenant is limited.")] = "",
    tenant: Annotated[str, typer.Option(help="The tenant; by default that without a name.")] = "",
    requests_per_second: Annotated[float | None, typer.Option(min=0.0)] = None,
    max_sessions: Annotated[int | None, typer.Option(min=0)] = None,
    max_tenant_mb: Annotated[int | None, typer.Option(min=0)] = None,
    reset: Annotated[bool, typer.Option(help="All others are the settings' again.")] = False,
    url: Url = None,
) -> None:
    """Limit a tenant or a key; 0: unlimited. Limits that are not given stay.

    Example: lhb keys limit --tenant north --max-sessions 100
    """
    from service.commands.keys import set_limit

    changed: dict[str, Any] = {"requests_per_second": requests_per_second}
    if not key:
        changed |= {"max_sessions": max_sessions, "max_tenant_mb": max_tenant_mb}
    changed = {name: value for name, value in changed.items() if reset or value is not None}
    whose = {"key_id": key} if key else {"tenant": tenant}
    _do(url, set_limit(tenant, key, changed), "PATCH", "/v1/limits", {**whose, **changed})


@keys.command()
def limits(url: Url = None, as_json: AsJson = False) -> None:
    """List the limits that tenants and keys have of their own.

    Example: lhb keys limits
    """
    rows = _listed(url, "limits")
    shown = [["-" if value in (None, "") else str(value) for value in row.values()] for row in rows]
    show({"limits": rows}, as_json, table(LIMIT_HEADS, shown))


def audit(url: Url = None, as_json: AsJson = False) -> None:
    """List who changed keys and sessions, oldest first.

    Example: lhb audit --json
    """
    rows = _listed(url, "audit", **ALL)
    show({"entries": rows}, as_json, table(AUDIT_HEADS, map(_audit_row, rows)))


def _do(url: str | None, command: Any, method: str, path: str, body: Any = None) -> Any:
    """Ask a server, once: a repeated creation would make another key; or run the command here."""
    if url is None:
        from service.base.server_settings import read_settings
        from service.transfer.without_server import run

        return run(read_settings().database_url, command, THROUGH_SERVER)
    with asking(url, n_retries=0) as client:
        return client.request(method, path, **({} if body is None else {"json": body}))


def _page(client: Any, path: str, **params: Any) -> Any:
    return client.request("GET", path, params=params)


def _listed(url: str | None, name: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return the items of a listing: of a server, or as one would answer from the database."""
    with ExitStack() as held:
        if url is None:
            from service.api import keys as listings
            from service.base.server_settings import read_settings
            from service.storage.database_url import open_reader

            reader = held.enter_context(open_reader(read_settings().database_url))
            read = partial(getattr(listings, f"get_{name}"), reader, "")
        else:
            read = partial(_page, held.enter_context(asking(url)), f"/v1/{name}")
        items: list[dict[str, Any]] = []
        while True:
            page = read(**parameters)
            items += page["items"]
            if page["next"] is None:
                return items
            parameters["cursor"] = page["next"]


def _show_new(made: dict[str, Any]) -> None:
    typer.echo(f"key {made['id']}; it is shown only once:", err=True)
    typer.echo(made["key"])


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    expires = key["expires_at"]
    if key["revoked_at"]:
        state = f"revoked {_short(key['revoked_at'])}"
    elif expires and expires <= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()):
        state = f"expired {_short(expires)}"
    else:
        state = f"until {_short(expires)}" if expires else "in use"
    used, made = _short(key["last_used_at"]), _short(key["created_at"])
    return key["id"], key["role"], made, state, used, key["tenant"] or "-", key["label"]


def _audit_row(entry: dict[str, Any]) -> tuple[str, ...]:
    about = ", ".join(f"{name} {value}" for name, value in entry["detail"].items() if value)
    who, tenant = entry["actor"] or "-", entry["tenant"] or "-"
    return _short(entry["at"]), who, entry["action"], entry["subject"], tenant, about


def _short(at: str | None) -> str:
    """Show a timestamp to the minute."""
    return "-" if at is None else f"{at[:10]} {at[11:16]}"
