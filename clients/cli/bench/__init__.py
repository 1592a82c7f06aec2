"""`lhb bench`: the measurements behind docs/performance.md and docs/anytime.md."""

import typer

from clients.cli.bench.agents import certainty, clock, coverage, decide, findings, lift
from clients.cli.bench.fits import fit
from clients.cli.bench.logs import logs
from clients.cli.bench.server import dashboard, neighbours, overload, serve, soak, start, users
from clients.cli.bench.solver import costs, solver
from clients.cli.bench.storage import dropping

bench = typer.Typer(help="Measure speed, memory and regret.", no_args_is_help=True)
for command in (
    solver,
    costs,
    fit,
    logs,
    serve,
    start,
    soak,
    neighbours,
    overload,
    users,
    dropping,
    dashboard,
    decide,
    clock,
    certainty,
    findings,
    coverage,
    lift,
):
    bench.command()(command)
