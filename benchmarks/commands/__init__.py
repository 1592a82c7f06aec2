"""`lhb bench`: the measurements behind docs/performance.md and docs/anytime.md."""

import typer

from benchmarks.commands.agents import (
    certainty,
    clock,
    coverage,
    decide,
    findings,
    gain,
    lift,
    oralytics,
    responses,
)
from benchmarks.commands.fits import corrections, fit
from benchmarks.commands.logs import logs
from benchmarks.commands.server import (
    dashboard,
    fleet,
    instructions,
    neighbours,
    overload,
    serve,
    soak,
    start,
    users,
)
from benchmarks.commands.solver import costs, solver
from benchmarks.commands.storage import dropping, summing
from benchmarks.commands.worlds import worlds

bench = typer.Typer(help="Measure speed, memory and regret.", no_args_is_help=True)
for command in (
    solver,
    costs,
    fit,
    corrections,
    logs,
    serve,
    instructions,
    start,
    soak,
    neighbours,
    overload,
    users,
    dropping,
    summing,
    dashboard,
    fleet,
    decide,
    clock,
    certainty,
    findings,
    gain,
    coverage,
    lift,
    oralytics,
    responses,
    worlds,
):
    bench.command()(command)
