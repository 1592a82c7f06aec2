"""How often what a session says that its choices earn is true: `lhb bench gain`.

At fits from round 60 on, `gain` of the estimate (docs/model.md (7.31)) is held against what choices
by it earn among the same context sets in truth. So is what each arm of the latest set pays in all
(14.6), and how much more the best of them pays than the next best.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.regret_scoreboard import BOARD, HARDER, LIFE, PROFILES, TOLD, World
from benchmarks.weak_worlds import WeakWorld, agent_of
from benchmarks.worlds import measured
from lhb_engine.agents import Agent, make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.evaluation.credit import worth_interval
from lhb_engine.history import Floats, History
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate

FIRST = 60  # round from which fits are judged
SAID = ("over_chance", "over_best_arm", "still_to_gain")
# days that a rota chose before, and whether anything acts
WEAK = {
    "nothing acts": (0, 0.0),
    "nothing acts, one year": (365, 0.0),
    "weak": (0, 1.0),
    "weak, one year": (365, 1.0),
    "weak, two years": (730, 1.0),
}
ON_BOARD = ("plain", "noise 0.5", "noise 1", "flat 30", "spiking 15", "one-hot", "heavy tails")
# where features pay at lags of their own, noise lasts, or arms never change
LATER = (
    *("clickbait", "clickbait, noise 0.5", "clickbait, smooth", "own lags"),
    *("AR(1) noise", "AR(1) 0.95", "ten fixed arms"),
)
BY_NAME = {world.name: world for world in (*PROFILES, *TOLD, *BOARD, *HARDER, *LIFE)}
WORLDS = (*WEAK, *ON_BOARD, *LATER)
OF_ARMS = ("in_all", "over_next")
BY_LUCK = 4 / 3  # as on the page: the best of several looks better than it is

Judged = dict[str, list[tuple[float, float, float, float]]]  # truth, value, low, high


def truth(world: LongHorizonEnvironment, found: Estimate, sets: Mapping[int, Floats]) -> Floats:
    """Return what `SAID` are in truth, and the share of sets whose likeliest arm pays most."""
    assert found.theta is not None
    deciding = found.theta[None] if found.candidates is None else found.candidates
    total, each = float(world.weights.sum()), []
    pays_by_arm = []
    for number, contexts in sets.items():
        pays = total * world.signals(contexts[None], number)[0]
        turns = (contexts @ deciding.T).argmax(axis=0)
        earned, likeliest = pays[turns].mean(), (contexts @ found.theta).argmax()
        each.append([earned - pays.mean(), earned, pays.max() - earned, likeliest == pays.argmax()])
        pays_by_arm.append(pays)
    mean = np.mean(each, axis=0)
    mean[1] -= np.mean(pays_by_arm, axis=0).max()
    return np.asarray(mean)


def of_arms(world: LongHorizonEnvironment, found: Estimate, sets: Mapping[int, Floats]) -> Judged:
    """Return what arms of the latest set pay in all, and the best of them beside the next best."""
    if found.totals is None or not sets:
        return {}
    contexts = sets[max(sets)]
    values = contexts @ found.totals["values"]
    last, best = np.argsort(values)[-2:]
    asked = {"in_all": contexts, "over_next": contexts[[best]] - contexts[[last]]}
    judged: Judged = {}
    for (one, rows), wider in zip(asked.items(), (1.0, BY_LUCK), strict=True):
        true = float(world.weights.sum()) * (rows @ world.theta)
        said = rows @ found.totals["values"]
        ends = [worth_interval(found.totals, row) for row in rows]
        judged[one] = [
            (float(t), float(v), v + wider * (band[0] - v), v + wider * (band[1] - v))
            for t, v, band in zip(true, said, ends, strict=True)
            if band is not None
        ]
    return judged


def play(name: str, seed: int) -> list[Judged]:
    """Return what each fit of a run says and what is true."""
    run: dict[str, Any] = {"seed": seed}
    world: LongHorizonEnvironment
    if name in WEAK:
        before, acts = WEAK[name]
        world = weak = WeakWorld.of(seed, before)
        world.theta = world.theta * acts
        agent, rounds = agent_of("anytime", weak, before), before + weak.rounds
    else:
        kind: World = BY_NAME[name]
        world, rounds = kind.draw(seed), kind.rounds
        agent = make_agent("anytime", dim=kind.dim, horizon=kind.horizon, **kind.options)
        run["measure"] = partial(measured, kind.seen, seed=seed)
    judged: list[Judged] = []

    def fit(agent: Agent, history: History) -> Estimate:
        found = agent.fit(history)
        if found.gain is not None and found.last_round >= FIRST:
            true = truth(world, found, history.sets)
            said: Judged = {
                one: [(float(value), *(found.gain[one][end] for end in ("value", "low", "high")))]
                for one, value in zip(SAID, true, strict=False)
                if found.gain[one] is not None
            }
            right = found.gain["best_is_right"]
            said |= {"best_is_right": [(float(true[3]), right, 0.0, 1.0)]}
            judged.append(said | of_arms(world, found, history.sets))
        return found

    simulate(agent, world, n_rounds=rounds, run_fit=fit, **run)
    return judged


def run(
    worlds: Sequence[str],
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Play every world.

    Returns
    -------
    list of dict
        For each world the number of fits, and for each number that is said: its mean in truth and
        as said, and the share of the fits whose interval holds the truth, with the standard error
        over runs.
    """
    rows, right = [], []
    for name in worlds:
        played = Parallel(n_jobs=jobs)(delayed(play)(name, seed) for seed in seeds)
        right += [[each for fit in fits for each in fit["best_is_right"]] for fits in played]
        row: dict[str, Any] = {"world": name, "fits": sum(map(len, played))}
        for one in (*SAID, *OF_ARMS, "best_is_right"):
            given = [[each for fit in fits for each in fit.get(one, [])] for fits in played]
            runs = [np.array(each).reshape(-1, 4) for each in given]
            every = np.concatenate(runs)
            if not len(every):
                row[one] = None
                continue
            holds = [(t[:, 2] - 1e-9 <= t[:, 0]) & (t[:, 0] <= t[:, 3] + 1e-9) for t in runs]
            share = float(np.mean(np.concatenate(holds)))
            left = [float(np.sum(h - share)) for h in holds]
            error = float(np.sqrt(np.sum(np.square(left)))) / max(len(every), 1)
            row[one] = {
                "given": len(every),
                "true": float(every[:, 0].mean()),
                "said": float(every[:, 1].mean()),
                "holds": share,
                "error": error,
            }
        rows.append(row)
        progress(line(row))
    for tenth in tenths([np.array(each).reshape(-1, 4) for each in right]):
        progress(tenth)
    return rows


def tenths(runs: Sequence[Floats]) -> list[str]:
    """Say how often the best choice is right in fits of all worlds, by tenths of what is said.

    `runs` (n_fits, 4) begin with truth and what is said. The error is that of their difference,
    over runs.
    """
    lines = []
    for i in range(10):
        some = [run[np.clip(10.0 * run[:, 1], 0.0, 9.0).astype(int) == i, :2] for run in runs]
        every = np.concatenate(some)
        if len(every):
            true, said = every.mean(axis=0)
            sums = [float(np.sum(one @ [-1.0, 1.0] - (said - true))) for one in some]
            error = float(np.linalg.norm(sums)) / len(every)
            lines.append(
                f"Best is right: true {true:.3f}, said {said:.3f} ± {error:.3f} of {len(every)}"
            )
    return lines


HEADER = (
    "| world | fits | over chance: true, said, holds | over best arm | still to gain"
    " | an arm in all | the best arm over the next | best is right: true, said |\n|-|-|-|-|-|-|-|-|"
)


def line(row: dict[str, Any]) -> str:
    """Format one world as a line of a Markdown table."""
    said = " | ".join(
        "{true:.3f}, {said:.3f}, {holds:.3f} ± {error:.3f} of {given}".format(**row[one])
        if row[one]
        else "none"
        for one in (*SAID, *OF_ARMS)
    )
    sure = row["best_is_right"]
    right = "{true:.2f}, {said:.2f}".format(**sure) if sure else "none"
    return f"| {row['world']} | {row['fits']} | {said} | {right} |"
