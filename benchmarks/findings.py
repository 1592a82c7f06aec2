"""How often checks of the model find what is the matter in a world, and nothing in plain worlds.

The last fit of a run is judged; what any of its fits found is told beside it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from joblib import Parallel, delayed

from benchmarks.lost_rewards import Leave, Limited, Swapped, Unanswered
from benchmarks.other_worlds.one_session import OneSession
from benchmarks.profile_worlds import Clickbait
from benchmarks.regret_scoreboard import BOARD, DENSE, HARDER, LIFE, TOLD, World
from benchmarks.worlds import (
    Activity,
    ActivityByItself,
    ArmsAlike,
    CostsLater,
    Depletes,
    Fall,
    FeaturesAlike,
    Geometric,
    IdealPoint,
    Interactions,
    KnownBefore,
    NothingActs,
    OneAlike,
    Rotates,
    SharedWithRewards,
    Tires,
    measured,
)
from lhb_engine.agents import Agent, make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import History
from lhb_engine.simulation.environment import OwnLags
from lhb_engine.simulation.play import simulate, simulate_users

BY_NAME = {world.name: world for world in (*TOLD, *BOARD, *HARDER, *LIFE, *DENSE)}
SHORT = 48  # horizon that an agent is told where the true one is 100
CHOSEN: dict[str, Any] = {"rounds": 600, "horizon": 24, "options": {"profiles": "chosen"}}
SHORT_LAGS: dict[str, Any] = {"rounds": 600, "horizon": 24}
# else what is found counts, and later fits find nothing
STRAIGHT: dict[str, Any] = {**SHORT_LAGS, "options": {"adopts": False}}
# in 600 rounds it is found in 26 of 36 runs
ACTIVITY: dict[str, Any] = {**SHORT_LAGS, "rounds": 1200, "options": {"covariates": ["activity"]}}
USERS: dict[str, Any] = {"sparsity": 3, "rounds": 40, "horizon": 20}
# what is the matter, and the worlds in which it is
MATTERS: tuple[tuple[str, World], ...] = (
    ("rewards_early", World("a round early", seen="early", environment=Geometric, **SHORT_LAGS)),
    (
        "rewards_early",
        World("three rounds early", seen="three early", environment=Geometric, **SHORT_LAGS),
    ),
    ("no_effect", World("nothing acts", environment=NothingActs)),
    (
        "rewards_of_others",
        World("users swapped", environment=Swapped, rounds=12000, horizon=10),
    ),
    ("arms_alike", World("arms alike", environment=ArmsAlike)),
    ("rewards_missing", World("unanswered", environment=Unanswered, **SHORT_LAGS)),
    ("rewards_limited", World("limited", environment=Limited, **SHORT_LAGS)),
    ("trajectories_end", World("leave", environment=Leave, rounds=8000, horizon=10)),
    ("earns_less", World("a fall", environment=Fall)),
    ("repetition", World("tires", environment=Tires, **SHORT_LAGS)),
    ("levels_differ", World("levels of users", levels=2.0, users=60, **USERS)),
    ("responses_differ", World("responses of users", spread=0.5, users=60, **USERS)),
    ("never_differs", World("one feature of the round", environment=OneAlike)),
    ("errors_correlated", BY_NAME["AR(1) noise"]),
    ("errors_correlated", BY_NAME["random walk"]),
    ("season", BY_NAME["season 24"]),
    ("season", BY_NAME["season 168"]),
    ("season", BY_NAME["season of 3, not told"]),
    ("trend", BY_NAME["trend"]),
    ("features_alike", World("two features alike", environment=FeaturesAlike)),
    ("known_before", World("reward known before", environment=KnownBefore, horizon=10)),
    ("horizon_short", World("horizon 48 of 100", options={})),
    ("horizon_short", World("horizon 48 of 100, costs later", environment=CostsLater, options={})),
    ("offers_follow", World("depletes", environment=Depletes, arms=5, **SHORT_LAGS)),
    ("covariates_follow", World("activity", environment=Activity, arms=5, **ACTIVITY)),
    ("scores_curved", World("interactions", environment=Interactions, **STRAIGHT)),
    ("scores_curved", World("ideal point", environment=IdealPoint, **STRAIGHT)),
    ("lags_change", BY_NAME["w changes"]),
    ("pays_now_costs_later", World("clickbait", environment=Clickbait, **CHOSEN)),
    ("profiles_differ", World("own lags", environment=OwnLags, **CHOSEN)),
)
PLAIN = (
    *BOARD,
    *(BY_NAME[name] for name in ("noise 0.5", "noise 1", "dim 20", "3 arms", "contexts alike")),
    *(BY_NAME[name] for name in ("heavy tails", "30% missing", "sums over 7", "baseline")),
    *(BY_NAME[name] for name in ("plain, all told", "season of 3", "one-hot, h = 4")),
    BY_NAME["contexts over time"],
    World("geometric 0.7", environment=Geometric, **SHORT_LAGS),
    World("users", users=60, **USERS),
    World("rotates", environment=Rotates, arms=5, **SHORT_LAGS),
    World("activity by itself", environment=ActivityByItself, arms=5, **ACTIVITY),
    World("shared with rewards", environment=SharedWithRewards, arms=5),
)


def horizon_of(world: World) -> int:
    """Return the horizon that the agent is told."""
    return SHORT if world.name.startswith("horizon") else world.horizon


def play(world: World, seed: int) -> tuple[list[str], set[str]]:
    """Return the codes that the last fit of a run found, and those that any of its fits found."""
    agent = make_agent("anytime", dim=world.dim, horizon=horizon_of(world), **world.options)
    found: list[list[str]] = []

    def checked(agent: Agent, history: History) -> Estimate:
        estimate = agent.checked_fit(history)
        found.append([one["code"] for one in estimate.findings])
        return estimate

    drawn = world.draw(seed)
    if isinstance(drawn, Depletes):
        session = OneSession(world.dim, horizon_of(world), seed, **world.options)
        drawn.play(session, world.rounds)
        found += [[one["code"] for one in fit.findings] for fit in session.fits]
    elif world.users:
        simulate_users(agent, world.draw_users(seed), seed=seed, run_fit=checked)
    else:
        simulate(
            agent,
            drawn,
            n_rounds=world.rounds,
            seed=seed,
            run_fit=checked,
            measure=partial(measured, world.seen, seed=seed),
        )
    return found[-1], {code for codes in found for code in codes}


def run(
    worlds: Sequence[World],
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Play every world.

    Returns
    -------
    list of dict
        For each world what is to be found in it (`expected`; None: nothing), the number of runs,
        and for each code the runs whose last fit found it, and those of which any fit did.
    """
    expected = {world.name: code for code, world in MATTERS}
    rows = []
    for world in worlds:
        played = Parallel(n_jobs=jobs)(delayed(play)(world, seed) for seed in seeds)
        rows.append(
            {
                "world": world.name,
                "expected": expected.get(world.name),
                "runs": len(played),
                "found": dict(Counter(code for last, _ in played for code in set(last))),
                "ever": dict(Counter(code for _, ever in played for code in ever)),
                "runs_with_findings": sum(bool(last) for last, _ in played),
            }
        )
        progress(line(rows[-1]))
    return rows


HEADER = "| world | to be found | found by the last fit | by any fit | runs |\n|-|-|-|-|-|"


def line(row: dict[str, Any]) -> str:
    """Format one world as a line of a Markdown table."""
    found, ever = (
        ", ".join(f"{code} {n}" for code, n in sorted(row[name].items())) or "-"
        for name in ("found", "ever")
    )
    return f"| {row['world']} | {row['expected'] or '-'} | {found} | {ever} | {row['runs']} |"
