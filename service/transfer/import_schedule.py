"""The schedule of an imported session: its manifests and its agent's windows."""

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow, Floats, Ints
from service.rounds.closing import closing_of
from service.rounds.sums import n_erased
from service.rounds.timeline import timeline_of
from service.session.due_fits import OUT_OF_TURN, DueFit, OpenWindow, Schedule
from service.session.records import SessionRow
from service.transfer.import_records import check
from service.transfer.import_rounds import TrajectoryRecords
from service.writer.agent_cache import build_agent


class Rounds(NamedTuple):
    """The rounds of a session as (n_rounds,) arrays, in order of position, without erased ones.

    `at` is when a round began, in seconds since 1970, `followed_at` when the next round of its
    trajectory did, infinity if there is none; `is_measured`, whether a measurement covers it.
    """

    position: Ints
    at: Floats
    followed_at: Floats
    is_measured: np.ndarray[tuple[int], np.dtype[np.bool_]]


def are_positions(found: Ints, n: int) -> bool:
    """Return whether sorted numbers are among 1 to n, each of them at most once.

    They are as many as there must be, so that they are all where nothing is erased.
    """
    return len(found) == 0 or bool(found[0] >= 1 and found[-1] <= n and np.all(np.diff(found) > 0))


def in_order(
    trajectories: Sequence[tuple["array[int]", "array[float]", bytearray]], n_rounds: int
) -> Rounds:
    """Merge the rounds of all trajectories: of each its position, its time, and if it is measured.

    `n_rounds` counts erased ones, too. InvalidRecord: positions are not among these, each once.
    """
    positions = np.concatenate([np.zeros(0, np.int64), *(p for p, _, _ in trajectories)])
    order = np.argsort(positions)
    is_whole = are_positions(positions[order], n_rounds)
    check(is_whole, "position", f"the positions are not 1 to {n_rounds}")
    at = np.concatenate([np.zeros(0), *(times for _, times, _ in trajectories)])
    followed = [np.append(np.asarray(times)[1:], np.inf) for _, times, _ in trajectories]
    marks = b"".join(marks for _, _, marks in trajectories)
    return Rounds(
        positions[order],
        at[order],
        np.concatenate([np.zeros(0), *followed])[order],
        np.frombuffer(marks, np.bool_)[order],
    )


class Windows:
    """The windows of a session, by the options that it had."""

    def __init__(self, session: SessionRow) -> None:
        self._changes = session.changes
        most = session.n_rounds
        check(self._changes.last <= most, "session.changes", f"there are {most} rounds")
        revisions = range(session.revision + 1)
        self._agents = [build_agent(session.at_revision(r), None) for r in revisions]
        self._clock = session.clock
        self._windows: list[list[FitWindow]] = []
        if self._clock is None:  # else there may be more of them than decisions
            self._windows = [windows_until(agent, session.n_rounds) for agent in self._agents]
        self._dues = [[window.due for window in part] for part in self._windows]

    def ahead(self, position: int, at: float) -> FitWindow | None:
        """Return the window that a decision was taken in, by its position, or its slot."""
        revision = self._changes.revision_of(position)
        if self._clock is not None:
            return self._agents[revision].next_fit(self._clock.slots.at(at) - 1)
        i = bisect_left(self._dues[revision], position)
        return self._windows[revision][i] if i < len(self._windows[revision]) else None

    def knows(self, due: DueFit) -> bool:
        """Return whether the options that the fit has give it this window."""
        if due.known.revision >= len(self._agents):
            return False
        beside = self._agents[due.known.revision].fit_now(due.key)
        if due.reason in OUT_OF_TURN and (beside is not None or due.reason != "erased"):
            return due.window == beside
        if self._clock is not None:
            return due.window == self._agents[due.known.revision].next_fit(due.key - 1)
        return due.window in self._windows[due.known.revision]

    def ahead_of(self, session: SessionRow, after: int) -> list[FitWindow]:
        """Return the windows that the present options have opened, until one that is not due yet.

        With a clock, of the windows that were passed since the fit due after slot `after` there is
        the last one.
        """
        if self._clock is not None:
            agent, n = self._agents[-1], timeline_of(session).n_begun(session)
            passed, ahead = last_passed(agent, after, n), agent.next_fit(max(after, n - 1))
            is_now = ahead is not None and ahead.due == n
            following = agent.next_fit(n) if is_now else None
            return [one for one in (passed, ahead, following) if one is not None]
        return [window for window in self._windows[-1] if window.due > self._changes.last]


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


def windows_until(agent: Agent, n_rounds: int) -> list[FitWindow]:
    """List the agent's fit windows in order of `due`, the last one due after `n_rounds`."""
    windows: list[FitWindow] = []
    window = agent.next_fit(0)
    while window is not None:
        windows.append(window)
        window = agent.next_fit(window.due) if window.due <= n_rounds else None
    return windows


def open_window(session: SessionRow, rounds: Rounds, window: FitWindow) -> OpenWindow:
    """Count the complete rounds of a window, and compute when it is overdue.

    The rules are those of the live schedule.
    """
    begin, end, after = np.searchsorted(
        rounds.position, (window.first, window.last + 1, window.due + 1)
    )
    is_measured = rounds.is_measured[begin:end]
    n_there = min(window.last, session.n_rounds) - window.first + 1
    n_gone = session.n_dropped_complete if window.first == 1 else 0
    timeline, closing = timeline_of(session), closing_of(session)
    if closing.is_counted:
        n_gone += session.n_erased(window, len(is_measured))
    else:
        is_measured = np.zeros_like(is_measured)  # only time completes a round
    times = rounds.at[after : after + 1].tolist()
    if closing.default is not None or (len(is_measured) + n_gone >= n_there and is_measured.all()):
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


class Manifests:
    """Checks manifests, and the positions of measurements and void decisions, as they come."""

    def __init__(self, session: SessionRow, trajectories: Mapping[str, TrajectoryRecords]) -> None:
        self._session, self._trajectories = session, trajectories
        self._seen = 0  # by the last fit
        self._voids: dict[tuple[str, int], int] = {}  # positions, by trajectory and round

    def void(self, record: dict[str, Any]) -> None:
        """Check a void decision, and take note of its position."""
        known = self._trajectories.get(record["trajectory"])
        is_known = known is not None and record["round"] <= known.row.n_rounds
        check(is_known, "round", "that round has not been decided")
        place = record["trajectory"], record["round"]
        check(place not in self._voids, "round", "it is void already")
        self._voids[place] = record["position"]
        self._session.n_measurements += 1

    def check(self, manifest: dict[str, Any], where: str) -> None:
        """Check that a manifest names nothing that is not there; `where` names the manifest."""
        session = self._session
        for name, most in (
            ("revision", session.revision),
            ("measured", session.n_measurements),
            ("decided", session.n_rounds),
            ("n_erased", n_erased(session)),
        ):
            check(manifest.get(name, 0) <= most, f"{where}.{name}", f"there are {most}")
        self._seen = max(self._seen, manifest["measured"])

    def schedule(self, given: dict[str, Any]) -> Schedule:
        """Return the pending fits of a file, checked, without open windows."""
        current, waiting = given["current"], given["waiting"]
        named = [("current", current), *((f"waiting[{i}]", due) for i, due in enumerate(waiting))]
        for name, due in named:
            if due is not None:
                self.check(due, f"session.schedule.{name}")
        return Schedule.load({**given, "open": [], "seen": self._seen})

    def check_positions(self) -> None:
        """Check that measurements and void decisions have positions among 1 to n, each once."""
        n = self._session.n_measurements
        found = [np.array(part.arrivals, np.int64) for part in self._trajectories.values()]
        together = np.sort(np.concatenate([np.array([*self._voids.values()], np.int64), *found]))
        check(are_positions(together, n), "position", f"the positions are not 1 to {n}")
