"""The history of a fit, built from stored rows by a constant number of statements."""

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lhb_engine.history import FitWindow, Floats, History, Ints, Measurements, Trajectory
from service.due_fits import DueFit
from service.records import SessionRow
from service.storage.reader import FOR_EVER, Reader

Value = tuple[int, int, float]  # first round, last round and value of a measurement
Measured = Sequence[Value]
Rounds = tuple[int, Floats, Ints]  # first round; contexts and positions of it and the next ones


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
    place = (session.key, window.first, window.last)
    n_before, default = window.n_lags - 1, session.default_reward
    measured = FOR_EVER if due is None else due.measured
    values = _measured(reader.window_measurements(*place, n_before, measured))
    closed: dict[str, int] = {}
    if due is not None and (session.reward_mode == "sum" or default is not None):
        closed = reader.window_closed(*place, due.decided, due.closed_at)
    trajectories = {}
    rounds = reader.window_rounds(*place, n_before)
    for name, (start, contexts, positions) in _rounds(rounds, session.dim):
        first = start + int(np.searchsorted(positions, window.first))
        last = start + len(positions) - 1
        rows: Measured = values.get(name, ())
        if session.reward_mode == "sum":
            rows = _sums(rows, first, min(last, closed.get(name, 0)))
        elif default is not None:
            rows = _filled(rows, first, min(last, closed.get(name, 0)), default)
        inside = [row for row in rows if row[0] >= start and row[1] <= last]
        trajectories[name] = Trajectory(contexts, _measurements(inside), start, positions)
    return History(session.dim, trajectories).over(window)


def _measured(rows: Iterable[tuple[str, int, int, float]]) -> dict[str, list[Value]]:
    """Return first round, last round and value of the measurements of each trajectory."""
    found: dict[str, list[Value]] = {}
    for name, first, last, value in rows:
        found.setdefault(name, []).append((first, last, value))
    return found


def _rounds(rows: Iterable[tuple[str, int, int, bytes]], dim: int) -> Iterator[tuple[str, Rounds]]:
    """Yield the consecutive rounds of each trajectory; a round's context is the sum of its own."""
    names: list[str] = []
    starts: list[int] = []  # of each trajectory, in the arrays
    rounds, positions, contexts = array("q"), array("q"), bytearray()
    none = bytes(8 * dim)
    for name, round, position, context in rows:
        if not names or name != names[-1]:
            names.append(name)
            starts.append(len(rounds))
        rounds.append(round)
        positions.append(position)
        contexts += context or none
    selected = np.frombuffer(contexts).reshape(-1, dim)
    numbers, places = np.array(rounds, np.int64), np.array(positions, np.int64)
    for name, start, stop in zip(names, starts, [*starts[1:], len(numbers)], strict=True):
        here = slice(start, stop)
        yield name, _together(numbers[here], selected[here], places[here])


def _together(rounds: Ints, contexts: Floats, positions: Ints) -> Rounds:
    """Return the rounds of one trajectory, the decisions of a round taken together."""
    first, n = int(rounds[0]), int(rounds[-1] - rounds[0]) + 1
    if n < len(rounds):
        starts = np.searchsorted(rounds, np.arange(first, first + n))
        contexts, positions = np.add.reduceat(contexts, starts), positions[starts]
    return first, contexts, positions


def _sums(rows: Measured, first: int, closed: int) -> Measured:
    """Return one row for each closed round, with the sum of its rewards (0 if none)."""
    sums = dict.fromkeys(range(first, closed + 1), 0.0)
    for start, _, value in rows:
        if start in sums:
            sums[start] += value
    return [(round, round, value) for round, value in sums.items()]


def _filled(rows: Measured, first: int, closed: int, default: float) -> Measured:
    """Add a row with the default reward for every closed round that nothing measures.

    Measurements that cross an edge of the window are no rows of the fit, but their rounds are
    measured.
    """
    spans = ((start, last) for start, last, _ in rows)
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
