"""Gaussian circulants stretch some rank-one matrix out of all bounds (Lemma norip)."""

import math
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.plot_style import log_ticks, style
from clients.experiments.framework.table import Row, Table
from clients.simulator import Player

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIALS = 400  # a seed
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
KINDS = ("complex", "real")


def predicted(p: int) -> float:
    """P(M_p > 1) = 1 - (1 - e^-2)^p for complex entries: |d_k|^2 is exponential."""
    return 1.0 - (1.0 - math.exp(-2.0)) ** p


def cases(scale: Scale) -> list[Case]:
    """Every size and kind."""
    return [
        {"kind": kind, "p": p, "seed": seed}
        for kind in KINDS
        for p in (SIZES[:4] if scale.toy else SIZES)
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """How often M_p = max_k ||d_k|^2 - 1| exceeds 1; d is the normalised DFT of the first row."""
    p = case["p"]
    rng = np.random.default_rng([case["seed"], p, KINDS.index(case["kind"])])
    row = rng.standard_normal((TRIALS, p)).astype(complex)
    if case["kind"] == "complex":
        row = (row + 1j * rng.standard_normal((TRIALS, p))) / math.sqrt(2)
    d = np.fft.fft(row, axis=1) / math.sqrt(p)
    stretch = np.abs(np.abs(d) ** 2 - 1).max(axis=1)
    return [{"n": TRIALS, "n_above": int((stretch > 1).sum())}]


def rates(table: Table, kind: str) -> list[tuple[int, float, float]]:
    """(p, share above 1, its binomial error) for every p."""
    out = []
    for p, rows in table.where(kind=kind).by("p"):
        n = rows.column("n").sum()
        share = rows.column("n_above").sum() / n
        expected = predicted(p) if kind == "complex" else share
        out.append((p, float(share), math.sqrt(expected * (1 - expected) / n)))
    return out


def draw(table: Table, figure: "Figure") -> None:
    """Share of circulants with M_p > 1 against p."""
    axes = figure.subplots()
    for place, kind in enumerate(KINDS):
        found = rates(table, kind)
        axes.errorbar(
            [p for p, _, _ in found],
            [share for _, share, _ in found],
            [2 * error for _, _, error in found],
            label=f"{kind} entries",
            marker="o",
            ms=3,
            **style(kind, place),
        )
    sizes = sorted(set(table.column("p").astype(int).tolist()))
    axes.plot(sizes, [predicted(p) for p in sizes], "k:", lw=1, label="1 - (1 - e^-2)^p")
    log_ticks(axes, sizes)
    axes.set(xlabel="p", ylabel="P(M_p > 1)", ylim=(0, 1.02))
    axes.legend()


def judge(table: Table) -> list[Claim]:
    """The law of the proof for complex entries; real ones beside it."""
    found = rates(table, "complex")
    off = max((abs(share - predicted(p)) / max(e, 1e-12), p) for p, share, e in found)
    # the largest of several standard normals: 3 is within chance for a dozen sizes
    real = ", ".join(f"p={p}: {share:.3f} ± {e:.3f}" for p, share, e in rates(table, "real"))
    shown = ", ".join(
        f"p={p}: {share:.3f} ± {e:.3f} (predicted {predicted(p):.3f})" for p, share, e in found
    )
    return [
        Claim(
            "A complex Gaussian circulant breaks rank-one RIP with probability at least 1 - c^p, "
            "c = 1 - e^-2",
            f"{shown}; largest deviation {off[0]:.1f} binomial errors, at p={off[1]}; "
            f"real entries: {real}",
            "holds" if off[0] <= 3 else "does not hold here",
        )
    ]


EXPERIMENT = Experiment(
    name="matrix_rip",
    title="Circulant matrices and rank-one RIP",
    source="Lemma norip and its proof",
    choices=f"{TRIALS} circulants a seed and size; M_p from the DFT of the first row; every n",
    cases=cases,
    run=run,
    draw=draw,
    judge=judge,
    varies=False,
    figure_size=(6.0, 4.0),
)
