"""The history of a fit, built from stored rows."""

from collections.abc import Sequence

import numpy as np

from lhb_engine.history import FitWindow, Floats, History, Ints, Measurements, Trajectory
from service.records import DueFit, SessionRow
from service.storage.reader import Reader

Measured = Sequence[tuple[int, int, float]]  # first round, last round and value of each


def read_history(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit | None = None
) -> History:
    """Build the history that `Agent.fit` gets.

    Parameters
    ----------
    reader : Reader
        A snapshot of the stored rows.
    session : SessionRow
        The session; it gives the dimension, the reward mode and the default reward.
    window : FitWindow
        The rounds to fit, by position. Contexts also cover the ``n_lags - 1`` rounds before.
    due : DueFit, optional
        The fit's manifest. Later measurements are left out. Each closed round gets the sum of its
        rewards in sum mode, and otherwise the default reward if nothing measures it. Without it,
        all measurements count and no round is closed.

    Returns
    -------
    History
        Contexts and measurements of each trajectory.
    """
    trajectories = {}
    for name, first, last in reader.rounds_in_window(session.key, window.first, window.last):
        start = max(1, first - (window.n_lags - 1))
        key = (*session.key, name)
        contexts, positions = _contexts(
            reader.selected_contexts(key, start, last), start, last, session
        )
        number = 2**62 if due is None else due.measured.get(name, 0)
        closed = 0 if due is None else min(last, due.closed.get(name, 0))
        rows: Measured = reader.measured_values(key, start, last, number)
        if session.reward_mode == "sum":
            rows = _sums(rows, first, closed)
        elif session.default_reward is not None:
            edges = (reader.measurement_over(key, edge, edge) for edge in (start, last))
            across = [m[3:5] for m in edges if m is not None and m.number <= number]
            rows = _filled(rows, across, first, closed, session.default_reward)
        trajectories[name] = Trajectory(
            contexts=contexts,
            measurements=_measurements(rows),
            first_round=start,
            positions=positions,
        )
    return History(session.dim, trajectories).over(window)


def _contexts(
    rows: Sequence[tuple[int, int, bytes]], start: int, last: int, session: SessionRow
) -> tuple[Floats, Ints]:
    contexts = np.zeros((last - start + 1, session.dim))
    positions = np.zeros(last - start + 1, dtype=np.int64)
    for round, position, context in rows:
        positions[round - start] = position
        if context:
            contexts[round - start] += np.frombuffer(context)
    return contexts, positions


def _sums(rows: Measured, first: int, closed: int) -> Measured:
    """Return one row for each closed round, with the sum of its rewards (0 if none)."""
    sums = dict.fromkeys(range(first, closed + 1), 0.0)
    for start, _, value in rows:
        if start in sums:
            sums[start] += value
    return [(round, round, value) for round, value in sums.items()]


def _filled(
    rows: Measured, across: Sequence[tuple[int, int]], first: int, closed: int, default: float
) -> Measured:
    """Add a row with the default reward for every closed round that nothing measures.

    `across` holds measurements that cross an edge of the window. They are no rows of the fit, but
    their rounds are measured.
    """
    spans = [*across, *((start, last) for start, last, _ in rows)]
    measured = {r for start, last in spans for r in range(max(first, start), min(closed, last) + 1)}
    absent = [r for r in range(first, closed + 1) if r not in measured]
    return sorted([*rows, *((r, r, default) for r in absent)])


def _measurements(rows: Measured) -> Measurements:
    starts, lasts, values = zip(*rows, strict=True) if rows else ((), (), ())
    return Measurements(
        np.array(starts, dtype=np.int64),
        np.array(lasts, dtype=np.int64),
        np.array(values, dtype=np.float64),
    )
