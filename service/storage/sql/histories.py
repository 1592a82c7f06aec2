"""A fit's history from stored rows, the same from every database."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lhb_engine.history import FitWindow, Floats, History, Ints, Measurements, Trajectory
from service.records import DueFit, MeasurementRow, SessionKey, SessionRow, TrajectoryKey

Rows = Sequence[tuple[int, int, float]]


class Log(Protocol):
    """The raw reads that a history is made of."""

    def rounds_in_window(
        self, key: SessionKey, first: int, last: int
    ) -> list[tuple[str, int, int]]:
        """Of each trajectory, its first and last round whose position lies in first..last; in
        key order."""

    def selected_contexts(
        self, key: TrajectoryKey, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Round, position and selected context of every decision of rounds first..last."""

    def measured_values(
        self, key: TrajectoryKey, first: int, last: int, number: int
    ) -> list[tuple[int, int, float]]:
        """First round, last round and value of measurements within first..last, up to a number."""

    def measurement_over(self, key: TrajectoryKey, first: int, last: int) -> MeasurementRow | None:
        """A measurement that shares a round with first..last (the one that starts last)."""


def read_history(
    log: Log, session: SessionRow, window: FitWindow, due: DueFit | None = None
) -> History:
    """The history that `Agent.fit` gets: contexts of the window and its lags, measured values.

    With `due`, measurements beyond its manifest do not exist, and rounds that time has closed
    count what sum mode or the default reward says.
    """
    trajectories = {}
    for name, first, last in log.rounds_in_window(session.key, window.first, window.last):
        start = max(1, first - (window.n_lags - 1))
        key = (*session.key, name)
        contexts, positions = _contexts(
            log.selected_contexts(key, start, last), start, last, session
        )
        number = 2**62 if due is None else due.measured.get(name, 0)
        closed = 0 if due is None else min(last, due.closed.get(name, 0))
        rows: Rows = log.measured_values(key, start, last, number)
        if session.reward_mode == "sum":
            rows = _sums(rows, first, closed)
        elif session.default_reward is not None:
            edges = (log.measurement_over(key, edge, edge) for edge in (start, last))
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


def _sums(rows: Rows, first: int, closed: int) -> Rows:
    """Sum mode: the sum of each closed round, 0 of nothing."""
    sums = dict.fromkeys(range(first, closed + 1), 0.0)
    for start, _, value in rows:
        if start in sums:
            sums[start] += value
    return [(round, round, value) for round, value in sums.items()]


def _filled(
    rows: Rows, across: Sequence[tuple[int, int]], first: int, closed: int, default: float
) -> Rows:
    """The default for every closed round that nothing measures; a span across the window's edge
    measures its rounds, though it is no row of this fit."""
    spans = [*across, *((start, last) for start, last, _ in rows)]
    measured = {r for start, last in spans for r in range(max(first, start), min(closed, last) + 1)}
    absent = [r for r in range(first, closed + 1) if r not in measured]
    return sorted([*rows, *((r, r, default) for r in absent)])


def _measurements(rows: Rows) -> Measurements:
    starts, lasts, values = zip(*rows, strict=True) if rows else ((), (), ())
    return Measurements(
        np.array(starts, dtype=np.int64),
        np.array(lasts, dtype=np.int64),
        np.array(values, dtype=np.float64),
    )
