"""When a fit is due: the schedule of a session's fits.

The session's row holds the schedule: windows of fits that are not due yet (`open`), the fit that is
due, running or not (`current`, the due mark), and due fits that wait for it (`waiting`). This
module changes the row inside a transaction; `processes` runs the fits. A boundary is a round after
which a fit is due. A window is complete when all its rounds have their reward, or were erased.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow
from service.fits.cost import session_cost
from service.fits.fit_row import MAX_WAITING, record_fit
from service.rounds.closing import closing_of
from service.rounds.retention import count_complete
from service.rounds.timeline import Timeline, timeline_of
from service.session.fit_schedule import DueFit, DueReason, OpenWindow, Watermark
from service.session.records import SessionKey, SessionRow
from service.session.rules import model_of
from service.writer.agent_cache import Agents, build_agent
from service.writer.command import session_command
from service.writer.large_writes import refuse_appending
from service.writer.unit_of_work import UnitOfWork

SHORT = 64  # rounds of a window that each reward for it may read
LEAST = 20  # measurements, before rewards alone make a fit due
SHARE = 0.01  # of a fleet's measurements, and `n_unread`: above both, a fit is due


def is_between_boundaries(session: SessionRow, decides_at: float = math.inf) -> bool:
    """Return whether one more reward, or decision at a time, is sure to reach no boundary."""
    n = timeline_of(session).begun_next(session)
    for one in session.schedule.open:
        if n >= one.window.due and (one.overdue_at is None or decides_at >= one.overdue_at):
            return False
    return True


def begin_rounds(
    uow: UnitOfWork, session: SessionRow, timeline: Timeline, agent: Agent, n: int, at: float
) -> None:
    """Update the schedule once `n` rounds of the session have begun, the last of them now.

    At a boundary the next window is opened. A window past its boundary becomes overdue
    `reward_wait_seconds` after the first sign of a later round: a decision in it, or the total of
    a slot before it. The session's counters include the decision.
    """
    windows = session.schedule.open
    timeline.save_begun(uow, session)
    if not windows or n < windows[0].window.due:
        return
    is_reached = n >= windows[-1].window.due
    for window in windows:
        if window.overdue_at is None and n > window.window.due:
            window.overdue_at = at + session.reward_wait_seconds
            _set_timer(uow, session)
            uow.save(session)
        if n == window.window.due:
            _close_by_default(uow, session, window)
        is_reached |= window.overdue_at is not None and window.overdue_at <= at
    for following in opening(agent, timeline, windows[-1].window.due, n):
        windows[-1].n_complete = session.n_complete
        session.n_complete = _count(uow, session, windows[-1].window, following)
        windows.append(OpenWindow(following))
        uow.save(session)
    if is_reached:  # of the others no decision makes a fit due
        mark_due(uow, session, at)
        _give_up_oldest(uow, session)


def opening(agent: Agent, timeline: Timeline, last: int, n: int) -> Iterator[FitWindow]:
    """Yield the windows after one due after round `last`, as `n` begins, to one that is not due."""
    while last <= n and (following := agent.next_fit(timeline.passed(last, n))) is not None:
        yield following
        last = following.due


def after_measurement(
    uow: UnitOfWork, session: SessionRow, positions: list[tuple[int, int]], at: float
) -> None:
    """Update the schedule after rewards: count the rounds that have become complete.

    `positions` are the rewards' rounds: ranges of positions in the session, both ends included.
    """
    windows = session.schedule.open
    if not windows or not closing_of(session).is_counted:
        return
    for window in windows:
        lo, hi = window.window.first, window.window.last
        n = 0
        for first, last in positions:
            n += max(0, min(last, hi) - max(first, lo) + 1)
        if n and window is windows[-1]:
            session.n_complete += n
            uow.count(session)
        elif n:
            window.n_complete += n
            uow.save(session)
        if n and session.n_rounds >= window.window.due:
            missing, is_short = _n_missing(session, window), hi - lo < SHORT
            if is_short or missing.bit_length() < (missing + n).bit_length():  # half of it is left
                _close_by_default(uow, session, window)
    if session.n_rounds >= windows[0].window.due:
        mark_due(uow, session, at)


def mark_due(uow: UnitOfWork, session: SessionRow, now: float) -> None:
    """Turn open windows that are complete or overdue into due fits with their manifests."""
    schedule, n_begun = session.schedule, timeline_of(session).n_begun(session)
    ready: list[tuple[OpenWindow, DueReason]] = []
    for window in schedule.open:
        if n_begun < window.window.due:
            break
        if _is_complete(session, window):
            ready.append((window, "complete"))
        elif window.overdue_at is not None and window.overdue_at <= now:
            ready.append((window, "overdue"))
    if not ready:
        return
    for window, reason in ready:
        schedule.open.remove(window)
        wait_for_turn(session, window.window, reason, now)
    start_next(uow, session, now)
    uow.save(session)
    _give_up_oldest(uow, session)


def wait_for_turn(session: SessionRow, window: FitWindow, reason: DueReason, now: float) -> None:
    """Make a fit due, with what it may read; it waits for its turn."""
    closed_at = now - session.reward_wait_seconds
    watermark = Watermark(session.n_measurements, session.n_rounds, closed_at, session.revision)
    session.schedule.waiting.append(DueFit(window, watermark, reason, now))
    session.schedule.seen = session.n_measurements


def fit_now(
    uow: UnitOfWork, session: SessionRow, agent: Agent, reason: DueReason, now: float
) -> bool:
    """Make a fit of all rounds so far due, and return whether the algorithm has such fits.

    A window that ends with the last round, and waits for rewards, is this fit.
    """
    window = agent.fit_now(timeline_of(session).n_begun(session))
    if window is None:
        return False
    schedule = session.schedule
    schedule.open = [one for one in schedule.open if one.window.due != window.due]
    schedule.waiting = [due for due in schedule.waiting if due.key != window.due]
    wait_for_turn(session, window, reason, now)
    start_next(uow, session, now)
    uow.save(session)
    return True


def fit_unread(uow: UnitOfWork, session: SessionRow, agents: Agents, now: float) -> None:
    """Make a fit of all rounds due if too many measurements came since the last due fit.

    In sum mode rounds are closed by time, and measurements do not tell what is new. In a fleet a
    few may be the first that show a lag, and a fit from sums costs little, unless decisions wait.
    There the fit takes the place of one that fell due while another ran, and reads what came since.
    """
    n, unread = session.n_measurements, session.n_measurements - session.schedule.seen
    kind, options, closing = session.kind, session.options, closing_of(session)
    share, waiting = kind.most_stale(options), session.schedule.waiting
    if n < LEAST or share is None or session.schedule.current or closing.adds_up:
        return
    if waiting or unread <= share * n:
        least = 0.0 if waiting else max(kind.sizes.n_unread, SHARE * n)
        if unread <= least or session.n_trajectories == 1 or any(due.attempts for due in waiting):
            return
        keeps_sums = kind.looks_back(session.dim, session.horizon, options) is None
        if session.refit == "blocking" or not (closing.is_counted and keeps_sums):
            return
    fit_now(uow, session, agents.get(uow, session), "stale", now)


def pending(session: SessionRow) -> DueFit | None:
    """Return a fit that is due, or None."""
    return session.schedule.current or next(iter(session.schedule.waiting), None)


def fit_anew_by_options(uow: UnitOfWork, session: SessionRow, given_up: list[DueFit]) -> None:
    """Make a fit of all rounds due, in place of due ones whose options mean another model.

    One that runs is given up when it ends.
    """
    for due in given_up:
        record_fit(uow, session, due, "skipped", "its options have changed since")
    is_free = session.schedule.current is None and session.archived_at is None
    if is_free and session.n_measurements:
        fit_now(uow, session, build_agent(session, None), "asked", uow.now)


def take_options(
    uow: UnitOfWork, session: SessionRow, options: dict[str, Any], agent: Agent
) -> None:
    """Have decisions and fits from now on use other options, those of the agent.

    The session keeps those that it had. Where they mean another model all rounds are fitted anew.
    """
    if options == session.options:
        return
    is_another = model_of(replace(session, options=options)) != model_of(session)
    session.changes = session.changes.with_one(session.n_rounds, session.options)
    session.options = options
    _reopen(uow, session, agent)
    if is_another:
        uow.pending.dropped_sums.append(session.key)
        given_up, session.schedule.waiting = session.schedule.waiting, []
        fit_anew_by_options(uow, session, given_up)


def _reopen(uow: UnitOfWork, session: SessionRow, agent: Agent) -> None:
    """Open the window that changed options have after the last round, in place of the one ahead."""
    windows, n_begun = session.schedule.open, timeline_of(session).n_begun(session)
    following = agent.next_fit(n_begun)
    if not windows or following is None or windows[-1].window.due <= n_begun:
        return
    n = 0
    if closing_of(session).is_counted and following.first <= session.n_rounds:
        [n] = count_complete(uow.stored, session, [following])
    windows[-1], session.n_complete = OpenWindow(following), n


def wait_longer(uow: UnitOfWork, session: SessionRow, seconds: float) -> None:
    """Have every open window become overdue so many seconds later; a negative number: earlier."""
    for window in session.schedule.open:
        if window.overdue_at is not None:
            window.overdue_at += seconds
    mark_due(uow, session, uow.now)
    _set_timer(uow, session)


def start_next(uow: UnitOfWork, session: SessionRow, now: float) -> None:
    """Make the latest due fit that may run the current one.

    A current fit that this batch has chosen is not started before the commit, so that a later
    command of the batch may still choose another.
    """
    schedule = session.schedule
    if schedule.current is not None:
        if session.key not in uow.effects.due:
            return
        schedule.waiting.append(schedule.current)
        schedule.current = None
    ready = [due for due in schedule.waiting if due.retry_at is None or due.retry_at <= now]
    if ready:
        schedule.current = max(ready, key=lambda due: due.key)
        schedule.current.retry_at = None
        schedule.waiting.remove(schedule.current)
        announce(uow, session)
    _set_timer(uow, session)


def announce(uow: UnitOfWork, session: SessionRow) -> None:
    """Have the session's current fit begun after the commit."""
    due = session.schedule.current
    if due is not None:
        uow.effects.due[session.key] = due.key, session_cost(session, due.key).seconds


def _set_timer(uow: UnitOfWork, session: SessionRow) -> None:
    """Set the session's one timer to the earliest time at which something becomes due."""
    if session.wake_at is not None:
        uow.effects.timed[session.key] = session.wake_at


@session_command
def tick(uow: UnitOfWork, key: SessionKey) -> None:
    """Mark the fits that have become due by time alone, and choose the current one.

    Nothing is done for an archived session.
    """
    session = uow.session(key)
    if session is None or session.archived_at is not None:
        return
    refuse_appending(session)
    mark_due(uow, session, uow.now)
    start_next(uow, session, uow.now)
    uow.save(session)


def _is_complete(session: SessionRow, window: OpenWindow) -> bool:
    # elsewhere more values may always come; only time closes a round
    return closing_of(session).is_counted and _n_missing(session, window) <= 0


def _n_missing(session: SessionRow, window: OpenWindow) -> int:
    return window.window.last - window.window.first + 1 - session.n_complete_of(window)


def _close_by_default(uow: UnitOfWork, session: SessionRow, window: OpenWindow) -> None:
    """Set the time at which default rewards complete a window.

    A round gets the default reward `reward_wait_seconds` after the next round of its trajectory has
    begun. The time is computed when the window's last round begins, and when rewards come for its
    rounds: all of the window is read, so in a long one only when what is missing has halved. Until
    then the time from before stands, which is never too early. A later decision need not compute
    it again: it closes no round of the window before `overdue_at`, which the first of these sets.
    """
    if not closing_of(session).completes or _is_complete(session, window):
        return
    if closed_at := uow.stored.closed_at(session.key, window.window.first, window.window.last):
        at = closed_at + session.reward_wait_seconds
        if window.overdue_at is None or at < window.overdue_at:
            window.overdue_at = at
            _set_timer(uow, session)
            uow.save(session)


def _count(uow: UnitOfWork, session: SessionRow, before: FitWindow, window: FitWindow) -> int:
    """Return the number of complete rounds of a window that follows the window `before`."""
    if not closing_of(session).is_counted or window.first > session.n_rounds:
        return 0
    if window.first == before.first and session.n_rounds <= min(before.last, window.last):
        return session.n_complete  # so far they have the same rounds
    [n] = count_complete(uow.stored, session, [window])
    return n


def recount(uow: UnitOfWork, session: SessionRow) -> None:
    """Count the complete rounds of all open windows anew, after rounds were erased."""
    windows = session.schedule.open
    if not windows or not closing_of(session).is_counted:
        return
    counts = count_complete(uow.stored, session, [window.window for window in windows])
    for window, n_complete in zip(windows, counts, strict=True):
        window.n_complete = n_complete
    session.n_complete, windows[-1].n_complete = windows[-1].n_complete, 0
    if session.archived_at is None:
        mark_due(uow, session, uow.now)


def _give_up_oldest(uow: UnitOfWork, session: SessionRow) -> None:
    """Record the oldest windows and fits as skipped, so that the row's size stays bounded."""
    schedule = session.schedule
    reason = f"given up: {MAX_WAITING} later ones wait"
    given_up = []
    while len(schedule.open) > MAX_WAITING + 1:  # 1: the window whose boundary is still ahead
        given_up.append(DueFit.never(schedule.open.pop(0).window, uow.now))
    while len(schedule.waiting) > MAX_WAITING:
        given_up.append(min(schedule.waiting, key=lambda due: due.key))
        schedule.waiting.remove(given_up[-1])
    for due in given_up:
        record_fit(uow, session, due, "skipped", reason)
        uow.save(session)
