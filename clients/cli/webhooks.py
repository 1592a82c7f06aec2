"""`lhb webhooks`: URLs that a server tells of findings, alarms, failed fits and tripped guards."""

from typing import Annotated

import typer

from clients.cli.output import SERVER, AsJson, CommandGroup, Url, show, table
from clients.cli.session import asking

webhooks = typer.Typer(
    cls=CommandGroup,
    help="URLs that are told of events of sessions; with an admin's key in LHB_API_KEY.",
    no_args_is_help=True,
)
HEADS = ("id", "waiting", "given up", "next try", "last error", "url", "events")
Id = Annotated[str, typer.Argument(help="Its id, as `lhb webhooks list` shows it.")]
Event = Annotated[
    list[str] | None,
    typer.Option(help="finding, alarm, fit_failed or guard_tripped; default: all of them."),
]


@webhooks.command()
def create(
    hook: Annotated[str, typer.Argument(help="Where messages are sent to: https://...")],
    event: Event = None,
    url: Url = SERVER,
) -> None:
    """Make a webhook, and print the secret that signs its messages: it is not shown again.

    Example: lhb webhooks create https://example.com/hook --event guard_tripped
    """
    with asking(url, n_retries=0) as client:
        made = client.create_webhook(hook, event or None)
    typer.echo(f"webhook {made['id']}; its secret is shown only once:", err=True)
    typer.echo(made["secret"])


@webhooks.command("list")
def list_webhooks(url: Url = SERVER, as_json: AsJson = False) -> None:
    """List webhooks, with what waits for each and why its last attempt failed.

    Example: lhb webhooks list
    """
    with asking(url) as client:
        answers = client.webhooks()
    rows = [
        (
            *(one["id"], str(one["n_waiting"]), str(one["n_given_up"])),
            *(one["next_try_at"] or "-", one["last_error"] or "-"),
            *(one["url"], " ".join(one["events"])),
        )
        for one in answers
    ]
    show({"webhooks": answers}, as_json, table(HEADS, rows))


@webhooks.command("test")
def try_webhook(webhook: Id, url: Url = SERVER) -> None:
    """Send a message of the type "test"; `lhb webhooks list` soon says how that went.

    Example: lhb webhooks test ID
    """
    with asking(url) as client:
        client.try_webhook(webhook)


@webhooks.command()
def remove(webhook: Id, url: Url = SERVER) -> None:
    """Remove a webhook, with the messages that wait for it.

    Example: lhb webhooks remove ID
    """
    with asking(url) as client:
        client.remove_webhook(webhook)
