"""`lhb simulate`: simulated worlds, one trajectory or many users, here or against a server."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show

DEFAULT_ALGORITHM = "anytime"


def algorithms() -> list[str]:
    """Return the names of the algorithms."""
    from lhb_engine.agents import ALGORITHMS

    return list(ALGORITHMS)


def patterns() -> list[str]:
    """Return the patterns of lag weights."""
    from lhb_engine.simulation.environment import PATTERNS

    return list(PATTERNS)


def simulate(
    context: typer.Context,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Algorithm; repeatable.", autocompletion=algorithms)
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="T: number of rounds (2000); with --users their mean number for a user (40)",
            min=1,
        ),
    ] = None,
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
    profiles: Annotated[
        str,
        typer.Option(help="shared: all features pay at the same lags; each: at lags of its own"),
    ] = "shared",
    weather: Annotated[
        float,
        typer.Option(help="Effect of a number that comes with each round, told to anytime", min=0),
    ] = 0.0,
    seeds: Annotated[int, typer.Option(help="Number of worlds.", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="Seed of the first world.", min=0)] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the algorithm, or algorithm.name=value for one of them."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="URL of a server to play against; default: in this process.")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(help="Users who come and go; one session serves them all.", min=1),
    ] = None,
    lengths: Annotated[
        str, typer.Option(help="Law of a user's rounds: fixed | geometric | uniform | pareto")
    ] = "fixed",
    arriving: Annotated[
        float, typer.Option(help="Users who arrive between two rounds of a user, on average")
    ] = 1.0,
    spread: Annotated[
        float, typer.Option(help="How far the users' thetas are apart: tangent of the angle", min=0)
    ] = 0.0,
    levels: Annotated[
        float,
        typer.Option(help="Standard deviation of the users' levels, in units of reward", min=0),
    ] = 0.0,
    groups: Annotated[
        int, typer.Option(help="Groups of users: that of a user stands before the : in keys", min=0)
    ] = 0,
    between: Annotated[
        float, typer.Option(help="How far the groups' thetas are apart, as --spread", min=0)
    ] = 0.0,
    delay: Annotated[
        float, typer.Option(help="Mean delay of a reward; 1: between two rounds of a user", min=0)
    ] = 0.0,
    lost: Annotated[
        float, typer.Option(help="Share of rewards that never come", min=0, max=1)
    ] = 0.0,
    doubled: Annotated[float, typer.Option(help="Share that come twice", min=0, max=1)] = 0.0,
    reordered: Annotated[
        float, typer.Option(help="Share that come after the one behind them", min=0, max=1)
    ] = 0.0,
    clients: Annotated[
        int, typer.Option(help="With --users and --url: clients at once", min=1, max=256)
    ] = 16,
    plot: Annotated[Path | None, typer.Option(help="Write the regret curves to this PNG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play simulated worlds and report the regret, in process or against a server.

    Example: lhb simulate --algorithm anytime --algorithm uniform --seeds 2
    """
    from clients.simulation_report import print_table, save_plot, summary, warnings_of
    from clients.simulator import Player, SimulationSettings, simulate_all
    from clients.user_simulator import UserSettings, play_users_in_process, users_over_http
    from lhb_engine.simulation.users import Transport

    algorithms = algorithm or [DEFAULT_ALGORITHM]
    values = {**context.params, "algorithms": tuple(algorithms)}
    values["options"] = read_options(option or [], algorithms)
    player: Player | None = None
    try:
        if users is None:
            _refuse_without_users(values, SimulationSettings, UserSettings, Transport)
            settings = SimulationSettings(**_of(SimulationSettings, values))
        else:
            if weather or profiles != "shared":
                raise ValueError("--weather and --profiles: worlds of users have none")
            values["transport"] = Transport(**_of(Transport, values))
            settings = UserSettings(**_of(UserSettings, values))
            player = play_users_in_process if url is None else users_over_http(url, clients)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    at_once = 8 if users is None else 1
    runs = simulate_all(
        settings, url, player=player, show_progress=not as_json, n_side_by_side=at_once
    )
    for warning in warnings_of(runs):
        typer.echo(f"warning: {warning}", err=True)
    if plot is not None:
        save_plot(settings, runs, plot)
    if not as_json:
        print_table(settings, runs)
    show(summary(settings, runs), as_json, ())


def _of(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are fields of a type of settings, and are given."""
    names = (one.name for one in fields(kind))
    return {name: values[name] for name in names if values.get(name) is not None}


def _refuse_without_users(values: dict[str, Any], world: type[Any], *others: type[Any]) -> None:
    """Raise a ValueError for an option of `--users` that is not at its default."""
    world_names = {one.name for one in fields(world)}
    for one in (one for kind in others for one in fields(kind) if one.name not in world_names):
        if values.get(one.name, one.default) not in (None, one.default):
            raise ValueError(f"--{one.name} needs --users")


def read_options(texts: list[str], algorithms: list[str]) -> dict[str, dict[str, Any]]:
    """Read `name=value` for every algorithm, `algorithm.name=value` for one; values are JSON."""
    options: dict[str, dict[str, Any]] = {name: {} for name in algorithms}
    for text in texts:
        name, value = read_option(text)
        target, dot, short = name.partition(".")
        if dot and target not in options:
            raise typer.BadParameter(f"{target!r} is not among the algorithms of this run")
        for algorithm in [target] if dot else algorithms:
            options[algorithm][short if dot else name] = value
    return options


def read_option(text: str) -> tuple[str, Any]:
    """Read `name=value`."""
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not of the form name=value")
    return name, parse(value)


def parse(value: str) -> Any:
    """Return a value that is JSON, or text."""
    try:
        return json.loads(value)
    except ValueError:
        return value
