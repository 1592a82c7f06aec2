"""`lhb bench`: the measurements behind docs/performance.md."""

import json
from typing import Annotated, Any

import typer

bench = typer.Typer(help="Measure against the numbers to hold.", no_args_is_help=True)


@bench.command()
def solver(
    size: Annotated[
        list[str] | None, typer.Option(help="dim,lags,rows; several times. Default: four sizes.")
    ] = None,
    large: Annotated[bool, typer.Option(help="Add the two largest sizes (hours, 16 GB).")] = False,
    seeds: Annotated[int, typer.Option(min=1)] = 5,
    peer: Annotated[list[str] | None, typer.Option(help="celer, adelie, skglm.")] = None,
    peers_python: Annotated[
        str, typer.Option(help="Interpreter that has the peers: `make bench-peers`.")
    ] = ".venv-peers/bin/python",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Certified group-lasso solves against celer, adelie and skglm at an equal duality gap."""
    from clients.bench.solver import LARGE, PEERS, SIZES, run

    sizes = [_size(text) for text in size] if size else [*SIZES, *(LARGE if large else ())]
    result = run(sizes=sizes, seeds=seeds, peers=tuple(peer or PEERS), peers_python=peers_python)
    if as_json:
        typer.echo(json.dumps(result))
        return
    for measured in result["sizes"]:
        typer.echo("\n".join(_table(measured)))


@bench.command()
def serve(
    database: Annotated[
        str | None, typer.Option(help="postgresql://..., migrated. Default: a new SQLite file.")
    ] = None,
    seconds: Annotated[int, typer.Option(help="A run.", min=1)] = 5,
    pairs: Annotated[int, typer.Option(help="Runs of each variant, in turn.", min=1)] = 5,
    processes: Annotated[int, typer.Option(help="API processes, on PostgreSQL.", min=1)] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Durable decisions over HTTP: against floors, in batches, on a slow disk, beside fits.

    With --database, on that PostgreSQL against the same handler without storage.
    """
    if database is None:
        from clients.bench import serving

        measured = serving.run(seconds, pairs)
        if as_json:
            typer.echo(json.dumps(measured))
        else:
            for part in ("variants", "batches", "fits", "ratios"):
                typer.echo(f"{part}:")
                for name, value in measured[part].items():
                    typer.echo(f"  {name}: {value}")
        return
    from clients.bench.storage import run

    result = run(database, seconds, pairs, processes)
    if as_json:
        typer.echo(json.dumps(result))
        return
    names = list(result["variants"]["no storage"])
    typer.echo(f"| variant | {' | '.join(names)} | throughput / no storage |")
    typer.echo("|-" * (len(names) + 2) + "|")
    for name, found in result["variants"].items():
        ratio = result["throughput_of_no_storage"].get(name, 1.0)
        typer.echo(f"| {name} | {' | '.join(f'{found[n]:.1f}' for n in names)} | {ratio:.2f} |")


def _size(text: str) -> tuple[int, int, int]:
    try:
        dim, n_lags, n_rows = (int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not dim,lags,rows") from None
    return dim, n_lags, n_rows


def _table(measured: dict[str, Any]) -> list[str]:
    """One size in Markdown: median milliseconds, and the ratio of the best peer to ours."""
    lines = [
        f"(d, h, n) = ({measured['dim']}, {measured['n_lags']}, {measured['n_rows']})",
        "| lam / lam_max | gap | ours | celer | adelie | skglm | best peer / ours |",
        "|-|-|-|-|-|-|-|",
    ]
    for cell in measured["cells"]:
        peers = " | ".join(_milliseconds(cell["peers"].get(p, [])) for p in PEER_ORDER)
        ratio = "-" if cell["ratio"] is None else f"{cell['ratio']:.2f}"
        ours = _milliseconds(cell["ours"])
        lines.append(f"| {cell['lam']} | {cell['target']:.0e} | {ours} | {peers} | {ratio} |")
    return [*lines, ""]


PEER_ORDER = ("celer", "adelie", "skglm")


def _milliseconds(seconds: list[float | None]) -> str:
    """Median over seeds."""
    known = sorted(s for s in seconds if s is not None)
    return f"{known[len(known) // 2] * 1e3:.1f}" if known else "-"


@bench.command()
def decide(
    board: Annotated[str, typer.Option(help="main | harder | poor | all")] = "main",
    algorithm: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    world: Annotated[list[str] | None, typer.Option(help="Only these worlds.")] = None,
    seeds: Annotated[int, typer.Option(help="Worlds of each kind.", min=2)] = 20,
    first_seed: Annotated[int, typer.Option(min=0)] = 5000,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Regret against that of an oracle which knows the lag weights (docs/anytime.md)."""
    from clients.bench import decide as scoreboard

    boards = {"main": scoreboard.BOARD, "harder": scoreboard.HARDER, "poor": scoreboard.POOR}
    worlds = boards.get(board, ()) if board != "all" else sum(boards.values(), ())
    if not worlds:
        raise typer.BadParameter(f"no board {board!r}: main, harder, poor or all")
    if world:
        worlds = tuple(w for w in worlds if w.name in world)
    names = algorithm or ["anytime", "ad_lasso"]
    if not as_json:
        typer.echo(scoreboard.HEADER)
    result = scoreboard.run(
        worlds,
        names,
        range(first_seed, first_seed + seeds),
        jobs=jobs,
        progress=(lambda line: None) if as_json else typer.echo,
    )
    if as_json:
        typer.echo(json.dumps(result))
    else:
        for name in names:
            mean, most = result["mean_ratio"][name], result["max_ratio"][name]
            typer.echo(f"{name}: mean ratio {mean:.2f}, highest {most:.2f}")
