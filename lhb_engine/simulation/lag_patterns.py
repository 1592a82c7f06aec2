"""Random lag weights for simulated worlds, by named patterns (docs/model.md, 8)."""

import math

import numpy as np

from lhb_engine.history import Floats

PATTERNS = ("flat", "spiking", "random", "single", "early_mass", "late_mass")

SPIKE_SHARE, SPIKE_SIZE = 0.2, 20.0
EARLY_SHARE, LATE_SHARE = 0.3, 0.6


def lag_weights(pattern: str, horizon: int, sparsity: int, rng: np.random.Generator) -> Floats:
    """Draw lag weights w >= 0 with sum 1, a (horizon,) array.

    Parameters
    ----------
    pattern : str
        "flat": equal. "spiking": ceil(0.2 s) of them are 20 times the rest. "random": uniform
        on (0, 1). "single": one nonzero, whatever `sparsity`. "early_mass", "late_mass": equal,
        all within the first 0.3 h or the last 0.6 h lags.
    horizon : int
        Number of lags h.
    sparsity : int
        Number of nonzeros s; the support is uniform over the allowed lags.
    rng : Generator

    Raises
    ------
    ValueError
        Unknown pattern, or more nonzeros than lags allowed.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern: {pattern!r} is none of {', '.join(PATTERNS)}")
    n_active = 1 if pattern == "single" else sparsity
    start, stop = 0, horizon
    if pattern == "early_mass":
        stop = math.ceil(EARLY_SHARE * horizon)
    elif pattern == "late_mass":
        start = horizon - math.floor(LATE_SHARE * horizon)
    if not 1 <= n_active <= stop - start:
        raise ValueError(f"sparsity: {pattern} takes 1 to {stop - start} nonzeros")
    support = rng.choice(np.arange(start, stop), size=n_active, replace=False)
    sizes = np.ones(n_active)
    if pattern == "spiking":
        sizes[: math.ceil(SPIKE_SHARE * n_active)] = SPIKE_SIZE
    elif pattern == "random":
        sizes = 1.0 - rng.random(n_active)  # never exactly zero
    weights = np.zeros(horizon)
    weights[support] = sizes / sizes.sum()
    return weights
