"""`lhb bench dropping`, `summing`: transactions of retention, and the sums of a comparison."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from benchmarks.commands.options import Database
from clients.cli.output import AsJson, show


def dropping(
    rounds: Annotated[int, typer.Option(help="Rounds of the session.", min=40_000)] = 1_000_000,
    trajectories: Annotated[
        list[int] | None,
        typer.Option(help="Numbers of trajectories; repeatable. Default: 1 and a tenth of rounds."),
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Measure the transactions that drop all rounds of a session but its latest ones.

    Example: lhb bench dropping --rounds 100000
    """
    from benchmarks.server import dropping as of_dropping

    sizes = trajectories or [1, rounds // 10]
    measured = [of_dropping.run(database, rounds, n) for n in sizes]
    show({"dropping": measured}, as_json, _table(measured))


def _table(measured: list[dict[str, Any]]) -> Iterator[str]:
    for cells in (measured[0], "-" * len(measured[0]), *(one.values() for one in measured)):
        yield f"| {' | '.join(map(str, cells))} |"


def summing(
    rounds: Annotated[
        list[int] | None, typer.Option(help="Numbers of rounds; repeatable.", min=1000)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure GET .../lift after many rounds: time and memory, once they are in the sums.

    Example: lhb bench summing --rounds 10000
    """
    from benchmarks.server import lift_sums

    measured = [lift_sums.run(n) for n in rounds or [10_000, 100_000, 1_000_000]]
    show({"summing": measured}, as_json, _table(measured))
