"""What is learned where rounds are slots of time: many decisions a slot, and totals only.

A slot has a Poisson number of decisions. The agent is told one number a slot, the total over all
decisions; what each of them earned is not known to anybody.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lhb_engine.agents import make_agent
from lhb_engine.history import Floats, History, Measurements, Trajectory
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment

DIM, HORIZON, N_ARMS, NOISE, SPARSITY = 5, 48, 10, 0.1, 4
HEADER = """| decisions a slot | 1 - abs(cos) | highest | regret a decision, first tenth | last |
|-|-|-|-|-|"""


@dataclass(frozen=True)
class ClockRun:
    """One run.

    Attributes
    ----------
    cosine : float
        |cos| of the angle between theta and its last estimate; 0 without one.
    regret : (n_slots,) array
        Regret of the slot's decisions, by the sum of the lag weights.
    n_decisions : (n_slots,) array
    """

    cosine: float
    regret: Floats
    n_decisions: Floats


def play(a_slot: float, seed: int, n_slots: int = 1000) -> ClockRun:
    """Play `anytime` for some slots.

    Parameters
    ----------
    a_slot : float
        Mean number of decisions a slot. Each has noise of its own, so that the noise of a total
        grows with the root of this.
    seed : int
    n_slots : int
    """
    world = LongHorizonEnvironment.draw(
        dim=DIM, horizon=HORIZON, noise=NOISE * np.sqrt(a_slot), sparsity=SPARSITY, seed=seed
    )
    rng = np.random.default_rng([seed, 1])
    counts = rng.poisson(a_slot, n_slots)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    window = agent.next_fit(0)
    slots: list[int] = []
    chosen: list[Floats] = []
    regret = np.zeros(n_slots)
    for slot in range(1, n_slots + 1):
        contexts = rng.uniform(-1.0, 1.0, (counts[slot - 1], N_ARMS, DIM))
        for arms in contexts:
            number = len(slots) + 1
            arm = agent.choose(arms, Draw(seed, "", number, number, slot)).arm
            slots.append(slot)
            chosen.append(arms[arm])
            signals = arms @ world.theta
            regret[slot - 1] += signals.max() - signals[arm]
        if window is not None and slot == window.due:
            sums = np.zeros((slot, DIM))
            np.add.at(sums, np.array(slots, np.int64) - 1, np.array(chosen).reshape(-1, DIM))
            totals = world.rewards(sums @ world.theta)
            rows = Measurements.single(np.arange(1, slot + 1), totals)
            history = History(DIM, {"": Trajectory(sums, rows)})
            estimate = agent.fit(history.over(window))
            if estimate.theta is not None:
                agent.install(estimate)
            window = agent.next_fit(slot)
    cosine = 0.0 if agent.theta is None else abs(float(agent.theta @ world.theta))
    return ClockRun(cosine, regret * world.weights.sum(), counts.astype(np.float64))


def run(
    a_slot: Iterable[float], seeds: Iterable[int], progress: Callable[[str], None], n_slots: int
) -> list[dict[str, Any]]:
    """Play every number of decisions a slot with every seed; return a row for each number."""
    rows = []
    for mean in a_slot:
        runs = [play(mean, seed, n_slots) for seed in seeds]
        missing = 1.0 - np.array([one.cosine for one in runs])
        tenth = max(1, n_slots // 10)
        first, last = (
            sum(one.regret[part].sum() for one in runs)
            / max(1.0, sum(one.n_decisions[part].sum() for one in runs))
            for part in (slice(tenth), slice(-tenth, None))
        )
        rows.append(
            {
                "decisions_a_slot": mean,
                "missing_cosine": float(missing.mean()),
                "highest_missing_cosine": float(missing.max()),
                "regret_first_tenth": float(first),
                "regret_last_tenth": float(last),
                "n_runs": len(runs),
            }
        )
        progress(
            f"| {mean:g} | {missing.mean():.1e} | {missing.max():.1e} | {first:.3f} | {last:.1e} |"
        )
    return rows
