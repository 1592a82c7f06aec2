"""The schedule of an imported session: its manifests, its pending fits and its open windows."""

from typing import Any

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow
from service.fits.beginning import EstimateInUse
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.records import OUT_OF_TURN, DueFit, OpenWindow, Schedule, SessionRow
from service.transfer.import_records import check
from service.transfer.import_trajectories import Rounds
from service.writer.agent_cache import build_agent


class Windows:
    """The windows of a session, by the options that it had."""

    def __init__(self, session: SessionRow) -> None:
        self._changes = session.changes
        revisions = range(session.revision + 1)
        self._agents = [build_agent(session.at_revision(r), None) for r in revisions]
        self._found: dict[int, tuple[int, FitWindow | None]] = {}  # the last one of a revision

    def ahead(self, position: int, begun: int) -> FitWindow | None:
        """Return the window that a decision was taken in, which began a round."""
        revision = self._changes.revision_of(position)
        since, window = self._found.get(revision, (begun + 1, None))
        if since <= begun and (window is None or begun <= window.due):
            return window
        window = self._agents[revision].next_fit(begun - 1)
        self._found[revision] = begun, window
        return window

    def knows(self, due: DueFit) -> bool:
        """Return whether the options that the fit has give it this window."""
        if due.known.revision >= len(self._agents):
            return False
        agent = self._agents[due.known.revision]
        beside = agent.fit_now(due.key)
        if due.reason in OUT_OF_TURN and (beside is not None or due.reason != "erased"):
            return due.window == beside
        return due.window == agent.next_fit(due.key - 1)

    def ahead_of(self, session: SessionRow, after: int) -> list[FitWindow]:
        """Return the windows that the present options have opened, until one that is not due yet.

        They are due after round `after`. Of windows that were passed in silence there is the last.
        """
        agent, timeline = self._agents[-1], timeline_of(session)
        n = timeline.n_begun(session)
        since = timeline.passed(after, n)
        passed = last_passed(agent, after, n) if since > after else None
        windows = [] if passed is None else [passed]
        following = agent.next_fit(since)
        while following is not None:
            windows.append(following)
            following = agent.next_fit(following.due) if following.due <= n else None
        return windows


def last_passed(agent: Agent, after: int, until: int) -> FitWindow | None:
    """Return the agent's last window due after `after` and before `until`, if there is one.

    It is looked for from the end: with a memory, windows are as many as slots.
    """
    back, found = 1, None
    while found is None and until - 1 - back // 2 > after:
        found = agent.next_fit(max(after, until - 1 - back))
        found = found if found is not None and found.due < until else None
        back *= 2
    while found is not None:
        following = agent.next_fit(found.due)
        if following is None or following.due >= until:
            break
        found = following
    return found


def open_window(session: SessionRow, rounds: Rounds, window: FitWindow) -> OpenWindow:
    """Count the complete rounds of a window, and compute when it is overdue.

    The rules are those of the live schedule.
    """
    begin, end, after = np.searchsorted(
        rounds.position, (window.first, window.last + 1, window.due + 1)
    )
    is_measured = rounds.is_measured[begin:end]
    n_there = min(window.last, session.n_rounds) - window.first + 1
    timeline, closing, n_gone = timeline_of(session), closing_of(session), 0
    if closing.is_counted:
        n_gone = session.n_dropped_complete if window.first == 1 else 0
        n_gone += session.n_erased(window, len(is_measured))
    else:
        is_measured = np.zeros_like(is_measured)  # only time completes a round
    times = rounds.at[after : after + 1].tolist()
    if closing.completes or (len(is_measured) + n_gone >= n_there and is_measured.all()):
        followed_at = rounds.followed_at[begin:end]
        times.append(followed_at[~is_measured].max(initial=0.0))
    overdue_at = min(times, default=np.inf) + session.reward_wait_seconds
    is_known = window.due <= session.n_rounds and bool(np.isfinite(overdue_at))
    begins = timeline.begins(window.due + 1)
    if begins is not None:
        overdue_at = begins + session.reward_wait_seconds
        is_known = window.due < timeline.n_begun(session)
    n_complete = int(is_measured.sum()) + n_gone
    return OpenWindow(window, n_complete, float(overdue_at) if is_known else None)


class Fits:
    """The fits of a file: those that are done, and those that are pending.

    Attributes
    ----------
    windows : Windows
        Those that fits have been due for, and those that are ahead.
    in_use : EstimateInUse
        The estimate in use after the fits so far.
    n_found : int
        How many of them have given an answer.
    installed_due : int
        The due round of the fit that gave the estimate in use, or took one away; 0: none did.
    """

    def __init__(self, session: SessionRow) -> None:
        self.windows = Windows(session)
        self.in_use = EstimateInUse()
        self.n_found = self.installed_due = 0
        self._session = session
        self._done: set[int] = set()  # due rounds of finished and pending fits
        self._failed: set[int] = set()  # due rounds of failed fits
        self._seen = 0  # measurements that the last fit may use

    def add(self, manifest: dict[str, Any], status: str, found: dict[str, Any] | None) -> bool:
        """Check and count a fit; return whether its answer changes the estimate in use."""
        window, session = FitWindow(**manifest["window"]), self._session
        inside = window.first <= window.last <= window.due <= timeline_of(session).n_begun(session)
        inside = inside and window.n_lags <= session.horizon
        check(inside, "manifest.window", "not a window of this session")
        is_again = window.due in self._done and manifest["reason"] not in OUT_OF_TURN
        check(not is_again, "manifest.window", "that fit was done before")
        self._check(manifest, "manifest")
        (self._failed if status == "failed" else self._done).add(window.due)
        session.n_estimates += 1
        if found is None:
            return False
        self.n_found += 1
        before, number = self.in_use, session.n_estimates
        has_direction = found["theta"] is not None
        self.in_use = before.after(session, number, manifest, has_direction=has_direction)
        session.model_version, session.estimate = self.in_use.model_version, self.in_use.number
        if self.in_use == before:
            return False
        self.installed_due = window.due
        return True

    def _check(self, manifest: dict[str, Any], where: str) -> None:
        """Check that a manifest names nothing that is not there; `where` names the manifest."""
        session = self._session
        for name, most in (
            ("revision", session.revision),
            ("measured", session.n_measurements),
            ("decided", session.n_rounds),
            ("n_erased", session.n_erased_rows),
        ):
            check(manifest.get(name, 0) <= most, f"{where}.{name}", f"there are {most}")
        self._seen = max(self._seen, manifest["measured"])

    def schedule(self, given: dict[str, Any], rounds: Rounds) -> None:
        """Check the pending fits of a file, and open the other windows that are not done."""
        session, n_slots = self._session, self._session.schedule.n_slots
        places = [0, *(change.after for change in session.changes.changes), session.n_rounds]
        check(places == sorted(places), "session.changes", "not in the order of rounds")
        is_all = given["n_slots"] == n_slots
        check(is_all, "session.schedule.n_slots", f"the records are of {n_slots}")
        schedule = session.schedule = Schedule.load({**given, "open": [], "seen": 0})
        pending = [(f"waiting[{i}]", due) for i, due in enumerate(schedule.waiting)]
        if schedule.current is None:
            for due in schedule.waiting:
                due.retry_at = due.retry_at or 0.0  # start it at once
        else:
            pending.append(("current", schedule.current))
            schedule.current.retry_at = None
        for name, due in pending:
            where = f"session.schedule.{name}"
            self._check(due.manifest(), where)
            beside = due.reason in OUT_OF_TURN
            is_done = due.key <= self.installed_due - beside
            is_done = is_done or (not beside and due.key in self._done)
            is_known = due.key <= timeline_of(session).n_begun(session)
            is_known = is_known and self.windows.knows(due)
            check(is_known, f"{where}.window", "not a window of this schedule")
            check(not is_done, f"{where}.window", "that fit is done")
            self._done.add(due.key)
        schedule.seen = self._seen
        done = self._done | self._failed
        changed = session.changes.last
        after = timeline_of(session).opened_after(self.installed_due, done, changed)
        for window in self.windows.ahead_of(session, after):
            if window.due > self.installed_due and window.due not in done:
                schedule.open.append(open_window(session, rounds, window))
        if schedule.open:
            session.n_complete, schedule.open[-1].n_complete = schedule.open[-1].n_complete, 0
