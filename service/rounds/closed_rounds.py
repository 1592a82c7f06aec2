"""The rows of sessions in which time closes rounds: sums of rewards, and default rewards."""

import numpy as np

from lhb_engine.history import Measurements

Value = tuple[int, int, float]  # first round, last round and value of a measurement


def completed(
    rows: Measurements, first: int, closed: int, reward_mode: str, default: float | None
) -> Measurements:
    """Return the rows of a session in which time closes rounds, rounds first..closed of them."""
    given = list(zip(rows.first.tolist(), rows.last.tolist(), rows.value.tolist(), strict=True))
    if reward_mode == "sum":
        given = _sums(given, first, closed)
    elif default is not None:
        given = _filled(given, first, closed, default)
    starts, lasts, values = zip(*given, strict=True) if given else ((), (), ())
    return Measurements(
        np.array(starts, np.int64), np.array(lasts, np.int64), np.array(values, np.float64)
    )


def _sums(rows: list[Value], first: int, closed: int) -> list[Value]:
    """Return one row for each closed round, with the sum of its rewards (0 if none)."""
    sums = dict.fromkeys(range(first, closed + 1), 0.0)
    for start, _, value in rows:
        if start in sums:
            sums[start] += value
    return [(round, round, value) for round, value in sums.items()]


def _filled(rows: list[Value], first: int, closed: int, default: float) -> list[Value]:
    """Add a row with the default reward for every closed round that nothing measures.

    Measurements that cross an edge of the window are no rows of the fit, but their rounds are
    measured.
    """
    spans = ((start, last) for start, last, _ in rows)
    measured = {r for start, last in spans for r in range(max(first, start), min(closed, last) + 1)}
    absent = [r for r in range(first, closed + 1) if r not in measured]
    return sorted([*rows, *((r, r, default) for r in absent)])
