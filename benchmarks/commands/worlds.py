"""`lhb bench worlds`: worlds that nobody here wrote."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.options import FirstSeed


def worlds(
    package: Annotated[
        list[str] | None, typer.Option(help="Only the world of this package; repeatable.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of worlds of each kind.", min=2)] = 10,
    first_seed: FirstSeed = 20,
    page: Annotated[Path | None, typer.Option(help="Write the page of results here.")] = None,
) -> None:
    """Play worlds that nobody here wrote, beside what others reach in them.

    A world whose package is not installed is skipped, and named.

    Example: lhb bench worlds --package RecSim --seeds 2
    """
    from benchmarks.other_worlds.page import OTHERS
    from benchmarks.other_worlds.page import page as written

    known = [world.package for world in OTHERS]
    if unknown := set(package or ()) - set(known):
        raise typer.BadParameter(f"no package {sorted(unknown)}: {', '.join(known)}")
    text = written(range(first_seed, first_seed + seeds), package or [], typer.echo)
    if page is not None:
        page.write_text(text, "utf-8")
