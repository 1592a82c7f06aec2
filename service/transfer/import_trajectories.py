"""The trajectories of a file together: positions, and what is known of rounds that are dropped."""

from array import array
from base64 import b64decode
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lhb_engine.history import Floats, Ints
from service.rounds.closing import closing_of
from service.rounds.stored_rows import n_given
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow, TrajectoryRow
from service.transfer.import_records import InvalidRecord, check
from service.transfer.import_rounds import FileTrajectory, Record

NO_OWNER = ("", "")  # the command that writes a row knows its tenant and its session
COUNTS = ("n_rounds", "n_measurements", "measured_through")


class Rounds(NamedTuple):
    """The rounds of a session as (n_rounds,) arrays, in order of position, without erased ones.

    `at` is when a round began, in seconds since 1970, `followed_at` when the next round of its
    trajectory did, infinity if there is none; `is_measured`, whether a measurement covers it.
    """

    position: Ints
    at: Floats
    followed_at: Floats
    is_measured: NDArray[np.bool_]


class Trajectories:
    """All trajectories of a file, and the positions of what is in them.

    Where rounds are dropped, each has a record of its own, with counters that nothing else tells.
    """

    def __init__(self, session: SessionRow) -> None:
        self._session = session
        self._known: dict[str, FileTrajectory] = {}
        self._declared: dict[str, Record] = {}  # where rounds are dropped
        self._voids: dict[tuple[str, int], int] = {}  # positions, by trajectory and round
        self._ends: list[tuple[int, int]] = []  # of summed slots: the last one, and `decided`
        gone = session.n_dropped_rounds, session.swept_to, session.n_dropped_complete
        fits = all(n <= session.dropped_to for n in gone)
        fits = fits and session.n_dropped_complete <= session.n_dropped_rounds
        check(fits, "session.dropped_to", "more is dropped than that")

    def declare(self, record: Record) -> None:
        """Take note of a trajectory's counters, of which dropped rows tell nothing."""
        if not self._session.dropped_to:
            return
        key, at = record.get("key"), record.get("last_at")
        check(isinstance(key, str) and key not in self._declared, "key", "it stands twice, or not")
        for name in COUNTS:
            n = record.get(name)
            check(type(n) is int and 0 <= n <= 2**53, name, "it is no count")
        check(isinstance(at, int | float) and 0 <= at <= 1e11, "last_at", "it is no time")
        self._declared[str(key)] = record

    def n_rounds(self, name: str) -> int:
        """Return how many rounds a declared trajectory has, 0 if there is none."""
        return int(self._declared.get(name, {"n_rounds": 0})["n_rounds"])

    def of_decision(self, name: str, round: int) -> FileTrajectory:
        """Return a decision's trajectory; it begins after the rounds that are dropped."""
        part = self._known.get(name)
        if part is None:
            n = 0
            if self._session.dropped_to:
                check(name in self._declared, "trajectory", "it has no record of its own")
                n = round - 1
            row = TrajectoryRow(*NO_OWNER, name, n_decisions=n, n_rounds=n)
            part = self._known[name] = FileTrajectory(row, n)
        return part

    def of_value(self, record: Record) -> FileTrajectory:
        """Return a measurement's trajectory; where some are dropped, its number is the file's."""
        name, session = record["trajectory"], self._session
        part = self._known.get(name)
        n = self.n_rounds(name) if closing_of(session).stays else 0  # all may be dropped
        if part is None and (n or timeline_of(session).has_values_alone(name)):
            row = TrajectoryRow(*NO_OWNER, name, n_decisions=n, n_rounds=n)
            part = self._known[name] = FileTrajectory(row, n)
        if part is None:
            raise InvalidRecord("trajectory", "no decision was taken in it")
        if session.dropped_to:
            number, n = record.get("number"), part.row.n_measurements
            check(type(number) is int and n < number <= 2**53, "number", f"after {n} comes another")
            part.row.n_measurements = int(number or 1) - 1
        return part

    def void(self, record: Record) -> None:
        """Check and count a void decision."""
        known = self._known.get(record["trajectory"])
        n = self.n_rounds(record["trajectory"]) if known is None else known.row.n_rounds
        is_known = record["round"] <= n
        check(is_known, "round", "that round has not been decided")
        place = record["trajectory"], record["round"]
        check(place not in self._voids, "round", "it is void already")
        self._voids[place] = record["position"]
        self._session.n_measurements += 1

    def summed_slots(self, record: Record) -> bytes:
        """Check summed slots whose decisions are dropped, and return the bytes of the sums."""
        session, name, last = self._session, record["trajectory"], record["last_slot"]
        ends, decided = self._ends, record["decided"]
        is_needed = closing_of(session).stays and session.dropped_to > 0
        check(is_needed, "record", "no decisions of slots are dropped")
        if not name:
            before = (ends or [(0, 0)])[-1]
            in_order = before[0] < last and before[1] <= decided <= session.dropped_to
            check(in_order, "last_slot", "out of order")
            ends.append((last, decided))
        place = bisect_left(ends, (last, decided))
        is_whose = ends[place : place + 1] == [(last, decided)]
        is_whose = is_whose and (not name or name in self._declared)
        check(is_whose, "trajectory", "there are no such slots")
        data, begun = b64decode(record["sums"], validate=True), ends[place - 1][0] if place else 0
        sums = np.frombuffer(data).reshape(-1, 1 + n_given(session))
        slots = sums[:, 0]
        in_order = np.all(np.diff(slots, prepend=begun, append=last + 1) > 0)
        fits = np.all(np.isfinite(sums)) and np.all(slots == np.floor(slots)) and in_order
        check(bool(fits), "sums", "they are not of these slots")
        return data

    def _has_slots(self) -> bool:
        """Return whether there are sums of all slots whose decisions are dropped."""
        assert self._session.clock is not None
        last, decided = (self._ends or [(0, 0)])[-1]
        settled = self._session.clock.settled(self._session.schedule.n_slots)
        return decided == self._session.dropped_to and last <= settled

    def rounds(self) -> Rounds:
        """Merge the rounds of all trajectories; their positions are 1 to n, but for those gone."""
        parts, n = [*self._known.values()], self._session.n_rounds
        positions = np.concatenate([np.zeros(0, np.int64), *(one.positions for one in parts)])
        order = np.argsort(positions)
        _check_positions(positions[order], n)
        at = np.concatenate([np.zeros(0), *(one.times for one in parts)])
        followed = [np.append(np.asarray(one.times)[1:], np.inf) for one in parts]
        marks = b"".join(one.is_measured for one in parts)
        return Rounds(
            positions[order],
            at[order],
            np.concatenate([np.zeros(0), *followed])[order],
            np.frombuffer(marks, np.bool_)[order],
        )

    def check_arrivals(self) -> None:
        """Check that values and void decisions have positions 1 to n, but for those gone."""
        found = [np.array(part.arrivals, np.int64) for part in self._known.values()]
        together = np.concatenate([np.array([*self._voids.values()], np.int64), *found])
        _check_positions(np.sort(together), self._session.n_measurements)
        late = max((part.late for part in self._known.values()), default=0)
        check(late <= self._session.n_rounds + 1, "late", "there are not as many rounds")

    def rows(self, *, has_sums: bool) -> list[TrajectoryRow]:
        """Return the rows of all trajectories, with what is dropped; `has_sums`: of the latter."""
        session = self._session
        if not session.dropped_to:
            return [part.row for part in self._known.values()]
        has_sums = self._has_slots() if closing_of(session).stays else has_sums
        check(has_sums, "session.dropped_to", "there are no sums of the estimate in use")
        rows, n_gone, n_less = [], 0, 0
        for name, given in self._declared.items():
            part = self._known.get(name)
            row = TrajectoryRow(*NO_OWNER, name) if part is None else part.row
            n_rounds, n, through = (given[count] for count in COUNTS)
            check(part is None or row.n_rounds == n_rounds, "n_rounds", "not as many are there")
            last = timeline_of(session).n_slots(session) or n_rounds
            fits = row.n_measurements <= n and row.measured_through <= through <= last
            check(fits, "n_measurements", "fewer than there are")
            n_gone += n_rounds if part is None else part.n_before
            n_less += n - (0 if part is None else len(part.arrivals))
            row.n_decisions = row.n_rounds = n_rounds
            row.n_measurements, row.measured_through = n, through
            row.last_at = max(row.last_at, given["last_at"])
            if "lately" in given:
                check(len(given["lately"]) == session.dim, "lately", "not of this dim")
                row.lately = array("d", given["lately"]).tobytes()
            rows.append(row)
        # those of a trajectory that was erased later count, too, and have no record
        fits = n_gone <= session.n_dropped_rounds
        check(fits, "session.n_dropped_rounds", f"{n_gone} are")
        fits = n_less <= session.n_dropped_measurements
        check(fits, "session.n_dropped_measurements", f"{n_less} are")
        session.n_trajectories = sum(row.n_decisions > 0 for row in rows)
        return rows


def _check_positions(found: Ints, n: int) -> None:
    """Check that sorted positions are among 1 to n, each of them at most once.

    They are as many as there must be, so that they are all where nothing is erased.
    """
    fits = not len(found) or (found[0] >= 1 and found[-1] <= n and np.all(np.diff(found) > 0))
    check(bool(fits), "position", f"the positions are not 1 to {n}")
