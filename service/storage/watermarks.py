"""Manifests from before schema 0006, as watermarks.

They named the last measurement and the last closed round of every trajectory. Measurements had no
number in their session.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lhb_engine.history import Ints

Counts = Mapping[str, int]  # by trajectory


def arrival_order(
    times: Mapping[str, Sequence[float]], manifests: Sequence[Counts]
) -> dict[str, Ints]:
    """Return the positions of measurements in their session, in the order of their times.

    Measurements of one time are ordered such that every manifest holds the first ones of all.

    Parameters
    ----------
    times : mapping from str to sequence of float
        Of each trajectory: when its measurements came, in order of their numbers.
    manifests : sequence of mapping
        How many measurements of each trajectory the session's fits could use.

    Returns
    -------
    dict of (n_measurements,) arrays
        Positions of each trajectory's measurements, from 1.
    """
    in_turn = sorted(manifests, key=lambda counts: sum(counts.values()))
    ranks, ats, names = [], [], []
    for i, (name, at) in enumerate(times.items()):
        used = np.maximum.accumulate([0, *(counts.get(name, 0) for counts in in_turn)])
        ranks.append(np.searchsorted(used, np.arange(1, len(at) + 1)))
        ats.append(np.maximum.accumulate(np.asarray(at, dtype=np.float64)))
        names.append(np.full(len(at), i))
    if not names:
        return {}
    order = np.lexsort([np.concatenate(part) for part in (names, ats, ranks)])
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(1, len(order) + 1)
    ends = np.cumsum([len(part) for part in names])[:-1]
    return dict(zip(times, np.split(positions, ends), strict=True))


def is_old(manifest: dict[str, Any]) -> bool:
    """Return whether a manifest names measurements by trajectory."""
    return isinstance(manifest["measured"], dict)


def as_watermark(
    manifest: dict[str, Any], wait_seconds: float, position_of: Callable[[str, int], int]
) -> dict[str, Any]:
    """Return an old manifest as a watermark, for measurements numbered by `arrival_order`.

    Parameters
    ----------
    manifest : dict
    wait_seconds : float
        The session's `reward_wait_seconds`.
    position_of : callable
        Returns the position of a trajectory's round.
    """
    closed = manifest["closed"]
    new = {
        "window": manifest["window"],
        "measured": sum(manifest["measured"].values()),
        "decided": max((position_of(name, n + 1) for name, n in closed.items()), default=0),
        "closed_at": max(0.0, manifest["due_at"] - wait_seconds),
    }
    return {**new, **{name: v for name, v in manifest.items() if name not in (*new, "closed")}}
