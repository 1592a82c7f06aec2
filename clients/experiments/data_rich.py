"""Flat and spiking lag weights at four sparsities, T = 2000 (Fig. data_rich_diff_spars)."""

from clients.experiments.framework.claims import Rule
from clients.experiments.framework.experiment import Case, Experiment, Scale
from clients.experiments.framework.intervals import SeedMean
from clients.experiments.framework.regret_results import (
    by_seed,
    compare,
    draw_panels,
    final,
    regret_table,
)
from clients.experiments.framework.regret_runs import CONTENDERS, Contender, cases_of, play
from clients.experiments.framework.table import Row, Table
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player, SimulationSettings

THEORY = "ad_lasso, theory c=1"
CENTRED = "ad_lasso, centred"
STRICT = "ad_lasso, never falls back"
ENTRANTS = CONTENDERS | {
    THEORY: Contender("ad_lasso", {"reg": "theory"}),
    CENTRED: Contender("ad_lasso", {"fit_intercept": True}),
    STRICT: Contender("ad_lasso", {"fallback": False}),
}
AGENTS = {
    "theory_constants": THEORY,
    "never_falls_back": STRICT,
    "centring": CENTRED,
    "noise_adaptive": "ad_lasso",
    "few_steps": "ad_lasso",
}
SPARSITIES = (2, 5, 15, 30)
PATTERNS = ("flat", "spiking")


def name_of(pattern: str, sparsity: int) -> str:
    """Return a panel's name."""
    return f"{pattern} s={sparsity}"


def worlds(scale: Scale) -> dict[str, SimulationSettings]:
    """Return the settings of each panel."""
    sparsities = (2, 5) if scale.toy else SPARSITIES
    return {
        name_of(pattern, s): data_rich(scale, pattern, s)
        for pattern in PATTERNS
        for s in sparsities
    }


def cases(scale: Scale) -> list[Case]:
    """List all contenders in all panels."""
    return cases_of(list(worlds(scale)), list(ENTRANTS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """Play one run and return its regret curve."""
    return play(ENTRANTS[case["label"]], worlds(scale)[case["panel"]], case["seed"], player)


def details(table: Table) -> str:
    """Return mean regrets, and the zero estimates with the theorems' constants, as Markdown."""
    theory = table.where(label=THEORY)
    last = final(theory)
    zero, others = last.column("n_zero").sum(), last.column("n_ok").sum()
    return (
        regret_table(table)
        + f"""
With the constants of the theorems (c = 1), {zero:.0f} of {zero + others:.0f} estimates are exactly
zero: AD-Lasso then plays as uniform does.
"""
    )


def measure(table: Table, rule: Rule) -> dict[str, SeedMean]:
    """Return differences of regrets; for SW-MP, between the densest and the sparsest w."""
    if rule.name != "many_nonzeros":
        return compare(table, rule, AGENTS.get(rule.name, ""))
    finals, out = final(table).where(label="sw_mp"), {}
    for setting in rule.settings:
        many, few = (finals.where(panel=panel) for panel in setting.split(" / "))
        if len(many) and len(few):
            out[setting] = SeedMean(by_seed(many, few, "regret"))
    return out


EXPERIMENT = Experiment(
    name="data_rich",
    title="More rounds than lags: flat and spiking lag weights",
    source="Fig. data_rich_diff_spars",
    choices="T=2000, h=100, d=5; spiking: ceil(0.2 s) weights are 20 times the rest",
    cases=cases,
    run=run,
    draw=draw_panels,
    measure=measure,
    details=details,
    figure_size=(11.0, 5.5),
)
