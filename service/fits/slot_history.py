"""The history of a fit in a session with a clock: its rounds are slots of time."""

from array import array
from collections import defaultdict

import numpy as np

from lhb_engine.history import FitWindow, Floats, History, Ints, Measurements, Trajectory
from lhb_engine.slots import slot_sums
from service.due_fits import DueFit
from service.fits.history import stored_measurements
from service.fits.told import with_covariates
from service.records import SessionRow
from service.slot_clock import SlotClock, clock_of
from service.storage.reader import FOR_EVER, Reader


def read_slots(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit | None = None
) -> History:
    """Build the history that `Agent.fit` gets, of slots.

    The decisions of a slot are those up to the manifest's watermark: one that came later, for a
    slot long past, is in the next fit, and a repeat of this fit leaves it out again.

    Parameters
    ----------
    reader, session, due
        As `read_history`.
    window : FitWindow
        The slots to fit.

    Returns
    -------
    History
        One trajectory for all where rewards are totals over all of them; else each that is
        measured. Slots before the first have a context of 0.
    """
    clock = clock_of(session.clock)
    assert clock is not None
    measured, decided = (FOR_EVER, FOR_EVER) if due is None else (due.measured, due.decided)
    rows_so_far = reader.window_measurements(session.key, 1, window.last, 0, measured)
    values = stored_measurements(rows_so_far, session)
    first = max(1, window.first - window.n_lags + 1)
    trajectories = {}
    contexts = _contexts(reader, session, clock, decided, measured, (first, window.last))
    for name, rows in values.items():
        sums = contexts.get(name)
        if sums is None:
            sums = np.zeros((window.last - first + 1, session.dim))
        trajectories[name] = Trajectory(sums, rows.between(window.first, window.last), first)
    if not trajectories:  # nothing is measured: the fit says so
        none = Measurements(*(np.zeros(0, np.int64),) * 2, np.zeros(0), np.zeros(0, np.int64))
        empty = np.zeros((window.last - first + 1, session.dim))
        trajectories[""] = Trajectory(empty, none, first)
    return with_covariates(reader, session, History(session.dim, trajectories, window), measured)


def _contexts(
    reader: Reader,
    session: SessionRow,
    clock: SlotClock,
    decided: int,
    measured: int,
    span: tuple[int, int],
) -> dict[str, Floats]:
    """Return the summed contexts of the slots, by what a reward is the total of."""
    void: defaultdict[str, set[int]] = defaultdict(set)
    for one in reader.voids(session.key, 0, measured):
        void[one.trajectory].add(one.round)
    rows = reader.timed_decisions(session.key, decided, clock.slots.begin(span[0]))
    parts: defaultdict[str, tuple[array[float], bytearray]] = defaultdict(
        lambda: (array("d"), bytearray())
    )
    for name, round, at, context in rows:
        if context and name != session.erasing and round not in void.get(name, ()):
            times, contexts = parts["" if clock.totals == "all" else name]
            times.append(at)
            contexts += context
    found = {}
    for name, (times, contexts) in parts.items():
        slots: Ints = clock.slots.at_each(np.array(times))
        found[name] = slot_sums(slots, np.frombuffer(contexts).reshape(-1, session.dim), *span)
    return found
