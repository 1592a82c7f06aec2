"""A fit's history from stored rows, the same from every database."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lhb_engine.history import FitWindow, Floats, History, Ints, Measurements, Trajectory
from service.records import DueFit, Session, SessionKey, TrajectoryKey

Rows = Sequence[tuple[int, int, float]]


class Log(Protocol):
    """The raw reads that a history is made of."""

    def rounds_in_window(
        self, key: SessionKey, first: int, last: int
    ) -> list[tuple[str, int, int]]:
        """Of each trajectory, its first and last round whose position lies in first..last."""

    def selected_contexts(
        self, key: TrajectoryKey, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Round, position and selected context of every decision of rounds first..last."""

    def measured_values(
        self, key: TrajectoryKey, first: int, last: int, number: int
    ) -> list[tuple[int, int, float]]:
        """First round, last round and value of measurements within first..last, up to a number."""


def read_history(
    log: Log, session: Session, window: FitWindow, due: DueFit | None = None
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
        rows = log.measured_values(key, start, last, number)
        trajectories[name] = Trajectory(
            contexts=contexts,
            measurements=_measurements(rows, session, first, closed),
            first_round=start,
            positions=positions,
        )
    return History(session.dim, trajectories).over(window)


def _contexts(
    rows: Sequence[tuple[int, int, bytes]], start: int, last: int, session: Session
) -> tuple[Floats, Ints]:
    contexts = np.zeros((last - start + 1, session.dim))
    positions = np.zeros(last - start + 1, dtype=np.int64)
    for round, position, context in rows:
        positions[round - start] = position
        if context:
            contexts[round - start] += np.frombuffer(context)
    return contexts, positions


def _measurements(rows: Rows, session: Session, first: int, closed: int) -> Measurements:
    if session.reward_mode == "sum":
        sums = dict.fromkeys(range(first, closed + 1), 0.0)
        for start, _, value in rows:
            if start in sums:
                sums[start] += value
        rows = [(round, round, value) for round, value in sums.items()]
    elif session.default_reward is not None:
        measured = {round for start, last, _ in rows for round in range(start, last + 1)}
        absent = [r for r in range(first, closed + 1) if r not in measured]
        rows = sorted([*rows, *((r, r, session.default_reward) for r in absent)])
    starts, lasts, values = zip(*rows, strict=True) if rows else ((), (), ())
    return Measurements(
        np.array(starts, dtype=np.int64),
        np.array(lasts, dtype=np.int64),
        np.array(values, dtype=np.float64),
    )
