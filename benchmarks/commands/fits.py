"""`lhb bench fit`, `corrections`: what fits of `anytime` cost."""

from collections.abc import Callable
from typing import Annotated

import typer

from benchmarks.commands.options import Database, FirstSeed, numbers
from benchmarks.commands.progress import printing
from clients.cli.output import AsJson, show

SIZES_HEAD = (
    "| (h, d) | rows | whole fit, CPU s | its chains | bound | chains from rows | a row, us |\n"
    "|-|-|-|-|-|-|-|"
)
RUNS_HEAD = (
    "\n| world | seed | rounds | fits | all fits, CPU s | reading rows, CPU s |\n|-|-|-|-|-|-|"
)


def fit(
    size: Annotated[
        list[str] | None, typer.Option(help="horizon,dim,rows; several times. Default: five.")
    ] = None,
    world: Annotated[
        list[str] | None, typer.Option(help="Runs only in these worlds; none: no run.")
    ] = None,
    levels: Annotated[
        list[int] | None, typer.Option(help="Rounds of users with levels; several times.")
    ] = None,
    own: Annotated[
        list[int] | None,
        typer.Option(help="Rounds of each user with own responses; several times."),
    ] = None,
    users: Annotated[int, typer.Option(help="Users of --own.", min=100)] = 100_000,
    seeds: Annotated[int, typer.Option(help="Runs in each world.", min=1)] = 1,
    first_seed: FirstSeed = 5000,
    as_json: AsJson = False,
) -> None:
    """Time a fit from moments, beside rows, at any number of rows; and all fits of a run.

    Example: lhb bench fit --size 20,5,100000
    """
    from benchmarks import fits, level_fits, own_fits

    sizes = (
        [_size(text) for text in size] if size else [] if world or levels or own else [*fits.SIZES]
    )
    known = [w.name for w in fits.RUNS]
    wrong = [name for name in world or () if name not in [*known, "none"]]
    if wrong:
        raise typer.BadParameter(f"no such world {wrong[0]!r}: {', '.join(known)} or none")
    chosen = [w for w in fits.RUNS if (w.name in world if world else not (size or levels or own))]
    found: dict[str, list[dict[str, object]]] = {"sizes": [], "levels": [], "own": [], "runs": []}
    say: Callable[[str], None] = (lambda line: None) if as_json else typer.echo
    if sizes:
        say(SIZES_HEAD)
    for one in sizes:
        row = fits.size(*one)
        found["sizes"].append(row)
        whole, rows = ("-" if row[k] is None else f"{row[k]:.3f}" for k in ("whole", "rows"))
        say(
            f"| ({row['horizon']}, {row['dim']}) | {row['n_rows']} | {whole} | {row['fit']:.3f} | "
            f"{row['bound']} | {rows} | {row['us_a_row']:.2f} |"
        )
    if levels:
        say(level_fits.HEADER)
    for n_rounds in levels or ():
        row = level_fits.size(n_rounds, first_seed)
        found["levels"].append(row)
        low, high = row["interval"]
        say(
            f"| {n_rounds} | {row['fit']:.3f} | {row['without']:.3f} | {row['cosine']:.4f} | "
            f"{row['spread']:.3f} | {low:.3f} to {high:.3f} |"
        )
    if own:
        say(own_fits.HEADER)
    for n_rounds in own or ():
        for row in own_fits.size(n_rounds, first_seed, users):
            found["own"].append(row)
            shown = f"{row['fit']:.2f} | {row['without']:.2f} | {row['theta_ms']:.2f}"
            say(f"| {n_rounds} | {row['order']} | {shown} |")
    if chosen:
        say(RUNS_HEAD)
    for one_world in chosen:
        for seed in range(first_seed, first_seed + seeds):
            row = fits.run(one_world, seed)
            found["runs"].append(row | {"seed": seed})
            say(
                f"| {row['world']} | {seed} | {row['rounds']} | {row['n_fits']} | "
                f"{row['fits']:.2f} | {row['reading']:.2f} |"
            )
    show(found, as_json, ())


def _size(text: str) -> tuple[int, int, int, float]:
    horizon, dim, n_rows = numbers(text, "horizon,dim,rows")
    return horizon, dim, n_rows, 0.1 if horizon * dim <= 100 else 0.5


def corrections(
    rounds: Annotated[
        list[int] | None, typer.Option(help="Numbers of rounds; repeatable.", min=1000)
    ] = None,
    closing: Annotated[
        list[str] | None, typer.Option(help="asked, summed, defaulted or clock. Default: all.")
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Time the fit after a correction of an old value, or an old void, beside one without it.

    Example: lhb bench corrections --rounds 10000
    """
    from benchmarks import corrections as of_corrections

    found = []
    say = printing(of_corrections.HEADER, as_json)
    for n_rounds in rounds or [10_000, 100_000, 1_000_000]:
        for one in closing or of_corrections.CLOSINGS:
            row = of_corrections.size(one, n_rounds, database)
            found.append(row)
            say(
                f"| {one} | {n_rounds} | {row['fit']:.3f} | {row['fit_reads_ms']:.1f} | "
                f"{row['corrected']:.3f} | {row['corrected_reads_ms']:.1f} | "
                f"{row['more_ms']:.1f} | {row['void']:.3f} | {row['more_void_ms']:.1f} |"
            )
    show({"corrections": found}, as_json, ())
