"""Played rounds of a small world with two active lags, measured in every way there is."""

import numpy as np

from lhb_engine.history import FitWindow, History, Measurements, Trajectory

DIM, HORIZON = 3, 12
THETA = np.array([0.6, -0.64, 0.48])
LAG_WEIGHTS = np.zeros(HORIZON)
LAG_WEIGHTS[[2, 7]] = 0.7, 0.3


def rewards_of(xi, weights=LAG_WEIGHTS, theta=THETA):
    return np.convolve(xi @ theta, weights)[: len(xi)]


def history(n=240, *, spans=(), keep=None, seed=0, noise=0.05, baseline=0.0, n_parts=1, **truth):
    """`n` random rounds in each of `n_parts` trajectories, measured singly or over `spans`."""
    rng = np.random.default_rng(seed)
    parts, position = {}, 1
    for i in range(n_parts):
        xi = rng.uniform(-1, 1, (n, DIM))
        reward = rewards_of(xi, **truth) + baseline + noise * rng.standard_normal(n)
        first, lengths = [], []
        while sum(lengths) < n:
            first.append(sum(lengths) + 1)
            lengths.append(min(int(rng.choice(spans)) if spans else 1, n - sum(lengths)))
        first = np.array(first)
        last = first + np.array(lengths) - 1
        value = np.add.reduceat(reward, first - 1)
        chosen = np.ones(len(first), bool) if keep is None else rng.random(len(first)) < keep
        measured = Measurements(first[chosen], last[chosen], value[chosen])
        parts[str(i)] = Trajectory(xi, measured, positions=np.arange(position, position + n))
        position += n
    window = FitWindow(1, 1, n * n_parts, HORIZON, n * n_parts)
    return History(DIM, parts).over(window)


KINDS = {
    "complete": {},
    "missing": {"keep": 0.6},
    "spans": {"spans": (1, 3, 7)},
    "trajectories": {"n": 25, "n_parts": 8, "keep": 0.8},
}
