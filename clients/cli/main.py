"""`lhb`: the command line. The one file that may import everything, and it does so lazily."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from clients.cli.bench import bench
from clients.cli.evaluate import evaluate
from clients.cli.keys import keys
from clients.cli.reproduce import reproduce

app = typer.Typer(
    help="Long-horizon bandits as a service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Url = Annotated[str | None, typer.Option(help="A running server; without it, in process.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def main() -> None:
    """Entry point. One BLAS thread: fits and simulations must give the same bits everywhere."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    try:
        app()
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise SystemExit(f"lhb: {reason}") from None


def _reason(error: Exception) -> str | None:
    """What is wrong around us (a file, an address, a setting, an answer), in words; None: it is a
    defect."""
    import httpx
    from pydantic import ValidationError

    from clients import ApiError

    if isinstance(error, OSError | ApiError):
        return str(error)
    if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
        return f"there is no server to talk to at that --url: {error}"
    if isinstance(error, ValidationError) and error.title == "Settings":
        found = error.errors(include_url=False)
        return "; ".join(f"{'LHB_' + str(e['loc'][0]).upper()}: {e['msg']}" for e in found)
    return None


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8080,
) -> None:
    """Serve the REST API. Where the data is kept: LHB_DATABASE_URL (sqlite:///lhb.db)."""
    from service.problems import Unavailable
    from service.server import BindRefused, run
    from service.settings import Settings
    from service.storage.ports import Refused

    try:
        run(host, port, Settings())
    except (BindRefused, Refused, Unavailable) as refused:
        raise SystemExit(f"lhb serve: {refused}") from None


@app.command()
def worker() -> None:
    """Fit what is due in the PostgreSQL database of LHB_DATABASE_URL; any number may run."""
    from service.fits.worker import run
    from service.problems import Unavailable
    from service.settings import Settings
    from service.storage.ports import Refused

    try:
        run(Settings())
    except (Refused, Unavailable) as refused:
        raise SystemExit(f"lhb worker: {refused}") from None


@app.command("migrate")
def migrate_database() -> None:
    """Bring the database of LHB_DATABASE_URL to the schema of this release."""
    from service.problems import Unavailable
    from service.settings import Settings
    from service.storage.migrate import migrate
    from service.storage.ports import Refused

    try:
        before, after = migrate(Settings().database_url)
    except (Refused, Unavailable) as refused:
        raise SystemExit(f"lhb migrate: {refused}") from None
    typer.echo(f"schema {after}" + ("" if before == after else f" (was {before or 'empty'})"))


@app.command()
def simulate(
    algorithm: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    rounds: Annotated[int, typer.Option(help="T", min=1)] = 2000,
    horizon: Annotated[int, typer.Option(help="h: number of lags", min=1)] = 100,
    dim: Annotated[int, typer.Option(help="d: numbers in a context", min=1)] = 5,
    arms: Annotated[int, typer.Option(help="K", min=1)] = 10,
    noise: Annotated[float, typer.Option(help="standard deviation", min=0)] = 0.1,
    weights: Annotated[
        str, typer.Option(help="flat | spiking | random | single | early_mass | late_mass")
    ] = "flat",
    sparsity: Annotated[int, typer.Option(help="s: nonzero lag weights", min=1)] = 5,
    seeds: Annotated[int, typer.Option(help="How many worlds.", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="Seed of the first world.", min=0)] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the algorithm, or algorithm.name=value for one of them."),
    ] = None,
    url: Url = None,
    plot: Annotated[Path | None, typer.Option(help="Write the regret curves to this PNG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play simulated worlds and report the regret, in process or against a server."""
    from clients.simulation_report import print_table, save_plot, summary, warnings_of
    from clients.simulator import SimulationSettings, simulate_all

    try:
        settings = SimulationSettings(
            algorithms=tuple(algorithm or [DEFAULT_ALGORITHM]),
            rounds=rounds,
            horizon=horizon,
            dim=dim,
            arms=arms,
            noise=noise,
            weights=weights,
            sparsity=sparsity,
            seeds=seeds,
            first_seed=first_seed,
            options=_options(option or [], algorithm or [DEFAULT_ALGORITHM]),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    runs = simulate_all(settings, url, show_progress=not as_json)
    for warning in warnings_of(runs):
        typer.echo(f"warning: {warning}", err=True)
    if plot is not None:
        save_plot(settings, runs, plot)
    if as_json:
        typer.echo(json.dumps(summary(settings, runs)))
    else:
        print_table(settings, runs)


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(help="How many worlds.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Folder for database and plot.")] = Path("out/demo"),
) -> None:
    """Start a server, play one regret experiment against it over HTTP, show what it learned."""
    from clients.cli.demo import run

    run(seeds, out)


@app.command("sessions")
def list_sessions(
    url: Annotated[str | None, typer.Option(help="Through this server.")] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Archived ones too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List sessions. Without --url, from the database of LHB_DATABASE_URL, beside its server."""
    from clients.cli.sessions import line, sessions
    from service.problems import Unavailable
    from service.storage.ports import Refused

    try:
        found = sessions(url, archived)
    except (Refused, Unavailable) as error:
        raise SystemExit(f"lhb sessions: {error}") from None
    if as_json:
        typer.echo(json.dumps({"sessions": found}))
    for session in [] if as_json else found:
        typer.echo(line(session))


@app.command("export")
def export_session(
    session: Annotated[str, typer.Argument(help="Id of the session.")],
    url: Annotated[str | None, typer.Option(help="Through this server.")] = None,
    out: Annotated[Path | None, typer.Option(help="A file; by default standard output.")] = None,
    move: Annotated[bool, typer.Option("--move", help="Archive the session: it moves.")] = False,
) -> None:
    """Write a session whole, as NDJSON. Without --url, from the database of LHB_DATABASE_URL."""
    import sys

    from clients.cli.transfer import TransferError, export_to, replacing
    from service.problems import Unavailable
    from service.storage.ports import Refused

    try:
        if out is None:
            export_to(session, sys.stdout.buffer, url, move=move)
        else:
            with replacing(out) as target:
                export_to(session, target, url, move=move)
    except (TransferError, Refused, Unavailable) as error:
        raise SystemExit(f"lhb export: {error}") from None


@app.command("import")
def import_session(
    file: Annotated[Path | None, typer.Argument(help="By default standard input.")] = None,
    url: Annotated[str | None, typer.Option(help="Through this server.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new session.")] = None,
) -> None:
    """Make a new session of an export; it goes on where the other one was. Prints its id."""
    from clients.cli.transfer import TransferError, binary_stdin, import_from
    from service.problems import Unavailable
    from service.storage.ports import Refused

    try:
        if file is None:
            session = import_from(binary_stdin(), url, name)
        else:
            with file.open("rb") as source:
                session = import_from(source, url, name)
    except (TransferError, Refused, Unavailable) as error:
        raise SystemExit(f"lhb import: {error}") from None
    typer.echo(session)


@app.command("replay")
def replay_sessions(
    sessions: Annotated[list[str] | None, typer.Argument(help="Ids; by default all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute stored decisions and estimates again, and compare. Reads beside a running server."""
    from clients.cli.replay import lines, replay
    from service.problems import Unavailable
    from service.storage.ports import Refused

    try:
        reports = replay(sessions or [])
    except (Refused, Unavailable) as error:
        raise SystemExit(f"lhb replay: {error}") from None
    typer.echo(json.dumps({"sessions": reports}) if as_json else "\n".join(lines(reports)))
    if not all(report["equal"] for report in reports):
        raise SystemExit(1)


DEFAULT_ALGORITHM = "anytime"


app.command()(reproduce)
app.command()(evaluate)
app.add_typer(bench, name="bench")
app.add_typer(keys, name="keys")


def _options(given: list[str], algorithms: list[str]) -> dict[str, dict[str, Any]]:
    """`name=value` for every algorithm named, `algorithm.name=value` for one; values as JSON."""
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


if __name__ == "__main__":
    main()
