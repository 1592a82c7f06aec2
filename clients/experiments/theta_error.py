"""The angle between the estimated and the true theta, against n, s, d and the mass fitted."""

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.plot_style import band, log_ticks, panels
from clients.experiments.framework.regret_runs import BEST_C
from clients.experiments.framework.slopes import exponent
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import one_at_a_time
from clients.simulator import Player
from lhb_engine.agents.doubling_lasso import LEVEL
from lhb_engine.design.fit_rows import FitRows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import FitWindow, Floats
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.lasso.regularization import theory_full

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = {"n": 1600, "s": 5, "d": 5, "mass": 1.0}
VARIED: dict[str, tuple[float, ...]] = {
    "n": (200, 400, 800, 1600, 3200, 6400),
    "s": (1, 2, 5, 10, 20),
    "d": (2, 5, 10, 20),
    "mass": (0.2, 0.4, 0.6, 0.8, 1.0),
}
RULES = ("noise-adaptive lambda", "paper's lambda")
GAMMA = 0.1
TOY = {"n": (100, 200), "s": (1, 2), "d": (2, 4), "mass": (0.5, 1.0)}
HORIZON = 100
# exponents of each quantity in sqrt(s d / n) / |w of the fitted lags|
PREDICTED = {"n": -0.5, "s": 0.5, "d": 0.5, "mass": -1.0}


def cases(scale: Scale) -> list[Case]:
    """List the cases: one quantity varies, the others are as in `BASE`; both rules for lambda."""
    varied = one_at_a_time(scale, TOY if scale.toy else VARIED)
    return [case | {"label": label} for label in RULES for case in varied]


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Fit once; return the sine of theta's angle, 1 if there is no estimate."""
    setting = BASE | {case["varied"]: case["value"]}
    horizon = 20 if scale.toy else HORIZON
    n, s, d = (int(setting[name]) for name in ("n", "s", "d"))
    rng = np.random.default_rng([case["seed"], 20230])
    theta = rng.standard_normal(d)
    theta /= np.linalg.norm(theta)
    weights, n_lags = lag_weights_of(s, horizon, float(setting["mass"]), rng)
    contexts = rng.uniform(-1, 1, (n + horizon, d))
    signal = np.convolve(contexts @ theta, weights)[: n + horizon]
    rewards = signal + scale.noise * rng.standard_normal(n + horizon)
    design = LaggedDesign(contexts, n_lags)
    keep = np.arange(horizon, n + horizon)
    measured = design.measure(_selection(keep, n + horizon))
    window = FitWindow(1, horizon + 1, n + horizon, n_lags, n + horizon)
    lam = theory_full(n, d, GAMMA, BEST_C) if case["label"] == RULES[1] else None
    estimate = BlockLasso(lam, False, level=LEVEL).estimate(
        FitRows(measured, rewards[keep], "full", 0), window
    )
    if estimate.theta is None:
        return [{"sine": 1.0}]
    cosine = float(np.clip(estimate.theta @ theta, -1.0, 1.0))
    return [{"sine": math.sqrt(1 - cosine**2) if cosine > 0 else 1.0}]


def lag_weights_of(
    s: int, horizon: int, mass: float, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Return s equal weights with |w|_2 = 1, and how many lags are fitted.

    With `mass` below 1 only the first half of the lags is fitted. Its weights have l2 norm `mass`;
    those of the second half have sqrt(1 - mass^2).
    """
    weights = np.zeros(horizon)
    n_lags = horizon if mass == 1.0 else horizon // 2
    weights[rng.choice(n_lags, s, replace=False)] = mass / math.sqrt(s)
    if mass < 1.0:
        outside = n_lags + rng.choice(horizon - n_lags, s, replace=False)
        weights[outside] = math.sqrt((1 - mass**2) / s)
    return weights, n_lags


def _selection(rows: np.ndarray, n: int) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows)), rows, np.arange(len(rows) + 1)), (len(rows), n))


def draw(table: Table, figure: "Figure") -> None:
    """Draw a panel for each quantity, log axes."""
    names = table.values("varied")
    for axes, name in zip(panels(figure, len(names), 4), names, strict=True):
        for label, rows in table.where(varied=name).by("label"):
            band(axes, rows, "value", "sine", label, RULES.index(label))
        rows = table.where(varied=name, label=RULES[0])
        at = np.array(sorted(set(rows.column("value"))))
        middle = rows.where(value=rows.values("value")[len(at) // 2])
        level = middle.mean("sine").value * (at / at[len(at) // 2]) ** PREDICTED[name]
        axes.plot(at, level, color="0.5", lw=1, ls=":", label="exponent claimed")
        log_ticks(axes, rows.column("value").tolist())
        axes.set(yscale="log", xlabel=name)
        axes.set_title(f"against {name}", fontsize=9)
    figure.axes[0].legend(fontsize=7)
    figure.axes[0].set_ylabel("sine of the angle to theta")


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return the exponent of the sine in the rule's quantity."""
    own = {name: table.where(varied=name, label=rule.agent) for name in rule.settings}
    return {name: exponent(rows, "value", "sine") for name, rows in own.items() if len(rows)}


EXPERIMENT = Experiment(
    name="theta_error",
    title="Error of theta's direction against n, s, d and the mass fitted",
    source="Theorems on theta's angle",
    choices="h=100, n=1600, s=5, d=5 where not varied; i.i.d. contexts uniform on [-1, 1]^d, "
    "|w|_2 = 1 so that the signal's size stays the same; the dotted line has the exponent claimed, "
    "through the middle of the noise-adaptive lambda's",
    cases=cases,
    run=run,
    draw=draw,
    measure=measure,
    varies=False,
    figure_size=(11.0, 3.2),
)
