"""The block Lasso's error bound and the restricted eigenvalue it rests on (App. RE, Lasso)."""

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
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import solve_group_lasso

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = {"n": 400, "s": 3, "h": 100}
VARIED = {"n": (100, 200, 400, 800), "s": (1, 2, 4, 8), "h": (25, 50, 100)}
TOY = {"n": (40, 60), "s": (1, 2), "h": (8, 12)}
KINDS = ("i.i.d. contexts", "selected contexts")
TOY_BASE = {"n": 50, "s": 2, "h": 10}
DIM, CONE = 5, 3.0
STEPS = 50  # of the projected gradient in `least_eigenvalue`


def cases(scale: Scale) -> list[Case]:
    """List the cases: one quantity varies, for i.i.d. and for greedily selected contexts."""
    varied = one_at_a_time(scale, TOY if scale.toy else VARIED)
    return [case | {"kind": kind} for kind in KINDS for case in varied]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Fit once with lambda = 2 |Psi' eps / n|_{2, inf}, the least that the theorem allows.

    Column `cone` is the norm of the error outside the support over that inside; the proof says at
    most 3. Column `kappa` is the least restricted eigenvalue that a search over the cone finds: an
    upper bound of the true one.
    """
    size = (TOY_BASE if scale.toy else BASE) | {case["varied"]: case["value"]}
    n, s, h = size["n"], size["s"], size["h"]
    rng = np.random.default_rng([case["seed"], 1951])
    theta = rng.standard_normal(DIM)
    theta /= np.linalg.norm(theta)
    arms = rng.uniform(-1, 1, (n + h, scale.arms, DIM))
    best = (arms @ theta).argmax(axis=1)
    contexts = arms[:, 0] if case["kind"] == KINDS[0] else arms[np.arange(n + h), best]
    design = LaggedDesign(contexts, h).select(np.arange(h, n + h))
    support = rng.choice(h, s, replace=False)
    phi = np.zeros((h, DIM))
    phi[support] = theta
    noise = scale.noise * rng.standard_normal(n)
    lam = 2 * float(block_norms(design.rmatvec(noise)).max()) / n
    result = solve_group_lasso(design, design.matvec(phi) + noise, lam, tol=1e-8)
    error = result.phi - phi
    inside = np.zeros(h, dtype=bool)
    inside[support] = True
    norms = block_norms(error)
    kappa = least_eigenvalue(design, inside, error)
    length = float(np.linalg.norm(error))
    return [
        {
            "error": length,
            "cone": float(norms[~inside].sum() / norms[inside].sum()),
            "kappa": kappa,
            "of_bound": length / (3 / kappa * np.sqrt(s) * lam),
        }
    ]


def least_eigenvalue(design: LaggedDesign, inside: np.ndarray, start: Floats) -> float:
    """Return the least |Psi v|^2 / (n |v|^2) found over the cone, by projected gradient steps."""
    dense = design.toarray()
    gram = dense.T @ dense / len(dense)
    values, vectors = np.linalg.eigh(gram)
    best = np.inf
    for v in (start, vectors[:, 0].reshape(start.shape), vectors[:, 1].reshape(start.shape)):
        v = into_cone(v, inside)
        for _ in range(STEPS):
            product = (gram @ v.ravel()).reshape(v.shape)
            value = float(np.vdot(v, product))
            best = min(best, value)
            v = into_cone(v - (product - value * v) / values[-1], inside)
    return best


def into_cone(v: Floats, inside: np.ndarray) -> Floats:
    """Project v on the cone by scaling all blocks outside the support, then normalise."""
    norms = block_norms(v)
    most, outside = CONE * norms[inside].sum(), norms[~inside].sum()
    v = v.copy()
    if outside > most:
        v[~inside] *= most / outside
    return np.asarray(v / np.linalg.norm(v))


def draw(table: Table, figure: "Figure") -> None:
    """Draw the error above, the restricted eigenvalue below, against each quantity."""
    names = table.values("varied")
    grid = [(column, name) for column in ("error", "kappa") for name in names]
    for axes, (column, name) in zip(panels(figure, len(grid), len(names)), grid, strict=True):
        for place, (kind, rows) in enumerate(table.where(varied=name).by("kind")):
            band(axes, rows, "value", column, kind, place)
        log_ticks(axes, table.where(varied=name).column("value").tolist())
        axes.set(yscale="log", xlabel=name)
        axes.set_ylabel("error of phi" if column == "error" else "least restricted eigenvalue")
    figure.axes[0].legend(fontsize=7)


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return exponents of the error or the eigenvalue, or the ratio to a bound."""
    out = {}
    for setting in rule.settings:
        name, _, kind = setting.partition(", ")
        own = table.where(varied=name, kind=kind)
        if not len(own):
            continue
        if rule.name in ("cone", "of_bound"):
            column = own.where(value=max(own.values("value")))
            out[setting] = SeedMean(column.column(rule.name))
        else:
            out[setting] = exponent(own, "value", rule.name.split("_")[0])
    return out


EXPERIMENT = Experiment(
    name="lasso_error",
    title="The block Lasso's error, and the restricted eigenvalue",
    source="Appendix, Theorems RE and bound:Lasso",
    choices="n=400 rows, s=3, h=100, d=5 where not varied; phi of s unit blocks; noise sd 0.1; "
    "selected contexts are the best of K=10 by theta, not centred",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
    figure_size=(9.0, 5.0),
)
