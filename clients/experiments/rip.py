"""Restricted isometry of subsampled block-circulant matrices (the RIP theorem)."""

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.plot_style import band, log_ticks, panels
from clients.experiments.framework.slopes import slope_by_seed
from clients.experiments.framework.table import Mean, Row, Table, mean_of
from clients.experiments.framework.worlds import one_at_a_time
from clients.simulator import Player
from lhb_engine.history import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# rows enough for constants below 1, where the theorem speaks
BASE = {"m": 96, "h": 200, "d": 2, "s": 3}
VARIED = {
    "m": (24, 48, 96, 192),
    "h": (100, 200, 400, 800),
    "d": (1, 2, 4, 8),
    "s": (2, 3, 4, 6, 8),
}
TOY = {"m": (6, 10), "h": (12, 16), "d": (1, 2), "s": (2, 3)}
TOY_BASE = {"m": 8, "h": 12, "d": 2, "s": 2}
MOST_SUPPORTS = 1_000_000
N_RANDOM, N_GREEDY = 20_000, 40
CHUNK = 20_000


def cases(scale: Scale) -> list[Case]:
    """One quantity at a time, the others as in `BASE`."""
    return one_at_a_time(scale, TOY if scale.toy else VARIED)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Bounds on delta_s of one matrix with random rows."""
    setting = (TOY_BASE if scale.toy else BASE) | {case["varied"]: case["value"]}
    m, h, d, s = (setting[name] for name in ("m", "h", "d", "s"))
    rng = np.random.default_rng([case["seed"], m, h, d])  # the same matrix at every s
    matrix = block_circulant(rng.standard_normal((h, d)), rng.choice(h, m, replace=False))
    gram = matrix.T @ matrix
    lower = lower_bound(gram, s, rng)
    return [{"m": m, "h": h, "d": d, "s": s, "lower": lower, "upper": upper_bound(gram, s)}]


def block_circulant(blocks: Floats, rows: Ints) -> Floats:
    """Rows of the block-circulant matrix of n isotropic blocks, scaled 1/sqrt(m); (m, n d)."""
    n = len(blocks)
    index = (rows[:, None] - np.arange(n)) % n
    return np.asarray(blocks[index].reshape(len(rows), -1) / math.sqrt(len(rows)))


def deviations(gram: Floats, supports: Ints) -> Floats:
    """Largest |eigenvalue - 1| of the Gram matrix on each support, (n, s) -> (n,)."""
    values = np.linalg.eigvalsh(gram[supports[:, :, None], supports[:, None, :]])
    return np.asarray(np.maximum(values[:, -1] - 1, 1 - values[:, 0]))


def lower_bound(gram: Floats, s: int, rng: np.random.Generator) -> float:
    """delta_s is at least this: the worst of random supports and of greedily grown ones."""
    n = len(gram)
    picks = np.argsort(rng.random((N_RANDOM, min(n, 64))), axis=1)[:, :s]
    pool = rng.choice(n, min(n, 64), replace=False)
    best = float(deviations(gram, pool[picks]).max())
    off = np.abs(gram - np.eye(n))
    np.fill_diagonal(off, np.abs(np.diag(gram) - 1))
    order = np.argsort(off, axis=None)[::-1][: 2 * N_GREEDY]
    for i, j in zip(*np.unravel_index(order, off.shape), strict=True):
        for largest in (True, False):
            best = max(best, _grow(gram, list(dict.fromkeys((int(i), int(j)))), s, largest))
    return best


def _grow(gram: Floats, support: list[int], s: int, largest: bool) -> float:
    """Add the column that most aligns with the extreme eigenvector, up to s columns."""
    while True:
        values, vectors = np.linalg.eigh(gram[np.ix_(support, support)])
        k = -1 if largest else 0
        if len(support) == s:
            return float(max(values[-1] - 1, 1 - values[0]))
        along = np.abs(gram[:, support] @ vectors[:, k])
        along[support] = -1.0
        support.append(int(along.argmax()))


def upper_bound(gram: Floats, s: int) -> float:
    """delta_s by enumeration where feasible, else at most this, by Gershgorin's circles."""
    n = len(gram)
    if math.comb(n, s) <= MOST_SUPPORTS:
        supports = np.array(list(combinations(range(n), s)))
        parts = range(0, len(supports), CHUNK)
        return max(float(deviations(gram, supports[i : i + CHUNK]).max()) for i in parts)
    off = np.abs(gram)
    np.fill_diagonal(off, 0.0)
    return float(np.abs(np.diag(gram) - 1).max() + (s - 1) * off.max())


def draw(table: Table, figure: "Figure") -> None:
    """Both bounds against each quantity."""
    names = table.values("varied")
    for axes, name in zip(panels(figure, len(names), 4, sharey=True), names, strict=True):
        rows = table.where(varied=name)
        band(axes, rows, "value", "lower", "lower bound", 0)
        band(axes, rows, "value", "upper", "upper bound", 1)
        log_ticks(axes, rows.column("value").tolist())
        axes.set(yscale="log", xlabel=name)
        axes.set_title(f"against {name}", fontsize=9)
    figure.axes[0].set_ylabel("restricted isometry constant")
    figure.axes[0].legend(fontsize=7)


def judge(table: Table) -> list[Claim]:
    """delta ~ sqrt(s / m) up to logarithms, and no power of h."""
    claims = []
    for name, predicted, words in (
        ("m", -0.5, "falls like 1/sqrt(m)"),
        ("s", 1.0, "grows no faster than sqrt(s) log s (exponent below 1)"),
    ):
        slope = mean_of(slope_by_seed(table.where(varied=name), "value", "lower"))
        claims.append(
            Claim(
                f"The restricted isometry constant {words}",
                f"slope of log delta (lower bound) on log {name}: {slope}",
                "holds" if slope.value <= predicted + 2 * slope.error else "does not hold here",
            )
        )
    in_h = table.where(varied="h")
    sizes = sorted(set(in_h.column("value").astype(int).tolist()))
    m, d = int(in_h[0]["m"]), int(in_h[0]["d"])
    # where m is nearly all rows of the circulant, its constant is that of the whole: lower
    start = next((h for h in sizes if h >= 2 * m), sizes[0])
    ratios = {h: _rows_ratio(in_h, h, sizes[-1]) for h in dict.fromkeys((start, sizes[0]))}
    allowed = {h: (math.log(sizes[-1] * d) / math.log(h * d)) ** 2 for h in ratios}
    told = (
        f"against h={h}: {ratio}, log^2 allows {allowed[h]:.2f}, a power of 1 would be "
        f"{sizes[-1] / h:.0f}"
        for h, ratio in ratios.items()
    )
    first = ratios[start]
    claims.append(
        Claim(
            "Rows needed do not grow with a power of h, only with log^2(h d)",
            f"rows needed at h={sizes[-1]} (ratio of delta^2, lower bounds) " + "; ".join(told),
            "holds" if first.value <= allowed[start] + 2 * first.error else "does not hold here",
        )
    )
    return claims


def _rows_ratio(in_h: Table, small: int, large: int) -> Mean:
    """delta^2 m is constant along the rows needed: their ratio is that of delta^2."""
    a = in_h.where(value=small).by_seed("lower")
    b = in_h.where(value=large).by_seed("lower")
    return mean_of(np.array([(b[seed] / a[seed]) ** 2 for seed in a]))


EXPERIMENT = Experiment(
    name="rip",
    title="Restricted isometry of subsampled block circulants",
    source="Theorem RIP:general",
    choices="m=96, h=200 blocks, d=2, s=3 where not varied; Gaussian blocks, random rows; lower "
    "bound from 20 000 random supports and 160 greedy ones, upper bound exact up to 1e6 supports, "
    "else by coherence",
    cases=cases,
    run=run,
    draw=draw,
    judge=judge,
    varies=False,
    figure_size=(11.0, 3.2),
)
