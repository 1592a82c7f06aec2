"""`lhb`: the command line, put together from its subcommands."""

import os
from pathlib import Path

import typer

from clients.cli.demo import demo
from clients.cli.evaluate import evaluate
from clients.cli.history import history
from clients.cli.keys import audit, keys
from clients.cli.operation import backup, migrate, restore, serve, settings, worker
from clients.cli.output import CommandGroup
from clients.cli.plan import plan
from clients.cli.reproduce import reproduce
from clients.cli.session import session, sessions
from clients.cli.simulate import simulate
from clients.cli.sync import sync
from clients.cli.transfer import export_session, import_session, replay
from clients.cli.webhooks import webhooks

app = typer.Typer(
    cls=CommandGroup,
    help="Long-horizon bandits as a service. `lhb --version` prints the version.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    *(serve, worker, migrate, backup, restore, plan, simulate, demo, sessions),
    *(export_session, import_session, history, sync, replay, reproduce, evaluate, settings, audit),
)
for command in COMMANDS:
    app.command(command.__name__.removesuffix("_session"))(command)
if (Path(__file__).parents[2] / "benchmarks").is_dir():  # a checkout: the wheel has no benchmarks
    from benchmarks.commands import bench

    app.add_typer(bench, name="bench")
app.add_typer(keys, name="keys")
app.add_typer(session, name="session")
app.add_typer(webhooks, name="webhooks")


def main() -> None:
    """Run the command line, with one BLAS thread: fits give the same bits everywhere."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    app(prog_name="lhb")


if __name__ == "__main__":
    main()
