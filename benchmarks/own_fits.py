"""What a fit costs where users have responses of their own, beside the same without.

A fit looks at the session's last 32 768 rounds. Where users come one after another these are all
rounds of few users; where all play in turn, the last round of each of many, with the lags before
it. The first fit is the dearest: nothing of it is known.
"""

from time import thread_time
from typing import Any

import numpy as np

from lhb_engine.agents import make_agent
from lhb_engine.history import LATEST, FitWindow, History, Measurements, Trajectory

DIM, HORIZON, NOISE, SPREAD = 5, 20, 0.1, 0.3
HEADER = (
    "\n| rounds of each user | users come | fit with `own`, CPU s | without | a user's "
    "own theta, ms |\n|-|-|-|-|-|"
)


def size(n_rounds: int, seed: int, n_users: int) -> list[dict[str, Any]]:
    """Time fits of a session in which each user has had `n_rounds` rounds.

    Returns
    -------
    list of dict
        Of users who come one after another, and of such who play in turn: least CPU seconds of two
        fits with `own` and of two `without`, the milliseconds of one user's own theta, and the
        mean `spread` that the fit finds.
    """
    last = n_users * n_rounds
    n_last = min(LATEST, last)
    rows = []
    for order in ("one after another", "in turn"):
        in_turn = order == "in turn"
        n_kept = min(n_last, n_users) if in_turn else min(n_last // n_rounds + 1, n_users)
        users = _users(n_kept, n_rounds, last, n_users if in_turn else 1, seed)
        window = FitWindow(1, last - n_last + 1, last, HORIZON, last)
        history = History(DIM, users).over(window)
        row: dict[str, Any] = {"n_rounds": n_rounds, "order": order}
        for name, own in (("fit", True), ("without", False)):
            agent = make_agent("anytime", dim=DIM, horizon=HORIZON, own=own)
            row[name] = np.inf
            for _ in range(2):
                began = thread_time()
                estimate = agent.fit(history)
                row[name] = min(row[name], thread_time() - began)
            if own:
                row["spread"] = float(np.mean(estimate.own["spread"])) if estimate.own else None
                agent.install(estimate)
                key, tail = [*users.items()][-1]
                began = thread_time()
                for _ in range(50):
                    agent.of(key, tail)
                row["theta_ms"] = (thread_time() - began) / 50 * 1e3
        rows.append(row)
    return rows


def _users(n: int, n_rounds: int, last: int, apart: int, seed: int) -> dict[str, Trajectory]:
    """Draw the last users, whose rounds are `apart` in the session; of long ones the last lags."""
    rng, users = np.random.default_rng(seed), {}
    weights = np.zeros(HORIZON)
    weights[rng.choice(HORIZON, 5, replace=False)] = 0.2
    theta = rng.standard_normal(DIM)
    theta /= np.linalg.norm(theta)
    kept = n_rounds if apart == 1 else min(n_rounds, HORIZON)
    for i in range(n):
        contexts = rng.uniform(-1.0, 1.0, (kept, DIM))
        own = theta + SPREAD * rng.standard_normal(DIM) / DIM**0.5
        rewards = np.convolve(contexts @ own, weights)[:kept] + NOISE * rng.standard_normal(kept)
        rounds = np.arange(n_rounds - kept + 1, n_rounds + 1)
        end = last - (n - 1 - i) * (n_rounds if apart == 1 else 1)
        users[f"{i:07}"] = Trajectory(
            contexts,
            Measurements.single(rounds, rewards),
            n_rounds - kept + 1,
            positions=end - apart * np.arange(kept - 1, -1, -1),
        )
    return users
