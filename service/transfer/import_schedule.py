"""An imported session's schedule: the windows that its agent asks for, counted again."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow, Ints
from service.records import DueFit, OpenWindow, SessionRow
from service.transfer.import_records import require


@dataclass(frozen=True, slots=True)
class Seen:
    """What the records say.

    Attributes
    ----------
    measured : positions of measured rounds, ascending
    latest : time of the last decision
    installed_due : round after which the installed estimate was due, 0: none is installed
    done : due rounds of the fits that are done
    """

    measured: Ints
    latest: float
    installed_due: int
    done: set[int]


def check_schedule(session: SessionRow, agent: Agent, seen: Seen) -> Iterator[tuple[DueFit, str]]:
    """Windows and counts; yields the due fits, with their field, for their manifests' sake."""
    schedule, where = session.schedule, "session.schedule"
    windows = [one.window for one in schedule.open]
    following = agent.next_fit(session.n_rounds)
    ahead = windows[-1:] == ([] if following is None else [following])
    require(ahead, f"{where}.open", f"the window that comes next is {following}")
    fits = [(due, f"{where}.waiting[{i}]") for i, due in enumerate(schedule.waiting)]
    if schedule.current is not None:
        fits.append((schedule.current, f"{where}.current"))
    dues = [window.due for window in windows]
    require(dues == sorted(dues), f"{where}.open", "not in order")
    dues += [due.key for due, _ in fits]
    require(len(set(dues)) == len(dues), where, "a window that stands twice")
    for i, one in enumerate(schedule.open):
        _open(session, agent, seen, one, f"{where}.open[{i}]")
    if not windows:
        require(session.n_complete == 0, "session.n_complete", "there is no window")
    for due, field in fits:
        _reached(session, agent, seen, due.window, f"{field}.window")
        if due is schedule.current:
            require(due.retry_at is None, f"{field}.retry_at", "it is at work")
        elif schedule.current is None:
            require(due.retry_at is not None, f"{field}.retry_at", "nothing keeps it waiting")
        yield due, field


def _open(session: SessionRow, agent: Agent, seen: Seen, one: OpenWindow, where: str) -> None:
    is_last = one is session.schedule.open[-1]
    lo, hi = np.searchsorted(seen.measured, [one.window.first, one.window.last + 1])
    n = int(hi - lo) if session.reward_mode == "single" else 0
    claimed = session.n_complete if is_last else one.n_complete
    field = "session.n_complete" if is_last else f"{where}[1]"
    require(claimed == n, field, f"by its records it is {n}")
    if is_last:
        require(one.overdue_at is None, f"{where}[2]", "it is still to come")
        return
    _reached(session, agent, seen, one.window, f"{where}[0]")
    missed = one.overdue_at is None and one.window.due < session.n_rounds
    late = (one.overdue_at or 0.0) > seen.latest + session.reward_wait_seconds
    require(not missed and not late, f"{where}[2]", "not when it is overdue")


def _reached(session: SessionRow, agent: Agent, seen: Seen, window: FitWindow, where: str) -> None:
    """A window whose round has come, and whose fit is not done."""
    require(window.due <= session.n_rounds, where, "it is still to come")
    require(window.due > seen.installed_due, where, "the installed estimate is later")
    require(window.due not in seen.done, where, "that fit is done")
    expected = agent.next_fit(window.due - 1)
    require(window == expected, where, "not a window of this schedule")
