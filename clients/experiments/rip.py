"""Restricted isometry of subsampled block-circulant matrices (the RIP theorem)."""

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks, panels
from clients.experiments.framework.slopes import exponent
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import one_at_a_time
from clients.simulator import Player
from lhb_engine.history import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# enough rows for constants below 1, where the theorem applies
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
N_RANDOM, N_GREEDY = 5_000, 40
TOEPLITZ = "Toeplitz"
ROWS = ("random rows", "consecutive rows", TOEPLITZ)
CHUNK = 20_000


def cases(scale: Scale) -> list[Case]:
    """List the cases: one quantity varies, the others are as in `BASE`; for each kind of rows."""
    varied = one_at_a_time(scale, TOY if scale.toy else VARIED)
    return [case | {"rows": rows} for rows in ROWS for case in varied]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Bound delta_s of docs/model.md (8.2) for one matrix."""
    setting = (TOY_BASE if scale.toy else BASE) | {case["varied"]: case["value"]}
    m, h, d, s = (setting[name] for name in ("m", "h", "d", "s"))
    rng = np.random.default_rng([case["seed"], m, h, d])  # the same matrix at every s
    if case["rows"] == TOEPLITZ:  # as in a bandit: every row has one new context
        matrix = block_circulant(rng.standard_normal((h + m, d)), np.arange(h, h + m))
        matrix = matrix[:, : h * d]
    else:
        kept = rng.choice(h, m, replace=False) if case["rows"] == "random rows" else np.arange(m)
        matrix = block_circulant(rng.standard_normal((h, d)), kept)
    gram = matrix.T @ matrix
    lower = lower_bound(gram, s, rng)
    return [{"m": m, "h": h, "d": d, "s": s, "lower": lower, "upper": upper_bound(gram, s)}]


def block_circulant(blocks: Floats, rows: Ints) -> Floats:
    """Return rows of the block-circulant matrix of n blocks, scaled 1/sqrt(m); (m, n d)."""
    n = len(blocks)
    index = (rows[:, None] - np.arange(n)) % n
    return np.asarray(blocks[index].reshape(len(rows), -1) / math.sqrt(len(rows)))


def deviations(gram: Floats, supports: Ints) -> Floats:
    """Return the largest |eigenvalue - 1| of the Gram matrix on each support, (n, s) -> (n,)."""
    values = np.linalg.eigvalsh(gram[supports[:, :, None], supports[:, None, :]])
    return np.asarray(np.maximum(values[:, -1] - 1, 1 - values[:, 0]))


def lower_bound(gram: Floats, s: int, rng: np.random.Generator) -> float:
    """Return a lower bound of delta_s, from random supports and greedily grown ones."""
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
    """Return delta_s by enumeration where feasible, else a bound by Gershgorin's circles."""
    n = len(gram)
    if math.comb(n, s) <= MOST_SUPPORTS:
        supports = np.array(list(combinations(range(n), s)))
        parts = range(0, len(supports), CHUNK)
        return max(float(deviations(gram, supports[i : i + CHUNK]).max()) for i in parts)
    off = np.abs(gram)
    np.fill_diagonal(off, 0.0)
    return float(np.abs(np.diag(gram) - 1).max() + (s - 1) * off.max())


def draw(table: Table, figure: "Figure") -> None:
    """Draw the lower bound for each kind of rows, and the upper one for random rows."""
    names = table.values("varied")
    for axes, name in zip(panels(figure, len(names), 4, sharey=True), names, strict=True):
        own = table.where(varied=name)
        for place, rows in enumerate(ROWS):
            band(axes, own.where(rows=rows), "value", "lower", f"lower bound, {rows}", place)
        band(axes, own.where(rows=ROWS[0]), "value", "upper", f"upper bound, {ROWS[0]}", len(ROWS))
        log_ticks(axes, own.column("value").tolist())
        axes.set(yscale="log", xlabel=name)
    figure.axes[0].set_ylabel("restricted isometry constant")
    figure.axes[0].legend(fontsize=6)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return exponents in m and s; in h and d the rows needed over what log^2 allows."""
    varied, out = rule.name.split("_")[0], {}
    for setting in rule.settings:
        rows, _, base = setting.partition(", from ")
        own = table.where(varied=varied, rows=rows)
        if not len(own):
            continue
        if varied in ("m", "s"):
            out[setting] = exponent(own, "value", "lower")
        else:
            low = float(base.split("=")[1]) if base else float(own.column("value").min())
            out[setting] = SeedMean(_excess(own, low, float(own.column("value").max())))
    return out


def _excess(own: Table, low: float, high: float) -> Floats:
    """Return the rows needed at `high` over those at `low`, over what log^2(h d) allows, by seed.

    delta falls as 1 / sqrt(m), so the ratio of the rows needed for one delta is that of delta^2 at
    one m.
    """
    few, many = own.where(value=low), own.where(value=high)
    if not len(few) or not len(many):
        return np.array([math.nan])
    size = {rows[0]["value"]: rows[0]["h"] * rows[0]["d"] for rows in (few, many)}
    allowed = (math.log(size[high]) / math.log(size[low])) ** 2
    a, b = few.by_seed("lower"), many.by_seed("lower")
    return np.array([(b[seed] / a[seed]) ** 2 / allowed for seed in a])


EXPERIMENT = Experiment(
    name="rip",
    title="Restricted isometry of subsampled block circulants",
    source="Theorem RIP:general",
    choices="m=96, h=200 blocks, d=2, s=3 where not varied; Gaussian blocks; random rows, the "
    "first m rows, or the Toeplitz matrix of a bandit; lower bound from 5000 random supports and "
    "160 greedy ones, upper bound exact up to 1e6 supports, else by coherence",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
    figure_size=(11.0, 3.2),
)
