"""The schedule of a session worked out from its rounds, where no live one made it."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lhb_engine.history import FitWindow, Floats, Ints
from service.fits.when_due import opening
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import OUT_OF_TURN, DueFit, OpenWindow
from service.session.records import SessionRow
from service.writer.agent_cache import build_agent


class Rounds(NamedTuple):
    """The rounds of a session as (n_rounds,) arrays, in order of position, without erased ones.

    `at` is when a round began, in seconds since 1970, `followed_at` when the next round of its
    trajectory did, infinity if there is none; `is_measured`, whether a measurement covers it.
    `received` is when each measurement came, `lasts` its last round.
    """

    position: Ints
    at: Floats
    followed_at: Floats
    is_measured: NDArray[np.bool_]
    received: Floats
    lasts: Ints

    def begun_at(self, position: int) -> float:
        """Return when the latest round up to a position began; 0 if there is none."""
        n = np.searchsorted(self.position, position, "right")
        return float(self.at[:n].max(initial=0.0))


class Windows:
    """The windows of a session, by the options that it had."""

    def __init__(self, session: SessionRow) -> None:
        self._changes, n = session.changes, session.revision + 1
        self._agents = [build_agent(session.at_revision(i), None) for i in range(n)]
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
        """Return whether the options of a due fit, or earlier ones, open its window."""
        if due.known.revision >= len(self._agents):
            return False
        beside = self._agents[due.known.revision].fit_now(due.key)
        if due.reason in OUT_OF_TURN and (beside is not None or due.reason != "erased"):
            return due.window == beside
        agents = self._agents[: due.known.revision + 1]
        return any(due.window == agent.next_fit(due.key - 1) for agent in agents)

    def opened(self, session: SessionRow, rounds: Rounds, after: int) -> list[FitWindow]:
        """Return the windows that opened and are due after round `after`, as live rounds open them.

        Changed options take the place of the window ahead. A copy begins with a change to the same
        options: none of its windows is of the rounds before.
        """
        timeline = timeline_of(session)
        n, changes = timeline.n_begun(session), session.changes.changes
        since, visited = timeline.visited(session, after, rounds.at, rounds.received, rounds.lasts)
        options = [*(change.options for change in changes), session.options]
        ends = [timeline.begun_by(one.after, rounds.begun_at(one.after)) for one in changes]
        windows, begun = list[FitWindow](), 0
        for revision, end in enumerate([*ends, n]):
            is_copy = revision > 0 and options[revision] == options[revision - 1]
            windows = [window for window in windows if window.due <= begun and not is_copy]
            last = max(begun, since)
            between = visited[bisect_right(visited, begun) : bisect_left(visited, end)]
            for at in (begun, *between, end):
                for window in opening(self._agents[revision], timeline, last, at):
                    windows.append(window)
                    last = window.due
            begun = end
        return [window for window in windows if window.due > after]


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
        n_gone = session.n_complete_gone(window, len(is_measured))
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
