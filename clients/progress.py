"""Progress bars on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

OnRound = Callable[[int], None]


def bars_of(unit: str, *, show: bool = True) -> Progress:
    """Return bars that count in this unit."""
    columns = (
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), disable=not show)


@contextmanager
def progress(show: bool) -> Iterator[Callable[[str, int], OnRound]]:
    """Yield a function that opens a bar and returns the function that advances it."""
    with bars_of("rounds", show=show) as bars:

        def track(description: str, total: int) -> OnRound:
            task = bars.add_task(description, total=total)
            return lambda n: bars.advance(task, n)

        yield track
