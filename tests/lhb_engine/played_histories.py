"""Played rounds of a small world with two active lags, measured in every way there is."""

import numpy as np

from lhb_engine.history import FitWindow, History, Measurements, Trajectory

DIM, HORIZON = 3, 12
THETA = np.array([0.6, -0.64, 0.48])
GROUPS, EFFECTS = (2, 1), np.array([0.5, -0.3, 1.0])  # of a season's sine and cosine, and a line
LAG_WEIGHTS = np.zeros(HORIZON)
LAG_WEIGHTS[[2, 7]] = 0.7, 0.3


def rewards_of(xi, weights=LAG_WEIGHTS, theta=THETA):
    return np.convolve(xi @ theta, weights)[: len(xi)]


def season_and_line(n):
    """A season of 24 rounds and a line, (n, 3)."""
    t = np.arange(1, n + 1)
    return np.column_stack([np.sin(t * np.pi / 12), np.cos(t * np.pi / 12), t / n])


def history(
    n=240,
    *,
    spans=(),
    keep=None,
    seed=0,
    noise=0.05,
    baseline=0.0,
    n_parts=1,
    effects=None,
    **truth,
):
    """`n` random rounds in each of `n_parts` trajectories, measured singly or over `spans`.

    With `effects`, a season and a line add to the rewards and are their covariates.
    """
    rng = np.random.default_rng(seed)
    parts, position = {}, 1
    for i in range(n_parts):
        xi = rng.uniform(-1, 1, (n, DIM))
        reward = rewards_of(xi, **truth) + baseline + noise * rng.standard_normal(n)
        covariates = None if effects is None else season_and_line(n)
        if effects is not None:
            reward += covariates @ effects
        first, lengths = [], []
        while sum(lengths) < n:
            first.append(sum(lengths) + 1)
            lengths.append(min(int(rng.choice(spans)) if spans else 1, n - sum(lengths)))
        first = np.array(first)
        last = first + np.array(lengths) - 1
        value = np.add.reduceat(reward, first - 1)
        chosen = np.ones(len(first), bool) if keep is None else rng.random(len(first)) < keep
        measured = Measurements(first[chosen], last[chosen], value[chosen])
        positions = np.arange(position, position + n)
        parts[str(i)] = Trajectory(xi, measured, positions=positions, covariates=covariates)
        position += n
    window = FitWindow(1, 1, n * n_parts, HORIZON, n * n_parts)
    return History(DIM, parts, groups=() if effects is None else GROUPS).over(window)


KINDS = {
    "complete": {},
    "missing": {"keep": 0.6},
    "spans": {"spans": (1, 3, 7)},
    "trajectories": {"n": 25, "n_parts": 8, "keep": 0.8},
}
WITH_COVARIATES = {
    "covariates": {"effects": EFFECTS},
    "covariates of spans": {"effects": EFFECTS, "spans": (1, 3, 7), "keep": 0.8},
    "covariates of trajectories": {"effects": EFFECTS, "n": 60, "n_parts": 4},
}
