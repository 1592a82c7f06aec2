"""The style of all figures: colours and dashes by name, means with bands of a standard error."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from clients.experiments.framework.table import Table, mean_of
from clients.simulation_report import COLOURS, DASHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# the same algorithm has the same look in every figure
_ORDER = (
    "ad_lasso",
    "sa_gd",
    "sw_mp",
    "ucb_mp",
    "ad_lasso, paper's lambda",
    "oracle_w",
    "uniform",
)
_LIN_UCB = {
    "color": "0.45",
    "linestyle": (0, (8, 2)),
}  # the eighth colour is too light for one line


def style(name: str, place: int = 0) -> dict[str, Any]:
    """Return colour (Okabe-Ito) and dash of a line: by the algorithm's name, else by place."""
    if name == "lin_ucb":
        return _LIN_UCB
    i = _ORDER.index(name) if name in _ORDER else place
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def band(axes: "Axes", table: Table, x: str, y: str, name: str, place: int = 0) -> None:
    """Draw the mean of `y` over the seeds at every `x`, with a band of one standard error."""
    groups = sorted(table.by(x), key=lambda group: float(group[0]))
    at = np.array([float(value) for value, _ in groups])
    means = [mean_of(rows.column(y)) for _, rows in groups]
    mean = np.array([m.value for m in means])
    error = np.nan_to_num(np.array([m.error for m in means]))
    look = style(name, place)
    axes.plot(at, mean, label=name, lw=1.4, **look)
    axes.fill_between(at, mean - error, mean + error, color=look["color"], alpha=0.2, lw=0)


def panels(figure: "Figure", n: int, n_columns: int, **shared: Any) -> "list[Axes]":
    """Return `n` axes in rows of `n_columns`."""
    n_rows = -(-n // n_columns)
    grid = figure.subplots(n_rows, n_columns, squeeze=False, **shared).ravel().tolist()
    for axes in grid[n:]:
        axes.set_visible(False)
    return list(grid[:n])


def log_ticks(axes: "Axes", values: Iterable[float]) -> None:
    """Make the x axis logarithmic, with a tick at each value that was run."""
    from matplotlib.ticker import NullFormatter, NullLocator

    at = sorted(set(values))
    axes.set_xscale("log")
    axes.set_xticks(at, [f"{value:g}" for value in at])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
