"""`lhb bench`: the measurements behind docs/performance.md."""

from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show

bench = typer.Typer(help="Measure against the numbers to hold.", no_args_is_help=True)


@bench.command()
def solver(
    size: Annotated[
        list[str] | None, typer.Option(help="dim,lags,rows; several times. Default: four sizes.")
    ] = None,
    large: Annotated[bool, typer.Option(help="Add the two largest sizes (hours, 16 GB).")] = False,
    seeds: Annotated[int, typer.Option(min=1)] = 5,
    first_seed: Annotated[int, typer.Option(min=0)] = 1000,
    lam: Annotated[
        list[str] | None, typer.Option(help="0.5, 0.1, 0.02 of lambda_max, or path.")
    ] = None,
    gap: Annotated[list[float] | None, typer.Option(help="Target gaps: 1e-4, 1e-6.")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="celer, adelie, skglm.")] = None,
    peers_python: Annotated[
        str, typer.Option(help="Interpreter that has the peers: `make bench-peers`.")
    ] = ".venv-peers/bin/python",
    limit: Annotated[float, typer.Option(help="Seconds a peer has for one solve.")] = 60.0,
    save: Annotated[
        Path | None, typer.Option(help="Keep what is measured there, and go on from it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time group-lasso solves against celer, adelie and skglm at an equal duality gap."""
    from clients.bench.solver.against_peers import GAPS, LAMS, LARGE, PEERS, SIZES, run

    result = run(
        sizes=[_size(text) for text in size] if size else [*SIZES, *(LARGE if large else ())],
        seeds=seeds,
        first_seed=first_seed,
        lams=lam or LAMS,
        gaps=gap or GAPS,
        peers=peer or PEERS,
        peers_python=peers_python,
        limit=limit,
        save=save,
    )
    show(result, as_json, (line for size in result["sizes"] for line in _sizes_table(size, limit)))


@bench.command()
def serve(
    database: Annotated[
        str | None, typer.Option(help="postgresql://..., migrated. Default: a new SQLite file.")
    ] = None,
    seconds: Annotated[int, typer.Option(help="A run.", min=1)] = 5,
    pairs: Annotated[int, typer.Option(help="Runs of each variant, in turn.", min=1)] = 5,
    fit_pairs: Annotated[int, typer.Option(help="Pairs with and without a fit.", min=1)] = 10,
    processes: Annotated[int, typer.Option(help="API processes, on PostgreSQL.", min=1)] = 2,
    as_json: AsJson = False,
) -> None:
    """Measure durable decisions over HTTP: against floors, in batches, on a slow disk, beside fits.

    With --database, on that PostgreSQL against the same handler without storage.
    """
    if database is None:
        from clients.bench.server import serving

        measured = serving.run(seconds, pairs, fit_pairs)
        show(measured, as_json, _serving_lines(measured))
    else:
        from clients.bench.server import storage

        measured = storage.run(database, seconds, pairs, processes)
        show(measured, as_json, _storage_table(measured))


def _serving_lines(measured: dict[str, Any]) -> Iterator[str]:
    for part in ("variants", "batches", "fits", "ratios"):
        yield f"{part}:"
        yield from (f"  {name}: {value}" for name, value in measured[part].items())


def _storage_table(measured: dict[str, Any]) -> Iterator[str]:
    names = list(measured["variants"]["no storage"])
    yield f"| variant | {' | '.join(names)} | throughput / no storage |"
    yield "|-" * (len(names) + 2) + "|"
    for name, found in measured["variants"].items():
        ratio = measured["throughput_of_no_storage"].get(name, 1.0)
        yield f"| {name} | {' | '.join(f'{found[n]:.1f}' for n in names)} | {ratio:.2f} |"


@bench.command()
def start(
    runs: Annotated[int, typer.Option(help="Starts of a server.", min=1)] = 5,
    sessions: Annotated[int, typer.Option(help="Sessions in the database.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a start: time to the first durable decision, memory, latency of one client."""
    from clients.bench.server import starting

    measured = starting.run(runs, sessions)
    show(measured, as_json, _fields(measured))


@bench.command()
def soak(
    minutes: Annotated[float, typer.Option(help="How long.", min=0.1)] = 10.0,
    rate: Annotated[float, typer.Option(help="Rounds a second.", min=1)] = 200.0,
    as_json: AsJson = False,
) -> None:
    """Measure the memory of a server under sustained load: decisions, rewards, fits."""
    from clients.bench.server import soaking

    measured = soaking.run(minutes, rate)
    show(measured, as_json, _fields(measured))


def _fields(measured: dict[str, Any]) -> Iterator[str]:
    return (f"{name}: {value}" for name, value in measured.items())


def _size(text: str) -> tuple[int, int, int]:
    try:
        dim, n_lags, n_rows = (int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not dim,lags,rows") from None
    return dim, n_lags, n_rows


def _sizes_table(measured: dict[str, Any], limit: float) -> list[str]:
    """Format one size in Markdown: median milliseconds, and the ratio of the best peer to ours."""
    cells = measured["cells"]
    peers = list(cells[0]["peers"])
    ratios = [cell["ratio"] for cell in cells if cell["ratio"] is not None]
    mean = f"{exp(sum(map(log, ratios)) / len(ratios)):.2f}" if ratios else "-"
    lines = [
        f"(d, h, n) = ({measured['dim']}, {measured['n_lags']}, {measured['n_rows']}): "
        f"geometric mean over cells {mean}",
        f"| lam / lam_max | gap | ours | {' | '.join(peers)} | best peer / ours | least seed |",
        "|-" * (len(peers) + 5) + "|",
    ]
    for cell in cells:
        row = [cell["lam"], f"{cell['target']:.0e}", _milliseconds(cell["ours"])]
        row += [_milliseconds(cell["peers"][p], cell["outcomes"][p], limit) for p in peers]
        row += [f"{cell['ratio']:.2f}", f"{min(cell['ratios']):.2f}"] if cell["ratios"] else []
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _milliseconds(
    seconds: list[float | None], outcomes: Sequence[str] = (), limit: float = 0.0
) -> str:
    """Format the median over seeds, and how many seeds did not finish, by reason."""
    known = [s for s in seconds if s is not None]
    said = [f"{median(known) * 1e3:.1f}"] if known else []
    why = {"late": f"not in {limit:.0f} s", "missed": "gap not met", "failed": "failed"}
    for outcome, text in why.items():
        n = list(outcomes).count(outcome)
        said += [text if n == len(outcomes) else f"{n} {text}"] if n else []
    return ", ".join(said)


@bench.command()
def decide(
    board: Annotated[str, typer.Option(help="main | harder | life | dense | poor | all")] = "main",
    algorithm: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(help="anytime with other settings beside it: lapse=inf,sure_sign=0.8."),
    ] = None,
    world: Annotated[list[str] | None, typer.Option(help="Only these worlds.")] = None,
    seeds: Annotated[int, typer.Option(help="Worlds of each kind.", min=2)] = 20,
    first_seed: Annotated[int, typer.Option(min=0)] = 5000,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure regret against that of an oracle which knows the lag weights (docs/anytime.md)."""
    from clients.bench import regret_scoreboard as scoreboard
    from lhb_engine.posterior.settings import AnytimeSettings

    boards = {
        "main": scoreboard.BOARD,
        "harder": scoreboard.HARDER,
        "life": scoreboard.LIFE,
        "dense": scoreboard.DENSE,
        "poor": scoreboard.POOR,
    }
    worlds = boards.get(board, ()) if board != "all" else sum(boards.values(), ())
    if not worlds:
        raise typer.BadParameter(f"no board {board!r}: main, harder, life, dense, poor or all")
    if world:
        worlds = tuple(w for w in worlds if w.name in world)
    names = algorithm or (["anytime"] if variant else ["anytime", "ad_lasso"])
    for text in variant or ():
        try:
            AnytimeSettings().changed(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        names.append(f"anytime {text}")
    if not as_json:
        typer.echo(scoreboard.HEADER)
    result = scoreboard.run(
        worlds,
        names,
        range(first_seed, first_seed + seeds),
        jobs=jobs,
        progress=(lambda line: None) if as_json else typer.echo,
    )
    show(result, as_json, _board_lines(result, names))


def _board_lines(result: dict[str, Any], names: list[str]) -> Iterator[str]:
    for name in names:
        mean, most = result["mean_ratio"][name], result["max_ratio"][name]
        yield f"{name}: mean ratio {mean:.2f}, highest {most:.2f}"
    for row in result["board"]:
        for name, found in row["algorithms"].items():
            if "less_anytime" in found:
                less, by = found["less_anytime"]
                yield f"{row['world']}: {name} less anytime {less:+.1f} ± {by:.1f}"


@bench.command()
def certainty(
    world: Annotated[list[str] | None, typer.Option(help="Only these worlds.")] = None,
    seeds: Annotated[int, typer.Option(help="Worlds of each kind.", min=1)] = 10,
    first_seed: Annotated[int, typer.Option(min=0)] = 5000,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Whether the angle that anytime says holds, and how often it raises an alarm."""
    from clients.bench import certainty as table

    worlds = [w for w in table.WORLDS if not world or w.name in world]
    if not worlds:
        raise typer.BadParameter(f"no such world; there are {[w.name for w in table.WORLDS]}")
    if not as_json:
        typer.echo(table.HEADER)
    progress = (lambda line: None) if as_json else typer.echo
    rows = table.run(worlds, range(first_seed, first_seed + seeds), jobs=jobs, progress=progress)
    show({"worlds": rows}, as_json, ())


@bench.command()
def costs(as_json: AsJson = False) -> None:
    """Measure the solver's memory, the cost of incomplete rewards, and the parts of a solve."""
    from clients.bench.solver.costs import run

    result = run()
    show(result, as_json, _costs_tables(result))


def _costs_tables(result: dict[str, Any]) -> Iterator[str]:
    yield "| (d, h, n), lam / lam_max | active lags | above imports | CPU s |\n|-|-|-|-|"
    for row in result["memory"]:
        memory, name = f"{row['above_imports_mb']:.0f} MB", f"{tuple(row['size'])}, {row['lam']}"
        yield f"| {name} | {row['n_active']} | {memory} | {row['seconds']:.2f} |"
    yield "\n| rows | operator | whole solve |\n|-|-|-|"
    for row in result["incomplete"]:
        yield f"| {row['rows']} | {row['operator']:.2f} | {row['solve']:.2f} |"
    parts = list(result["profile"][0]["shares"])
    named = " | ".join(part.replace("_", " ") for part in parts)
    yield f"\n| (d, h, n), lam / lam_max | ms | passes | X v, ms | {named} |"
    yield "|-" * (len(parts) + 4) + "|"
    for row in result["profile"]:
        shares = " | ".join(f"{row['shares'][part]:.0%}" for part in parts)
        name = f"{tuple(row['size'])}, {row['lam']}"
        ms = f"{row['ms']:.1f} | {row['n_iterations']} | {row['matvec_ms']:.2f}"
        yield f"| {name} | {ms} | {shares} |"


@bench.command()
def coverage(
    logs: Annotated[int, typer.Option(help="Logs of each case.", min=1)] = 200,
    rounds: Annotated[int, typer.Option(help="Rounds of a log.", min=100)] = 2000,
    case: Annotated[list[str] | None, typer.Option(help="Only cases that contain this.")] = None,
    as_json: AsJson = False,
) -> None:
    """How often the 95% value intervals of `lhb evaluate` hold the true value."""
    from clients.bench.coverage import HEADER, run

    if not as_json:
        typer.echo(HEADER)
    rows = run(logs, rounds, case or (), (lambda line: None) if as_json else typer.echo)
    show({"logs": logs, "rounds": rounds, "cases": rows}, as_json, ())
