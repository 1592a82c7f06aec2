"""Whether what an algorithm says of its own error is true: its intervals, angle and alarms."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.regret_scoreboard import BOARD, DENSE, LIFE, PROFILES, World
from benchmarks.worlds import NoiseGrows, OneNegative, SmallTurn, measured
from lhb_engine.agents import make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate

SETTLED = 100  # rounds from which fits are looked at
ELSEWHERE = ("plain", "flat 30")  # on the main board
CHANGING = ("theta rotates", "theta rotates, memory 500")
FIXED = ("one-hot, h = 4", "one-hot", "ten fixed arms")  # nothing is said there
WEAK = (
    *(World(f"noise {noise}", noise=noise) for noise in (0.3, 0.5, 0.7, 1.0)),
    *(World(f"{p} 15, noise 0.3", p, 15, noise=0.3) for p in ("flat", "spiking")),
    World("theta turns by 30 degrees", environment=SmallTurn),
    World("one negative lag, not told", environment=OneNegative),
    World("noise grows with the reward", environment=NoiseGrows),
)
WORLDS = (
    *BOARD,
    *WEAK,
    *DENSE,
    *(w for w in LIFE if w.name not in (*ELSEWHERE, *CHANGING, *FIXED)),
    *PROFILES,
)
QUANTITIES = ("theta", "lag weights", "angle", "lag profiles")
OPTIONS: dict[str, dict[str, Any]] = {"anytime": {}, "ad_lasso": {"standard_errors": True}}

Said = dict[str, list[bool]]


def direction_of(world: LongHorizonEnvironment, estimate: Estimate) -> tuple[Floats, float]:
    """Return theta at the last round of an estimate, of length 1, and the length of theta.

    Of what counts in its scores: after features come the products that were found.
    """
    theta = np.append(world.theta, np.zeros(len(estimate.products)))
    if hasattr(world, "theta_at"):
        theta = world.theta_at(np.array([estimate.last_round]))[0]
    if hasattr(world, "coefficients"):
        theta = world.coefficients(estimate.products)
    length = float(np.linalg.norm(theta))
    return theta / length, length


def held(estimate: Estimate, world: LongHorizonEnvironment, *, drawn: bool = False) -> Said | None:
    """Return for each quantity whether what is said of it holds; None where nothing is said.

    Bands of draws, which nobody says to hold, are looked at with `drawn`, and they alone; lag
    weights then of lags that pay.
    """
    intervals = estimate.intervals
    if estimate.theta is None or intervals is None or intervals.get("drawn", False) != drawn:
        return None
    theta = np.array(intervals["theta"])
    true, length = direction_of(world, estimate)
    weights = world.weights[intervals["lags"]] * length
    pairs = zip(intervals["lag_weights"], weights, strict=True)
    given = [(i, w) for i, w in pairs if i and (w or not drawn)]
    own = np.array(intervals.get("lag_profiles", [])).reshape(-1, len(true), 2)
    profiles = getattr(world, "profiles", np.outer(world.weights, true * length))[: len(own)]
    profiles = np.pad(profiles, ((0, 0), (0, len(true) - profiles.shape[1])))  # of products
    holds = ((theta[:, 0] <= true) & (true <= theta[:, 1])).tolist()
    cosine = float(np.clip(estimate.theta @ true, -1.0, 1.0))
    most = estimate.diagnostics.get("angle_95")  # ad_lasso says no angle
    return {
        "theta": holds,
        "lag weights": [bool(low <= w <= high) for (low, high), w in given],
        "angle": [] if most is None else [bool(np.arccos(cosine) <= most)],
        "lag profiles": ((own[..., 0] <= profiles) & (profiles <= own[..., 1])).ravel().tolist(),
    }


def play(
    world: World, seed: int, algorithm: str = "anytime", *, drawn: bool = False
) -> tuple[list[Said | None], list[tuple[float, float]], int]:
    """Play one run.

    Parameters
    ----------
    world : World
    seed : int
    algorithm : str
        One of `OPTIONS`.
    drawn : bool
        Look at bands of draws instead of intervals.

    Returns
    -------
    list of dict or None
        `held` of every direction found from 100 rounds on.
    list of (said, true)
        The root mean square angle said, and the true one, where one is said; radians.
    int
        Fits that raised an alarm.
    """
    environment = world.draw(seed)
    options = world.options if algorithm == "anytime" else OPTIONS[algorithm]
    agent = make_agent(algorithm, dim=world.dim, horizon=world.horizon, **options)
    run = simulate(
        agent,
        environment,
        n_rounds=world.rounds,
        seed=seed,
        run_fit=lambda agent, history: agent.checked_fit(history),  # what sessions say
        measure=partial(measured, world.seen, seed=seed),
    )
    found, angles = [], []
    for estimate in run.estimates:
        if estimate.theta is None or estimate.last_round < SETTLED:
            continue
        said = held(estimate, environment, drawn=drawn)
        found.append(said)
        if said is not None and said["angle"]:
            cosine = float(np.clip(estimate.theta @ direction_of(environment, estimate)[0], -1, 1))
            angles.append((estimate.diagnostics["angle"], float(np.arccos(cosine))))
    return found, angles, sum(bool(e.diagnostics.get("alarm")) for e in run.estimates)


def run(
    worlds: Sequence[World],
    seeds: Sequence[int],
    *,
    algorithm: str = "anytime",
    drawn: bool = False,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Play every world with one of the algorithms in `OPTIONS`; `drawn` as in `play`.

    Returns
    -------
    list of dict
        For each world the number of directions, of how many something is said, the runs and those
        with an alarm, the root mean squares of the angles said and true, and for each quantity how
        many intervals there are, the share that holds, and its standard error over runs.
    """
    rows = []
    for world in worlds:
        played = Parallel(n_jobs=jobs)(
            delayed(play)(world, seed, algorithm, drawn=drawn) for seed in seeds
        )
        every = [said for found, _, _ in played for said in found]
        angles = np.array([pair for _, pairs, _ in played for pair in pairs]).reshape(-1, 2)
        sizes = np.sqrt(np.mean(angles**2, axis=0)).tolist() if len(angles) else [None, None]
        row: dict[str, Any] = {
            "world": world.name,
            "directions": len(every),
            "said": sum(said is not None for said in every),
            "said_angle": sizes[0],
            "true_angle": sizes[1],
            "runs": len(played),
            "alarmed": sum(alarms > 0 for _, _, alarms in played),
        }
        for name in QUANTITIES:
            of_runs = [
                [bool(h) for said in found if said is not None for h in said[name]]
                for found, _, _ in played
            ]
            row[name] = share(of_runs)
        rows.append(row)
        progress(line(row))
    return rows


def share(of_runs: Sequence[Sequence[bool]]) -> dict[str, Any]:
    """Return how many intervals there are, the share that holds, and its standard error.

    Intervals of one run depend on each other, so the error is that of a ratio of sums over runs.
    """
    n = sum(len(one) for one in of_runs)
    if n == 0:
        return {"intervals": 0, "covered": None, "error": None}
    covered = sum(sum(one) for one in of_runs) / n
    off = np.array([sum(one) - covered * len(one) for one in of_runs if one])
    m = len(off)
    error = float(np.sqrt(np.sum(off**2) * m / (m - 1)) / n) if m > 1 else None
    return {"intervals": n, "covered": covered, "error": error}


HEADER = (
    "| world | said | theta | lag weights | angle | lag profiles | angle said | true "
    "| runs with an alarm |\n|-|-|-|-|-|-|-|-|-|"
)


def line(row: dict[str, Any]) -> str:
    """One world as a line of a Markdown table."""
    shown = [f"{row['said']} of {row['directions']}"]
    for name in QUANTITIES:
        found = row[name]
        error = "" if found["error"] is None else f" ± {found['error']:.2f}"
        text = (
            f"{found['covered']:.2f}{error} ({found['intervals']})" if found["intervals"] else "-"
        )
        shown.append(text)
    shown += ["-" if row[n] is None else f"{row[n]:.2f}" for n in ("said_angle", "true_angle")]
    shown.append(f"{row['alarmed']} of {row['runs']}")
    return f"| {row['world']} | {' | '.join(shown)} |"
