"""Exact recovery of theta w' from noiseless rows: i.i.d. against circulant (Fig. low_rank)."""

import math
from typing import TYPE_CHECKING

import numpy as np

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import panels, style
from clients.experiments.framework.table import Row, Table, markdown
from clients.experiments.recovery_methods import METHODS
from clients.simulator import Player
from lhb_engine.history import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, HORIZON = 10, 100
SPARSITIES = (2, 10, 50)
STEP, MOST = 20, 600  # numbers of rows tried: multiples of STEP up to MOST
SUCCESS = 1e-3  # relative error
ENSEMBLES = (
    "iid",
    "scalar circulant, consecutive rows",
    "scalar circulant, random rows",
    "block circulant, consecutive rows",
    "block circulant, random rows",
)


def cases(scale: Scale) -> list[Case]:
    """List every ensemble, method and sparsity."""
    return [
        {"ensemble": ensemble, "method": method, "s": s, "seed": seed}
        for ensemble in ENSEMBLES
        for method in METHODS
        for s in ((1, 3) if scale.toy else SPARSITIES)
        for seed in range(scale.seeds)
    ]


def rows_of(ensemble: str, dim: int, horizon: int, n: int, rng: np.random.Generator) -> Floats:
    """Return the first n rows of one design, (n, horizon * dim).

    Designs are nested: a smaller one is the first rows of a larger one. A circulant has as many
    rows as are ever used. It is made of one vector of `dim * horizon` numbers, or of that many
    blocks of `dim` numbers, with phi on the first `horizon` blocks.
    """
    size = dim * horizon
    if ensemble == "iid":
        return rng.standard_normal((n, size))
    order = rng.permutation(size)[:n] if "random" in ensemble else np.arange(n)
    if ensemble.startswith("scalar"):
        return np.asarray(rng.standard_normal(size)[(order[:, None] - np.arange(size)) % size])
    blocks = rng.standard_normal((size, dim))
    return np.asarray(blocks[(order[:, None] - np.arange(horizon)) % size].reshape(n, -1))


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Return the fewest rows, in steps, with which the method recovers phi.

    They are found by bisection over nested designs. A convex method that succeeds with some rows
    also succeeds with more, since its solution stays feasible; the alternating one nearly always.
    """
    dim, horizon, step, most = (3, 8, 4, 24) if scale.toy else (DIM, HORIZON, STEP, MOST)
    s = case["s"]
    rng = np.random.default_rng([case["seed"], ENSEMBLES.index(case["ensemble"]), s])
    theta = rng.standard_normal(dim)
    weights = np.zeros(horizon)
    weights[rng.choice(horizon, s, replace=False)] = 1.0
    phi = np.outer(weights / math.sqrt(s), theta / np.linalg.norm(theta))
    design = rows_of(case["ensemble"], dim, horizon, most, rng)
    method = METHODS[case["method"]]

    def recovered(m: int) -> bool:
        y = design[:m] @ phi.ravel()
        return float(np.linalg.norm(method(design[:m], y, phi) - phi)) < SUCCESS

    low, high = 0, most // step + 1  # fails at low; succeeds at high, or is past the end
    while high - low > 1:
        middle = (low + high) // 2
        if recovered(middle * step):
            high = middle
        else:
            low = middle
    return [{"rows": high * step}]


def half(table: Table) -> tuple[float, float, float]:
    """Return the median of the rows needed, and a 95% interval from its order statistics."""
    needed = np.sort(table.column("rows"))
    n = len(needed)
    # ranks between which a binomial(n, 1/2) falls with 95%
    spread = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - spread))
    high = min(n - 1, math.ceil(n / 2 + spread) - 1)
    return float(np.median(needed)), float(needed[low]), float(needed[high])


def draw(table: Table, figure: "Figure") -> None:
    """Draw the share recovered against rows: a row of panels a method, a column an ensemble."""
    grid = [(m, e) for m in table.values("method") for e in table.values("ensemble")]
    most = table.column("rows").max()
    at = np.arange(0, min(most, MOST) + 1)  # past MOST is not recovered
    all_axes = panels(figure, len(grid), len(ENSEMBLES), sharex=True, sharey=True)
    for axes, (method, ensemble) in zip(all_axes, grid, strict=True):
        for place, (s, rows) in enumerate(table.where(method=method, ensemble=ensemble).by("s")):
            needed = rows.column("rows")
            share = (needed[None] <= at[:, None]).mean(axis=1)
            error = np.sqrt(share * (1 - share) / len(needed))
            look = style("", place)
            axes.step(at, share, where="post", label=f"s={s}", lw=1.4, **look)
            low, high = share - error, share + error
            axes.fill_between(at, low, high, color=look["color"], alpha=0.15, lw=0, step="post")
        axes.set_title(f"{method}\n{ensemble}", fontsize=7)
        axes.set_xlabel("rows m", fontsize=7)
    figure.axes[0].legend(fontsize=7)
    figure.supylabel("share recovered", fontsize=9)


def _rows(m: float) -> str:
    return f"{m:.0f}" if m <= MOST else f"> {MOST}"


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the rows needed at one s over those at the least s, a setting for each design."""
    least, out = min(table.values("s")), {}
    method = rule.name.split("_", 1)[1].replace("_", " ")
    for setting in rule.settings:
        ensemble, s = setting.split(", s=")
        own = table.where(method=method, ensemble=ensemble)
        many, few = own.where(s=int(s)), own.where(s=least)
        if len(many) and len(few):
            a, b = many.by_seed("rows"), few.by_seed("rows")
            out[setting] = SeedMean(np.array([a[seed] / b[seed] for seed in a]))
    return out


def details(table: Table) -> str:
    """Return a Markdown table of the rows needed for recovery with probability 1/2."""
    sparsities = table.values("s")
    rows = []
    for method, of_method in table.by("method"):
        for ensemble, own in of_method.by("ensemble"):
            halves = [half(own.where(s=s)) for s in sparsities]
            parts = [f"{_rows(m)} [{_rows(a)}, {_rows(b)}]" for m, a, b in halves]
            rows.append([method, ensemble, *parts])
    heads = ["rows at probability 1/2 [95%]", "design", *(f"s={s}" for s in sparsities)]
    return markdown(heads, rows)


EXPERIMENT = Experiment(
    name="recovery",
    title="Rows needed to recover theta w' without noise",
    source="Fig. low_rank",
    choices=f"d={DIM}, h={HORIZON}; Gaussian rows; equal weights on a random support; success is a "
    f"relative error below {SUCCESS:g}; rows in steps of {STEP} up to {MOST}; the block lasso is "
    "its noiseless limit (least sum of block norms)",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    details=details,
    bands="shading is one binomial standard error",
    varies=False,
    figure_size=(11.0, 6.0),
)
