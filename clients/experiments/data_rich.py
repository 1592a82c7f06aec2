"""Flat and spiking lag weights at four sparsities, T = 2000 (Fig. data_rich_diff_spars)."""

from clients.experiments.framework.experiment import Case, Claim, Experiment, Scale
from clients.experiments.framework.regret_runs import (
    CONTENDERS,
    Contender,
    better_rows,
    cases_of,
    compare,
    draw_panels,
    final,
    lower,
    not_higher,
    play,
    verdict,
)
from clients.experiments.framework.table import Row, Table, paired
from clients.experiments.framework.worlds import data_rich
from clients.simulator import Player, SimulationSettings

THEORY = "ad_lasso, theory c=1"
CENTRED = "ad_lasso, centred"
ENTRANTS = CONTENDERS | {
    THEORY: Contender("ad_lasso", {"reg": "theory"}),
    CENTRED: Contender("ad_lasso", {"fit_intercept": True}),
}
SPARSITIES = (2, 5, 15, 30)
PATTERNS = ("flat", "spiking")


def name_of(pattern: str, sparsity: int) -> str:
    """A panel's name."""
    return f"{pattern} s={sparsity}"


def worlds(scale: Scale) -> dict[str, SimulationSettings]:
    """Settings by panel."""
    sparsities = (2, 5) if scale.toy else SPARSITIES
    return {
        name_of(pattern, s): data_rich(scale, pattern, s)
        for pattern in PATTERNS
        for s in sparsities
    }


def cases(scale: Scale) -> list[Case]:
    """All contenders in all panels."""
    return cases_of(list(worlds(scale)), list(ENTRANTS), scale)


def run(case: Case, scale: Scale, player: Player) -> list[Row]:
    """One run's regret curve."""
    return play(ENTRANTS[case["label"]], worlds(scale)[case["panel"]], case["seed"], player)


def judge(table: Table) -> list[Claim]:
    """The paper's four claims, and what the theory's constants do."""
    finals = final(table)
    sparse = [name_of(p, s) for p in PATTERNS for s in (2, 5)]
    dense = [name_of(p, 30) for p in PATTERNS]
    spiking = [name_of("spiking", s) for s in SPARSITIES]
    flat = [name_of("flat", s) for s in SPARSITIES]
    matching = ("sw_mp", "ucb_mp")
    return [
        compare(
            finals,
            "AD-Lasso has far lower regret than SA-GD where w is highly sparse (s = 2, 5)",
            [(panel, "ad_lasso", "sa_gd") for panel in sparse],
            lower,
        ),
        compare(
            finals,
            "AD-Lasso is still ahead of SA-GD where sd > d + h (s = 30)",
            [(panel, "ad_lasso", "sa_gd") for panel in dense],
            lower,
        ),
        compare(
            finals,
            "AD-Lasso does as well as SW-MP and UCB-MP where w is spiking",
            [(panel, "ad_lasso", other) for panel in spiking for other in matching],
            not_higher,
        ),
        compare(
            finals,
            "AD-Lasso has much lower regret than SW-MP and UCB-MP where w is flat",
            [(panel, "ad_lasso", other) for panel in flat for other in matching],
            lower,
        ),
        theory_claim(finals),
        compare(
            finals,
            "(Ours) SA-GD run to convergence beats AD-Lasso where s is large (15, 30)",
            [(name_of(p, s), "sa_gd", "ad_lasso") for p in PATTERNS for s in (15, 30)],
            lower,
        ),
        compare(
            finals,
            "(Ours) Centring costs regret in worlds without a reward baseline",
            [(panel, "ad_lasso", CENTRED) for panel in flat + spiking],
            lower,
        ),
        many_nonzeros_claim(finals),
    ]


def many_nonzeros_claim(finals: Table) -> Claim:
    """How SW-MP's regret moves from the sparsest panel to the densest."""
    told, held = [], {}
    for pattern in PATTERNS:
        panels = [name for name in finals.values("panel") if name.startswith(pattern)]
        few, many = (
            better_rows(finals.where(panel=panel), "sw_mp") for panel in (panels[0], panels[-1])
        )
        d = paired(few, many, "regret")
        name = f"{panels[-1]} against {panels[0]}"
        held[name] = lower(d)
        told.append(f"{name}: {d}")
    return Claim(
        "SW-MP can be inaccurate where w has many nonzeros",
        "rise of SW-MP's regret: " + "; ".join(told),
        verdict(held),
    )


def theory_claim(finals: Table) -> Claim:
    """What lambda is worth with the paper's constants at this size."""
    theory = finals.where(label=THEORY)
    zero, found = theory.column("n_zero").sum(), theory.column("n_ok").sum()
    parts = [
        f"{panel}: {compare_to_uniform(finals, panel)}" for panel in finals.values("panel")[:2]
    ]
    return Claim(
        "The regularisation that the theorems ask for (constant c = 1) learns",
        f"{zero:.0f} of {zero + found:.0f} estimates are exactly zero; "
        "regret of uniform less AD-Lasso's with c = 1: " + "; ".join(parts),
        "does not hold here" if found == 0 else "holds only if phi is not zero",
    )


def compare_to_uniform(finals: Table, panel: str) -> str:
    """Paired difference in words."""
    here = finals.where(panel=panel)
    return str(paired(here.where(label=THEORY), here.where(label="uniform"), "regret"))


EXPERIMENT = Experiment(
    name="data_rich",
    title="More rounds than lags: flat and spiking lag weights",
    source="Fig. data_rich_diff_spars",
    choices="T=2000, h=100, d=5; spiking: ceil(0.2 s) weights are 20 times the rest",
    cases=cases,
    run=run,
    draw=draw_panels,
    judge=judge,
    figure_size=(11.0, 5.5),
)
