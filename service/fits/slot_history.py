"""The history of a fit in a session with a clock: its rounds are slots of time."""

from dataclasses import replace

import numpy as np

from lhb_engine.history import LATEST, FitWindow, History, Measurements, Trajectory
from service.due_fits import DueFit
from service.fits.history import NONE, first_not_used, needed_ranges
from service.fits.slot_sums import SlotSums, read_slot_sums
from service.fits.stored_rows import stored_measurements
from service.fits.sums import SettledSlots, n_erased
from service.fits.told import with_covariates
from service.records import SessionRow
from service.slot_clock import SlotClock, clock_of
from service.storage.reader import FOR_EVER, Reader


def read_slots(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit | None = None
) -> History:
    """Build the history that `Agent.fit` gets, of slots, from all decisions.

    The decisions of a slot are those up to the manifest's watermark: one that came later, for a
    slot that had begun, is in the next fit, and a repeat of this fit leaves it out again.

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
    clock = _clock(session)
    sums = read_slot_sums(reader, session, clock, window.last, due, kept=False)
    return _whole(reader, session, clock, window, due, sums)


def read_kept_slots(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit, n_settled: int | None
) -> tuple[History, SettledSlots]:
    """Build the same history from the sums of settled slots, and the decisions after them.

    Parameters
    ----------
    reader, session, window, due
        As `read_slots`.
    n_settled : int or None
        The fit has sums of the first so many measurements; the history then has the later ones,
        those that are pairs with them, and the latest slots. None: it has all.

    Returns
    -------
    History
    SettledSlots
        The slots that are to be kept for the next fit.
    """
    clock = _clock(session)
    sums = read_slot_sums(reader, session, clock, window.last, due, kept=True)
    found = SettledSlots(sums.new, due.measured, n_erased(session))
    if n_settled is None:
        return _whole(reader, session, clock, window, due, sums), found
    return _recent(reader, session, window, due, sums, n_settled), found


def _clock(session: SessionRow) -> SlotClock:
    clock = clock_of(session.clock)
    assert clock is not None
    return clock


def _whole(
    reader: Reader,
    session: SessionRow,
    clock: SlotClock,
    window: FitWindow,
    due: DueFit | None,
    sums: SlotSums,
) -> History:
    measured = FOR_EVER if due is None else due.measured
    rows_so_far = reader.window_measurements(session.key, 1, window.last, 0, measured)
    values = stored_measurements(rows_so_far, session)
    first = max(1, window.first - window.n_lags + 1)
    nothing = np.zeros((window.last, session.dim))
    trajectories = {
        name: Trajectory(
            sums.contexts.get(name, nothing)[first - 1 :],
            rows.between(window.first, window.last),
            first,
        )
        for name, rows in values.items()
    }
    if not trajectories:  # nothing is measured: the fit says so
        trajectories[""] = Trajectory(nothing[first - 1 :], NONE, first)
    history = History(session.dim, trajectories, window)
    if due is not None and clock.late_slots is not None:
        history = _until_settled(history, values, sums.settled, 0, measured)
    return with_covariates(reader, session, history, measured)


def _recent(
    reader: Reader,
    session: SessionRow,
    window: FitWindow,
    due: DueFit,
    sums: SlotSums,
    n_settled: int,
) -> History:
    """Build a history of the default trajectory, which has the totals over all, in stretches."""
    key, known, contexts = session.key, due.measured, sums.contexts[""]
    first = max(1, window.last - LATEST + 1)
    later = stored_measurements(reader.measurements_after(key, n_settled, known), session)
    latest = stored_measurements(
        reader.measurements_in(key, [("", first, window.last)], known), session
    )
    span = [first, window.last]
    wanted = needed_ranges("", [later, latest], span, 2 * session.horizon, window.n_lags)
    ranges = [(start, min(last, window.last)) for start, last in wanted if start <= window.last]
    asked = [("", *rounds) for rounds in ranges]
    values = stored_measurements(reader.measurements_in(key, asked, known), session)
    rows = values.get("", NONE)
    parts = {
        f"\0{start:020}": Trajectory(contexts[start - 1 : last], rows.between(start, last), start)
        for start, last in ranges
    }
    history = History(session.dim, parts, window)
    history = _until_settled(history, later, sums.settled, n_settled, known)
    return with_covariates(reader, session, history, known)


def _until_settled(
    history: History, values: dict[str, Measurements], settled: int, after: int, known: int
) -> History:
    """Return a history that says from which measurement, and which slot, on it may change."""
    used = {
        name: replace(part, measurements=part.measurements.between(1, settled))
        for name, part in history.trajectories.items()
    }
    return replace(
        history, unsettled=first_not_used(values, used, after, known), settled_round=settled
    )
