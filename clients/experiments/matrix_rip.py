"""Gaussian circulants have no restricted isometry over rank-one matrices (Lemma norip)."""

import math
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean, Share, Statistic
from clients.experiments.framework.plot_style import log_ticks, panels, style
from clients.experiments.framework.table import Row, Table
from clients.simulator import Player
from lhb_engine.history import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIALS = 50  # circulants for each seed, size and number of rows
SHAPES = {1: (1, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8), 64: (8, 8)}  # p: (p1, p2)
KEPT = (1.0, 0.5, 0.25)  # share of the rows
KINDS = ("complex", "real", "real, real rank one")
STARTS, SWEEPS = 2, 8  # of the alternating maximisation in `real_rank_one`


def predicted(p: int) -> float:
    """Return the probability of docs/model.md (8.3) for complex entries, 1 - (1 - e^-2)^p.

    Each |d_k|^2 is then exponential.
    """
    return 1.0 - (1.0 - math.exp(-2.0)) ** p


def cases(scale: Scale) -> list[Case]:
    """List every size, kind and share of rows that leaves at least one."""
    return [
        {"kind": kind, "p": p, "kept": kept, "seed": seed}
        for kind in KINDS
        for p in (list(SHAPES)[:3] if scale.toy else SHAPES)
        for kept in KEPT
        if p * kept >= 1
        for seed in range(scale.seeds)
    ]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Count circulants whose constant over rank-one matrices exceeds 1.

    Over complex rank-one matrices the constant is the largest | |C v|^2 - 1 | over the rows v of
    the normalised Fourier matrix, each of which is a rank-one matrix. Column `identity` is how far
    it is from max_k | |d_k|^2 - 1 |, with d the normalised DFT of the first row. Over real rank-one
    matrices it is a lower bound, found by alternating maximisation.
    """
    p: int = case["p"]
    n = round(p * case["kept"])
    rng = np.random.default_rng([case["seed"], p, KINDS.index(case["kind"]), n])
    fourier = np.fft.fft(np.eye(p)).conj().T / math.sqrt(p)
    n_above, worst = 0, 0.0
    for _ in range(5 if scale.toy else TRIALS):
        real = rng.standard_normal(p)
        imaginary = rng.standard_normal(p) if case["kind"] == "complex" else np.zeros(p)
        row = (real + 1j * imaginary) / math.sqrt(2 if case["kind"] == "complex" else 1)
        kept = rng.choice(p, n, replace=False)
        matrix = row[(kept[:, None] - np.arange(p)) % p] / math.sqrt(n)
        if case["kind"] == KINDS[2]:
            constant = real_rank_one(matrix.real, SHAPES[p], rng)
        else:
            constant = float(np.abs((np.abs(matrix @ fourier) ** 2).sum(axis=0) - 1).max())
            d = np.fft.fft(row) / math.sqrt(p)
            worst = max(worst, abs(constant - float(np.abs(np.abs(d) ** 2 - 1).max())))
        n_above += constant > 1
    return [{"n": 5 if scale.toy else TRIALS, "n_above": n_above, "identity": worst}]


def real_rank_one(matrix: Floats, shape: tuple[int, int], rng: np.random.Generator) -> float:
    """Return the largest |C vec(a b')|^2 - 1 found over real unit vectors a and b."""
    tensor = matrix.reshape(len(matrix), *shape)
    best = 0.0
    for _ in range(STARTS):
        b = rng.standard_normal(shape[1])
        for _ in range(SWEEPS):
            left = tensor @ (b / np.linalg.norm(b))
            a = np.linalg.eigh(left.T @ left)[1][:, -1]
            right = np.einsum("nij,i->nj", tensor, a)
            values, vectors = np.linalg.eigh(right.T @ right)
            b = vectors[:, -1]
        best = max(best, float(values[-1]) - 1)
    return best


def share(rows: Table, expected: float = 0.0) -> Share:
    """Return the share of circulants whose constant exceeds 1, less `expected`."""
    return Share(int(rows.column("n_above").sum()), int(rows.column("n").sum()), expected)


def draw(table: Table, figure: "Figure") -> None:
    """Draw the share of circulants above 1 against p, a panel a kind."""
    for axes, kind in zip(panels(figure, len(KINDS), 3, sharey=True), KINDS, strict=True):
        for place, kept in enumerate(KEPT):
            own = table.where(kind=kind, kept=kept)
            shares = {p: share(rows).interval(0.95) for p, rows in own.by("p")}
            value = np.array([i.value for i in shares.values()])
            reach = [
                value - [i.low for i in shares.values()],
                [i.high for i in shares.values()] - value,
            ]
            label = f"n = {kept:g} p"
            axes.errorbar(
                list(shares), value, reach, label=label, marker="o", ms=3, **style("", place)
            )
        sizes = sorted(set(table.column("p").astype(int).tolist()))
        axes.plot(sizes, [predicted(p) for p in sizes], "k:", lw=1, label="1 - (1 - e^-2)^p")
        log_ticks(axes, sizes)
        axes.set(xlabel="p", title=kind, ylim=(0, 1.02))
    figure.axes[0].set_ylabel("share with a constant above 1")
    figure.axes[0].legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, Statistic]:
    """Return the share, the share less the law's 1 - c^p, or `identity`."""
    out: dict[str, Statistic] = {}
    for setting in rule.settings:
        kind, size, kept = setting.rsplit(", ", 2)
        p = int(size.removeprefix("p="))
        own = table.where(kind=kind, p=p, kept=float(kept.removeprefix("n/p=")))
        if not len(own):
            continue
        if rule.name == "identity":
            out[setting] = SeedMean(own.column("identity"))
        elif rule.name == "law":
            out[setting] = share(own, predicted(p))
        else:
            out[setting] = share(own)
    return out


EXPERIMENT = Experiment(
    name="matrix_rip",
    title="Circulant matrices and rank-one RIP",
    source="Lemma norip and its proof",
    choices=f"{TRIALS} circulants a seed, size p and number of rows n, rows kept at random; the "
    "constant over the rows of the Fourier matrix, and over real rank-one matrices of 2x2 to 8x8",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    bands="bars are exact 95% intervals",
    varies=False,
    figure_size=(11.0, 3.6),
)
