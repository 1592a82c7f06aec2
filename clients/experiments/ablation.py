"""Doubling Lasso without its differencing, and with other quarters (remarks after the theorem)."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.plot_style import band, panels
from clients.experiments.framework.regret_results import compare, regret_table
from clients.experiments.framework.regret_runs import THEORY, cases_of
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_poor
from clients.simulator import Player
from lhb_engine.agents import Agent
from lhb_engine.agents.doubling_lasso import DoublingLasso
from lhb_engine.agents.fit_windows import quarter_of
from lhb_engine.design.fit_rows import FitRows, measured_rows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.lasso.regularization import theory_doubling
from lhb_engine.simulation.play import simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH = 8  # L of docs/model.md (3.1)
AGENT = "fourth less second (paper)"
STRICT = "fourth less second, never falls back"


def paper(agent: Agent, history: History) -> Estimate:
    """Fit as `doubling_lasso` does; its first epoch has too few pairs and is not differenced."""
    return agent.fit(history)


def strict(agent: Agent, history: History) -> Estimate:
    """Fit as the paper does: an epoch with too few pairs has no estimate."""
    options = replace(cast(DoublingLasso, agent).options, fallback=False)
    return DoublingLasso(agent.dim, agent.horizon, options).fit(history)


def lasso_of(agent: Agent, window: FitWindow, fit_intercept: bool) -> BlockLasso:
    """Return the agent's block lasso; the paper's lambda is that of the epoch in all variants."""
    doubling = cast(DoublingLasso, agent)
    o, lam = doubling.options, None
    if o.reg == "theory":
        lam = theory_doubling(quarter_of(window), agent.dim, o.gamma, o.c)
    return doubling.block_lasso(lam, fit_intercept)


def undifferenced(fit_intercept: bool) -> Callable[[Agent, History], Estimate]:
    """Fit quarters two and four as ordinary rows."""

    def fit(agent: Agent, history: History) -> Estimate:
        window = history.window
        assert window is not None
        rows = measured_rows(history, quarters=quarter_of(window))
        return lasso_of(agent, window, fit_intercept).estimate(rows, window)

    return fit


def adjacent(agent: Agent, history: History) -> Estimate:
    """Fit the fourth quarter less the third; their rows share contexts."""
    window = history.window
    assert window is not None
    q = quarter_of(window)
    (part,) = history.trajectories.values()
    last = np.arange(window.last - q + 1, window.last + 1) - part.first_round
    select = np.concatenate([last, last - q])
    signs = np.concatenate([np.ones(q), -np.ones(q)])
    rows = sparse.csr_array(
        (signs, (np.tile(np.arange(q), 2), select)), shape=(q, len(part.contexts))
    )
    value = np.zeros(len(part.contexts))
    value[part.measurements.first - part.first_round] = part.measurements.value
    design = LaggedDesign(part.contexts, window.n_lags).measure(rows)
    return lasso_of(agent, window, False).estimate(
        FitRows(design, rows @ value, "differenced", 0), window
    )


def all_rows(agent: Agent, history: History) -> Estimate:
    """Fit quarters two to four as ordinary rows."""
    window = history.window
    assert window is not None
    return lasso_of(agent, window, False).estimate(measured_rows(history), window)


VARIANTS: dict[str, Callable[[Agent, History], Estimate]] = {
    AGENT: paper,
    STRICT: strict,
    "fourth less third": adjacent,
    "not differenced": undifferenced(False),
    "not differenced, intercept": undifferenced(True),
    "three quarters, not differenced": all_rows,
}


PANELS: dict[str, tuple[str, dict[str, Any]]] = {  # weights, and the rule for lambda
    pattern + rule: (pattern, options)
    for rule, options in {"": {}, ", paper's lambda": THEORY}.items()
    for pattern in ("early_mass", "flat")
}


def cases(scale: Scale) -> list[Case]:
    """List all variants in all panels."""
    return cases_of(list(PANELS), list(VARIANTS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run, always in process, since a server does not know the variants."""
    pattern, options = PANELS[case["panel"]]
    settings, seed = data_poor(scale, pattern), case["seed"]
    played = simulate(
        "doubling_lasso",
        settings.world(seed),
        n_rounds=settings.rounds,
        seed=seed,
        options={"L": LENGTH, **options},
        run_fit=VARIANTS[case["label"]],
    )
    at = np.unique(np.linspace(1, settings.rounds, 40).round().astype(int))
    return [{"round": int(t), "regret": float(played.regret[t - 1])} for t in at]


def draw(table: Table, figure: "Figure") -> None:
    """Draw regret curves of the variants."""
    names = table.values("panel")
    for axes, panel in zip(panels(figure, len(names), 2, sharey=True), names, strict=True):
        for place, (label, rows) in enumerate(table.where(panel=panel).by("label")):
            band(axes, rows, "round", "regret", label, place)
        axes.set(title=panel, xlabel="round", ylabel="cumulative regret", ylim=(0, None))
    figure.axes[0].legend(fontsize=7)


EXPERIMENT = Experiment(
    name="ablation",
    title="Doubling Lasso without its differencing, and with other quarters",
    source="Remarks after the theorem on the data-poor regime",
    choices="h=1000, T=999, s=10, d=5, L=8; always in process. The paper calls both crucial for "
    "its analysis; here it is asked whether they pay in regret. At L=8 the first epoch has too few "
    "pairs: its fit is undifferenced but where the variant never falls back",
    cases=cases,
    run=run,
    draw=draw,
    measure=compare,
    details=regret_table,
    figure_size=(9.0, 6.5),
)
