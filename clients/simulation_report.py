"""Summary, tables and plots of a simulation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from clients.simulator import Run, SimulationSettings
from lhb_engine.history import Floats

Runs = Mapping[str, Sequence[Run]]
# colours of Okabe and Ito, safe for colour-blind readers; dashes for greyscale
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


def summary(settings: SimulationSettings, runs: Runs) -> dict[str, Any]:
    """Summarise final regrets for JSON: mean, and standard error (null for one world)."""
    algorithms = {}
    for name, of_name in runs.items():
        regret = [float(run.regret[-1]) for run in of_name]
        n = len(regret)
        algorithms[name] = {
            "regret": regret,
            "mean": float(np.mean(regret)),
            "stderr": float(np.std(regret, ddof=1) / math.sqrt(n)) if n > 1 else None,
            "seconds": sum(run.seconds for run in of_name),
            "fit_seconds": sum(e.seconds for run in of_name for e in run.estimates),
        }
    return {"settings": asdict(settings), "algorithms": algorithms}


def warnings_of(runs: Runs) -> list[str]:
    """Return warnings about runs whose regret says little about the algorithm."""
    found = []
    for name, of_name in runs.items():
        statuses = [estimate.status for run in of_name for estimate in run.estimates]
        n_zero = statuses.count("zero")
        if n_zero and "ok" not in statuses:
            short = len(statuses) - n_zero
            rest = f" (and {short} fits had too little data)" if short else ""
            found.append(
                f"{name}: every estimate was zero, all {n_zero} of them{rest}, so it played "
                "uniformly; its regularisation is too strong for this world"
            )
    return found


def print_table(settings: SimulationSettings, runs: Runs, console: Console | None = None) -> None:
    """Print the final regret of each algorithm: mean and standard error over the worlds."""
    table = Table(title=f"Regret after {settings.title}")
    table.add_column("algorithm")
    for column in ("mean regret", "standard error", "smallest", "largest", "seconds a world"):
        table.add_column(column, justify="right")
    for name, row in summary(settings, runs)["algorithms"].items():
        table.add_row(
            name,
            f"{row['mean']:.1f}",
            "-" if row["stderr"] is None else f"{row['stderr']:.1f}",
            f"{min(row['regret']):.1f}",
            f"{max(row['regret']):.1f}",
            f"{row['seconds'] / settings.seeds:.2f}",
        )
    (console or Console()).print(table)


def print_lag_weights(
    true: Floats, learned: Floats, console: Console | None = None, n_most: int = 12
) -> None:
    """Print true beside learned lag weights, scaled to sum 1, at the largest lags of either."""
    padded = np.zeros(len(true))
    padded[: len(learned)] = learned[: len(true)]
    true, learned = _normalised(true), _normalised(padded)
    lags = np.sort(np.argsort(-np.maximum(true, learned), kind="stable")[:n_most])
    table = Table(title="Lag weights: which past rounds pay (shares of the whole)")
    for column in ("lag", "true", "learned", ""):
        table.add_column(column, justify="left" if column == "" else "right")
    scale = max(true.max(), learned.max(), 1e-12)
    for lag in lags:
        bar = "█" * round(24 * learned[lag] / scale)
        table.add_row(str(lag), f"{true[lag]:.3f}", f"{learned[lag]:.3f}", bar)
    off = learned[true == 0].sum()
    console = console or Console()
    console.print(table)
    console.print(f"Learned weight on lags that pay nothing, all together: {off:.3f}")


def save_plot(settings: SimulationSettings, runs: Runs, path: Path) -> None:
    """Plot mean cumulative regret with a band of one standard error, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    n_rounds = min(len(run.regret) for of_name in runs.values() for run in of_name)
    rounds = np.arange(1, n_rounds + 1)
    for i, (name, of_name) in enumerate(runs.items()):
        curves = np.array([run.regret[:n_rounds] for run in of_name])
        mean = curves.mean(axis=0)
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        axes.plot(rounds, mean, color=colour, linestyle=dash, label=name)
        if len(curves) > 1:
            error = curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
            axes.fill_between(rounds, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
    axes.set(xlabel="round", ylabel="cumulative regret", xlim=(0, n_rounds), ylim=(0, None))
    axes.set_title(settings.title, fontsize=10)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _normalised(weights: Floats) -> Floats:
    total = np.abs(weights).sum()
    return weights / total if total > 0 else weights
