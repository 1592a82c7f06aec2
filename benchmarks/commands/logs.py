"""`lhb bench logs`: what the moments of a log of many files cost, by number of workers."""

from typing import Annotated

import typer

from benchmarks.commands.progress import printing
from clients.cli.output import AsJson, show

HEAD = "| workers | seconds | rows a second | difference |\n|-|-|-|-|"


def logs(
    horizon: Annotated[int, typer.Option(help="Number of lags.", min=1)] = 100,
    dim: Annotated[int, typer.Option(help="Number of features.", min=1)] = 5,
    rows: Annotated[int, typer.Option(help="Rounds of the log.", min=100)] = 1_000_000,
    files: Annotated[int, typer.Option(help="Files of the log.", min=1)] = 16,
    workers: Annotated[
        list[int] | None,
        typer.Option(help="Processes; 0: none, read here. Repeatable. Default: 0, 1, 2."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time the moments of a folder of Parquet files, read here and by clusters of processes.

    Example: lhb bench logs --workers 0 --workers 4
    """
    from benchmarks.logs import run

    counts = [0, 1, 2] if workers is None else workers
    if min(counts) < 0:
        raise typer.BadParameter("workers: from 0 on")
    say = printing(HEAD, as_json)
    found = run(
        horizon,
        dim,
        rows,
        files,
        counts,
        lambda row: say(
            f"| {row['workers']} | {row['seconds']:.2f} | {row['rows_per_second']} | "
            f"{row['difference']:.1e} |"
        ),
    )
    show(
        {"horizon": horizon, "dim": dim, "rows": rows, "files": files, "times": found}, as_json, ()
    )
