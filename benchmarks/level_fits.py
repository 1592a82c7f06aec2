"""What a fit costs where users have levels of their own, beside the same without.

A fit that installs its estimate sees a third of the rounds, another keeps sums of all but the
latest `NEW`, and the one that is timed goes on from these.
"""

from dataclasses import replace
from time import thread_time
from typing import Any

import numpy as np

from lhb_engine.agents.anytime import Anytime
from lhb_engine.agents.anytime_options import AnytimeOptions
from lhb_engine.history import LATEST, SIZES, FitWindow, History, Measurements, Trajectory

DIM, HORIZON, ROUNDS, LEVELS, NOISE = 5, 20, 40, 1.3, 0.1
NEW = 20_000  # rounds since sums were kept
HEADER = (
    "\n| rounds of users with levels | fit, CPU s | without, CPU s | \\|cos\\| | spread | "
    "its interval |\n|-|-|-|-|-|-|"
)


def size(n_rounds: int, seed: int) -> dict[str, Any]:
    """Time fits of a session of `n_rounds` rounds, `ROUNDS` of each user.

    Returns
    -------
    dict
        Least CPU seconds of three fits (`fit`) and of three that expect no levels (`without`), of
        the first |cos| of the direction and what it says of the levels, whose spread is `LEVELS`.
    """
    rng = np.random.default_rng(seed)
    weights = np.zeros(HORIZON)
    weights[rng.choice(HORIZON, 5, replace=False)] = 0.2
    theta = rng.standard_normal(DIM)
    theta /= np.linalg.norm(theta)
    users = {}
    for user in range(n_rounds // ROUNDS):
        contexts = rng.uniform(-1.0, 1.0, (ROUNDS, DIM))
        rewards = np.convolve(contexts @ theta, weights)[:ROUNDS] + LEVELS * rng.standard_normal()
        rewards += NOISE * rng.standard_normal(ROUNDS)
        rounds = np.arange(1, ROUNDS + 1)
        at = user * ROUNDS + rounds
        measured = Measurements(rounds, rounds, rewards, at)
        users[f"{user:07}"] = Trajectory(contexts, measured, positions=at)
    fit, estimate = _timed(History(DIM, users), levels=True)
    without, _ = _timed(History(DIM, users), levels=False)
    assert estimate.theta is not None
    return {
        "n_rounds": n_rounds,
        "fit": fit,
        "without": without,
        "cosine": abs(float(estimate.theta @ theta)),
        **(estimate.levels or {}),
    }


def _timed(every: History, *, levels: bool) -> tuple[float, Any]:
    """Return the least CPU seconds of three fits, and their estimate."""
    agent = Anytime(DIM, HORIZON, AnytimeOptions(levels=levels))
    n = len(every.trajectories) * ROUNDS
    first, last = max(n // 3, HORIZON), n - NEW
    kept, part = None, every
    if last > LATEST:
        installed = agent.fit(every.over(_window(1, first)))
        agent.install(installed)
        known = replace(every.over(_window(2, last)), measured_before=first)
        _, sums = agent.fit_keeping(known, None)
        assert sums is not None
        kept = sums.after(installs=False)
        start = min(kept.n_settled - 2 * SIZES.grain, n - LATEST - 2 * ROUNDS)
        later = {k: t for k, t in every.trajectories.items() if int(k) * ROUNDS >= start}
        part = replace(every, trajectories=later, measured_before=first)
    history, least = part.over(_window(3, n)), np.inf
    for _ in range(3):
        began = thread_time()
        estimate, _ = agent.fit_keeping(history, kept)
        least = min(least, thread_time() - began)
    return float(least), estimate


def _window(epoch: int, last: int) -> FitWindow:
    return FitWindow(epoch, 1, last, HORIZON, last)
