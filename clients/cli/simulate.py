"""`lhb simulate`: simulated worlds, in process or against a server."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from clients.cli.completions import algorithms, patterns
from clients.cli.output import AsJson, show

DEFAULT_ALGORITHM = "anytime"


def simulate(
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Algorithm; repeatable.", autocompletion=algorithms)
    ] = None,
    rounds: Annotated[int, typer.Option(help="T: number of rounds", min=1)] = 2000,
    horizon: Annotated[int, typer.Option(help="h: number of lags", min=1)] = 100,
    dim: Annotated[int, typer.Option(help="d: numbers in a context", min=1)] = 5,
    arms: Annotated[int, typer.Option(help="K: number of arms", min=1)] = 10,
    noise: Annotated[float, typer.Option(help="standard deviation of the noise", min=0)] = 0.1,
    weights: Annotated[
        str,
        typer.Option(
            help="flat | spiking | random | single | early_mass | late_mass",
            autocompletion=patterns,
        ),
    ] = "flat",
    sparsity: Annotated[int, typer.Option(help="s: nonzero lag weights", min=1)] = 5,
    seeds: Annotated[int, typer.Option(help="Number of worlds.", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="Seed of the first world.", min=0)] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the algorithm, or algorithm.name=value for one of them."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="URL of a server to play against; default: in this process.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the regret curves to this PNG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play simulated worlds and report the regret, in process or against a server.

    Example: lhb simulate --algorithm anytime --algorithm uniform --seeds 2
    """
    from clients.simulation_report import print_table, save_plot, summary, warnings_of
    from clients.simulator import SimulationSettings, simulate_all

    algorithms = algorithm or [DEFAULT_ALGORITHM]
    try:
        settings = SimulationSettings(
            algorithms=tuple(algorithms),
            rounds=rounds,
            horizon=horizon,
            dim=dim,
            arms=arms,
            noise=noise,
            weights=weights,
            sparsity=sparsity,
            seeds=seeds,
            first_seed=first_seed,
            options=_options(option or [], algorithms),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    runs = simulate_all(settings, url, show_progress=not as_json)
    for warning in warnings_of(runs):
        typer.echo(f"warning: {warning}", err=True)
    if plot is not None:
        save_plot(settings, runs, plot)
    if not as_json:
        print_table(settings, runs)
    show(summary(settings, runs), as_json, ())


def _options(given: list[str], algorithms: list[str]) -> dict[str, dict[str, Any]]:
    """Read `name=value` for every algorithm, `algorithm.name=value` for one; values are JSON."""
    options: dict[str, dict[str, Any]] = {name: {} for name in algorithms}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"{text!r} is not of the form name=value")
        target, dot, short = name.partition(".")
        if dot and target not in options:
            raise typer.BadParameter(f"{target!r} is not among the algorithms of this run")
        for algorithm in [target] if dot else algorithms:
            options[algorithm][short if dot else name] = _parse(value)
    return options


def _parse(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
