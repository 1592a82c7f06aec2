"""`lhb bench solver` and `costs`: the group lasso's speed, memory and parts."""

from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks.commands.options import FirstSeed, numbers
from clients.cli.output import AsJson, show


def solver(
    size: Annotated[
        list[str] | None,
        typer.Option(help="Problem size dim,lags,rows; repeatable. Default: four sizes."),
    ] = None,
    large: Annotated[bool, typer.Option(help="Add the two largest sizes (hours, 16 GB).")] = False,
    seeds: Annotated[int, typer.Option(min=1)] = 5,
    first_seed: FirstSeed = 1000,
    lam: Annotated[
        list[str] | None,
        typer.Option(help="Fraction of lambda_max (0.5, 0.1, 0.02), or path; repeatable."),
    ] = None,
    gap: Annotated[
        list[float] | None, typer.Option(help="Target duality gap, like 1e-4; repeatable.")
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="celer, adelie or skglm; repeatable.")
    ] = None,
    peers_python: Annotated[
        str, typer.Option(help="Python interpreter that has the peers (`make bench-peers`).")
    ] = ".venv-peers/bin/python",
    limit: Annotated[
        float, typer.Option(help="Time limit of a peer for one solve, in seconds.")
    ] = 60.0,
    save: Annotated[
        Path | None, typer.Option(help="File for the results; measured cells are not repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time group-lasso solves against celer, adelie and skglm at an equal duality gap.

    Example: lhb bench solver
    """
    from benchmarks.solver.against_peers import GAPS, LAMS, LARGE, PEERS, SIZES, run

    asked = [numbers(text, "dim,lags,rows") for text in size or ()]
    result = run(
        sizes=asked or [*SIZES, *(LARGE if large else ())],
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


def costs(as_json: AsJson = False) -> None:
    """Measure the solver's memory, the cost of incomplete rewards, and the parts of a solve.

    Example: lhb bench costs
    """
    from benchmarks.solver.costs import run

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
