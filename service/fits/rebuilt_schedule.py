"""The schedule of a session worked out from its rounds, where no live one made it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow, Floats, Ints
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.records import OUT_OF_TURN, DueFit, OpenWindow, SessionRow
from service.writer.agent_cache import build_agent


class Rounds(NamedTuple):
    """The rounds of a session as (n_rounds,) arrays, in order of position, without erased ones.

    `at` is when a round began, in seconds since 1970, `followed_at` when the next round of its
    trajectory did, infinity if there is none; `is_measured`, whether a measurement covers it.
    """

    position: Ints
    at: Floats
    followed_at: Floats
    is_measured: NDArray[np.bool_]


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
