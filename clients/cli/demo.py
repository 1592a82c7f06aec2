"""`lhb demo`: a server of its own, one regret experiment over HTTP, and what it learned."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

ALGORITHMS = ("anytime", "ad_lasso", "uniform", "oracle_w", "oracle")


@contextmanager
def server(database: Path) -> Iterator[str]:
    """Run `lhb serve` as a process of its own on a free port; yield its URL, stop it after."""
    environment = os.environ | {
        "LHB_DATABASE_URL": f"sqlite:///{database.resolve()}",
        "LHB_ALLOW_ORACLES": "true",
    }
    log = database.with_suffix(".log")
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", "import lhb; lhb.main()", "serve", "--port", "0"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()  # "listening on http://127.0.0.1:PORT"; empty if it died
        if "http://" not in line:
            raise SystemExit(f"the server did not start; see {log}")
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def demo(
    seeds: Annotated[int, typer.Option(help="Number of worlds.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Folder for database and plot.")] = Path("out/demo"),
) -> None:
    """Start a server, play one regret experiment against it over HTTP, show what it learned.

    Example: lhb demo --seeds 1
    """
    from rich.console import Console

    from clients.simulation_report import print_lag_weights, print_table, save_plot, warnings_of
    from clients.simulator import SimulationSettings, simulate_all

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    console = Console()
    settings = SimulationSettings(algorithms=ALGORITHMS, seeds=seeds)
    with server(out / "demo.db") as url:
        console.print(
            f"A server on embedded SQLite listens on {url}.\n"
            f"A round is one request: {settings.arms} contexts and the last reward in, "
            "the decision out\nonce both are on disk.\n"
        )
        runs = simulate_all(settings, url, show_progress=True, keep_sessions=True)
    for warning in warnings_of(runs):
        console.print(f"[yellow]warning: {warning}")
    print_table(settings, runs, console)
    first = runs[ALGORITHMS[0]][0]
    world = settings.world(first.seed)
    learned = [(e.theta, e.lag_weights) for e in first.estimates if e.theta is not None]
    if learned:
        theta, lag_weights = learned[-1]
        cosine = float(theta @ world.theta)
        console.print(
            f"\n{first.algorithm}, world {first.seed}: cos(learned theta, true) {cosine:.4f}"
        )
        print_lag_weights(world.weights, lag_weights, console)
    plot = out / "regret.png"
    save_plot(settings, runs, plot)
    console.print(f"\nRegret curves: {plot}. The server has stopped; its data is in {out}.")
