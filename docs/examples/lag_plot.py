"""What every example says of what was learned, and the figure of it: earnings, and lags."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def say(features: Sequence[str], estimate: dict[str, Any]) -> None:
    """Print which form of lag profiles was found, and what each feature pays beside the others."""
    print("lag profiles decide as:", estimate["form"])
    for feature, value in zip(features, estimate["theta"], strict=True):
        print(f"{feature:>10} {value:+.2f}")


def draw(
    path: Path,
    earned: dict[str, Sequence[float]],
    learned: Sequence[float],
    true: Sequence[float],
    *,
    time: str,
    number: str,
    lag: str,
) -> None:
    """Draw earnings over time, and the learned beside the true lag weights.

    Parameters
    ----------
    path : Path
        Where the PNG goes.
    earned : dict of name to sequence of float
        A number for each step of time, for each way of choosing.
    learned, true : sequence of float
        Lag weights, from lag 0.
    time, number, lag : str
        What the axes show.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name, values in earned.items():
        left.plot(range(1, len(values) + 1), values, label=name)
    left.set(xlabel=time, ylabel=number)
    left.legend(frameon=False)
    lags = range(len(true))
    right.bar(lags, learned, color="C0", label="learned")
    right.plot(lags, true, "o", color="black", markersize=4, label="true")
    right.set(xlabel=lag, ylabel="lag weight")
    right.legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
