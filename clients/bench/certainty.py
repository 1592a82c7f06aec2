"""Whether what `anytime` says of its own error is true: its angle, and its alarms."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from clients.bench.regret_scoreboard import BOARD, DENSE, LIFE, World
from lhb_engine.agents import make_agent
from lhb_engine.simulation.harder_environments import measured
from lhb_engine.simulation.play import simulate

SETTLED = 100  # rounds from which fits are looked at
ELSEWHERE = ("plain", "flat 30")  # on the main board
CHANGING = ("theta rotates", "theta rotates, memory 500")
WORLDS = (*BOARD, *DENSE, *(w for w in LIFE if w.name not in (*ELSEWHERE, *CHANGING)))


def play(world: World, seed: int) -> tuple[list[tuple[float | None, float]], int]:
    """Play one run.

    Returns
    -------
    list of (said, true)
        Of every direction found from 100 rounds on: the angle that holds with 95%, in radians, or
        None where nothing is said, and the true angle.
    int
        Fits that raised an alarm.
    """
    environment = world.draw(seed)
    agent = make_agent("anytime", dim=world.dim, horizon=world.horizon, **world.options)
    run = simulate(
        agent,
        environment,
        n_rounds=world.rounds,
        seed=seed,
        measure=partial(measured, world.seen, seed=seed),
    )
    found = []
    for estimate in run.estimates:
        if estimate.theta is not None and estimate.last_round >= SETTLED:
            cosine = float(np.clip(estimate.theta @ environment.theta, -1.0, 1.0))
            found.append((estimate.diagnostics["angle_95"], float(np.arccos(cosine))))
    return found, sum(bool(e.diagnostics.get("alarm")) for e in run.estimates)


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
        For each world the number of directions, of how many the angle is said, the share of those
        in which it holds, the root mean squares of the angles said and true where one is said, and
        the number of runs with an alarm.
    """
    rows = []
    for world in worlds:
        played = Parallel(n_jobs=jobs)(delayed(play)(world, seed) for seed in seeds)
        every = [pair for found, _ in played for pair in found]
        said = np.array([pair for pair in every if pair[0] is not None]).reshape(-1, 2)
        row = {
            "world": world.name,
            "directions": len(every),
            "said": len(said),
            "covered": float(np.mean(said[:, 1] <= said[:, 0])) if len(said) else None,
            "angle_95": float(np.sqrt(np.mean(said[:, 0] ** 2))) if len(said) else None,
            "true_angle": float(np.sqrt(np.mean(said[:, 1] ** 2))) if len(said) else None,
            "runs": len(played),
            "alarmed": sum(alarms > 0 for _, alarms in played),
        }
        rows.append(row)
        progress(line(row))
    return rows


HEADER = "| world | said | covered | 95% angle | true angle | runs with an alarm |\n|-|-|-|-|-|-|"


def line(row: dict[str, Any]) -> str:
    """One world as a line of a Markdown table."""
    numbers = ("covered", "angle_95", "true_angle")
    shown = " | ".join("-" if row[name] is None else f"{row[name]:.2f}" for name in numbers)
    said = f"{row['said']} of {row['directions']}"
    return f"| {row['world']} | {said} | {shown} | {row['alarmed']} of {row['runs']} |"
