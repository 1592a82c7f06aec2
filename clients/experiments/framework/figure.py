"""The figure of an experiment, with its settings, seeds and bands below it."""

import textwrap
from io import BytesIO
from pathlib import Path

from clients.experiments.framework.experiment import Experiment, Scale
from clients.experiments.framework.table import Table

DPI = 90  # low, since the pictures are committed


def draw_figure(
    experiment: Experiment, table: Table, path: Path, scale: Scale, dpi: int = DPI
) -> None:
    """Draw one experiment's figure as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    with plt.rc_context({"font.size": 8, "axes.grid": True, "grid.alpha": 0.25}):
        width, height = experiment.figure_size
        lines = textwrap.wrap(caption(experiment, table, scale), round(15 * width))
        below = 0.15 * len(lines) + 0.05  # inches
        figure = plt.figure(figsize=(width, height + below))
        bottom = below / (height + below)
        figure.set_layout_engine("constrained", rect=(0, bottom, 1, 1 - bottom))
        experiment.draw(table, figure)
        figure.text(0.5, 0.03 / (height + below), "\n".join(lines), ha="center", fontsize=7.5)
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = BytesIO()
        figure.savefig(picture, dpi=dpi)
        plt.close(figure)
    # a palette looks the same at a third of the size
    Image.open(picture).convert("RGB").quantize(64).save(path, optimize=True)


def caption(experiment: Experiment, table: Table, scale: Scale) -> str:
    """Return the caption of a figure: settings, seeds, and the meaning of its bands."""
    text = experiment.choices
    if "regret" in table[0]:  # played, in worlds with arms and noise
        text += "" if "K=" in text else f"; K={scale.arms}"
        text += "" if "noise" in text else f"; noise sd {scale.noise:g}"
    return f"{text}. {_seeds(table)} seeds; {experiment.bands}."


def _seeds(table: Table) -> str:
    """Return the number of seeds, or the fewest and the most of any series."""
    series = [rows for _, rows in table.by("label")] if "label" in table[0] else [table]
    if "panel" in table[0]:
        series = [rows for each in series for _, rows in each.by("panel")]
    counts = [len(rows.values("seed")) for rows in series]
    return f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
