"""`lhb reproduce`: run the paper's experiments, draw their figures, write the report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clients.experiments import EXPERIMENTS, load_experiment

if TYPE_CHECKING:
    from rich.progress import TaskID

    from clients.experiments.framework.experiment import Scale
    from clients.experiments.framework.sweep import Workers

QUICK_SEEDS = 2
NAMES = f"all | {' | '.join(EXPERIMENTS)}; or plot NAME ..., or report"


def experiments() -> list[str]:
    """Return what `lhb reproduce` takes."""
    return ["all", "plot", "report", *EXPERIMENTS]


def reproduce(
    names: Annotated[list[str], typer.Argument(help=NAMES, autocompletion=experiments)],
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Play worlds 0 to seeds - 1. Default: as many as the rules ask for.", min=1
        ),
    ] = None,
    quick: Annotated[bool, typer.Option(help=f"{QUICK_SEEDS} seeds; nothing is judged.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes; -1: all cores.")] = -1,
    url: Annotated[
        str | None, typer.Option(help="URL of a server to play against; default: in this process.")
    ] = None,
    noise: Annotated[float, typer.Option(help="Standard deviation of the noise.", min=0)] = 0.1,
    arms: Annotated[int, typer.Option(help="K: number of arms.", min=2)] = 10,
    sensitivity: Annotated[
        bool,
        typer.Option(help="Repeat with noise from 0.05 to 1 and K from 3 to 30, one at a time."),
    ] = False,
    backend: Annotated[str, typer.Option(help="loky (this machine) or dask")] = "loky",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of dask's scheduler, tcp://host:port.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for CSV, JSON and figures.")] = Path(
        "out/reproduce"
    ),
    docs: Annotated[Path, typer.Option(help="File that `report` writes.")] = Path(
        "docs/results.md"
    ),
    toy: Annotated[bool, typer.Option(help="Use tiny sizes, to check that it runs.")] = False,
    fresh: Annotated[bool, typer.Option(help="Run finished cases again.")] = False,
) -> None:
    """Run experiments of the paper (resumably), draw their figures, or write docs/results.md.

    A stopped run goes on where it was. `plot` reads the CSVs alone. `report`
    takes up the runs that --out has, each into its record beside the report,
    and writes the report from all records. Verdicts follow from the rules in
    docs/claims.toml, and need as many seeds as a rule says.

    Example: lhb reproduce recovery --quick
    """
    from clients.experiments.framework.experiment import Scale
    from clients.experiments.framework.sweep import Workers

    if quick and seeds is None:
        seeds = QUICK_SEEDS
    scale = Scale(seeds or 0, noise, arms, toy)
    if backend not in ("loky", "dask"):
        raise typer.BadParameter("backend: loky or dask")
    if names == ["report"]:
        _report(out, docs, scale)
    elif names[0] == "plot":
        _plot(_known(names[1:]), out, scale)
    else:
        workers = Workers(jobs, backend, scheduler, url)
        _run(_known(names), scale, out, workers, sensitivity=sensitivity, fresh=fresh)


def _known(names: list[str]) -> list[str]:
    if names == ["all"]:
        return list(EXPERIMENTS)
    for name in names:
        if name not in EXPERIMENTS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(EXPERIMENTS)}")
    return names


def _run(
    names: list[str],
    scale: "Scale",
    out: Path,
    workers: "Workers",
    *,
    sensitivity: bool,
    fresh: bool,
) -> None:
    from clients.experiments.framework.claims import load_rulebook
    from clients.experiments.framework.figure import draw_figure
    from clients.experiments.framework.report import sensitivity_scales, spent
    from clients.experiments.framework.sweep import csv_path, run_sweep
    from clients.progress import bars_of

    rulebook = load_rulebook()
    cpu_seconds = 0.0
    with bars_of("cases") as bars:
        for name in names:
            experiment = load_experiment(name)
            wider = sensitivity and experiment.varies
            of_rules = replace(scale, seeds=scale.seeds or rulebook.seeds(name))
            for each in sensitivity_scales(of_rules) if wider else [of_rules]:
                task = bars.add_task(f"{name}{each.suffix}", total=None)

                def on_case(done: int, total: int, task: "TaskID" = task) -> None:
                    bars.update(task, completed=done, total=total)

                table = run_sweep(experiment, each, out, workers, on_case, fresh=fresh)
                path = csv_path(out, name, each)
                draw_figure(experiment, table, path.with_suffix(".png"), each, dpi=150)
                typer.echo(str(path))
                for verdict in experiment.judge(table, rulebook):
                    typer.echo(f"  {verdict}: {verdict.rule.id}, {verdict.rule.title}")
                    for setting, interval in verdict.intervals.items():
                        typer.echo(f"    {setting}: {interval}, {verdict.parts[setting]}")
                about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
                cpu_seconds += about["cpu_seconds"]
                typer.echo(f"  {spent(about['cpu_seconds'])}")
    typer.echo(f"in all: {spent(cpu_seconds)}")


def _plot(names: list[str], out: Path, scale: "Scale") -> None:
    from clients.experiments.framework.figure import draw_figure
    from clients.experiments.framework.sweep import csv_path
    from clients.experiments.framework.table import Table

    for name in names:
        path = csv_path(out, name, scale)
        if not path.exists():
            raise typer.BadParameter(f"{path} does not exist: run `lhb reproduce {name}` first")
        picture = path.with_suffix(".png")
        draw_figure(load_experiment(name), Table.read(path), picture, scale, dpi=150)
        typer.echo(str(picture))


def _report(out: Path, docs: Path, scale: "Scale") -> None:
    from clients.experiments.framework.report import write_report

    for warning in write_report(out, docs, scale):
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(str(docs))
