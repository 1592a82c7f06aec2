"""`lhb simulate`: simulated worlds, one trajectory or many users, here or against a server."""

import json
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from clients.cli.output import AsJson, show
from clients.simulation_options import TransportOptions, UserOptions, WorldOptions, parameters

DEFAULT_ALGORITHM = "anytime"


def algorithms() -> list[str]:
    """Return the names of the algorithms."""
    from lhb_engine.agents import ALGORITHMS

    return list(ALGORITHMS)


def simulate(
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Algorithm; repeatable.", autocompletion=algorithms)
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the algorithm, or algorithm.name=value for one of them."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="URL of a server to play against; default: in this process.")
    ] = None,
    clients: Annotated[
        int, typer.Option(help="With --users and --url: clients at once", min=1, max=256)
    ] = 16,
    plot: Annotated[Path | None, typer.Option(help="Write the regret curves to this PNG.")] = None,
    as_json: AsJson = False,
    **arguments: Any,
) -> None:
    """Play simulated worlds and report the regret, in process or against a server.

    Example: lhb simulate --algorithm anytime --algorithm uniform --seeds 2
    """
    from clients.simulation_report import print_table, save_plot, summary, warnings_of
    from clients.simulator import Player, SimulationSettings, simulate_all
    from clients.user_simulator import UserSettings, play_users_in_process, users_over_http
    from lhb_engine.simulation.users import Transport

    algorithms = algorithm or [DEFAULT_ALGORITHM]
    values = {name: value for name, value in arguments.items() if value is not None}
    values |= {"algorithms": tuple(algorithms), "options": read_options(option or [], algorithms)}
    player: Player | None = None
    try:
        if "users" not in values:
            _refuse_without_users(values)
            settings = SimulationSettings(**_of(WorldOptions, values))
        else:
            if values["weather"]:
                raise ValueError("--weather: worlds of users have none")
            values["transport"] = Transport(**_of(TransportOptions, values))
            settings = UserSettings(**_of(UserSettings, values))
            player = play_users_in_process if url is None else users_over_http(url, clients)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    at_once = 8 if player is None else 1
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


*_own, _ = signature(simulate).parameters.values()
_told = parameters(WorldOptions, UserOptions, TransportOptions)
vars(simulate)["__signature__"] = Signature([*_own, *_told])


def _of(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that a kind of options has a name for."""
    return {name: values[name] for name in get_type_hints(kind) if name in values}


def _refuse_without_users(values: dict[str, Any]) -> None:
    """Raise a ValueError for an option of `--users` that is not at its default."""
    for kind in (UserOptions, TransportOptions):
        for name, value in _of(kind, values).items():
            if value != getattr(kind, name):
                raise ValueError(f"--{name} needs --users")


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
