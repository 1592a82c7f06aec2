"""The manifests of an imported session's fits, and the positions of its measurements."""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from service.session.due_fits import Schedule
from service.session.option_changes import changes_of
from service.session.records import SessionRow, TrajectoryRow
from service.transfer.import_records import check
from service.transfer.import_schedule import are_positions
from service.writer.pending_spans import Spans


@dataclass(slots=True)
class TrajectoryRecords:
    """The records of one trajectory so far: its counters, and arrays over its rounds.

    The last three are arrays over its measurements: their positions, and their first and last
    rounds; a correction's first round is 0 there.
    """

    row: TrajectoryRow
    n_before: int = 0  # rounds that are dropped; the arrays begin after them
    positions: "array[int]" = field(default_factory=lambda: array("q"))
    times: "array[float]" = field(default_factory=lambda: array("d"))
    measured: bytearray = field(default_factory=bytearray)  # one byte per round: 1 if measured
    model_version: int = 0
    event_ids: set[str] = field(default_factory=set)
    reward_ids: set[str] = field(default_factory=set)
    arrivals: "array[int]" = field(default_factory=lambda: array("q"))
    first_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    last_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    totals: Spans[None] = field(default_factory=Spans)  # the slots that have one, with a clock

    def places(self, first: int, last: int) -> slice:
        """Return where rounds are in the arrays; dropped ones are not."""
        return slice(max(first - 1 - self.n_before, 0), max(last - self.n_before, 0))

    def add_measurement(self, record: dict[str, Any]) -> None:
        """Take note of a measurement, and check that it is in order.

        Raises
        ------
        InvalidRecord
            Also if it corrects no earlier value of the same rounds.
        """
        position, replaces = record["position"], record["replaces"]
        in_order = not self.arrivals or self.arrivals[-1] < position
        check(in_order, "position", "out of order")
        first, last = record["first_round"], record["last_round"]
        if replaces is not None:
            check(record["reward_id"] is not None, "reward_id", "a correction needs one")
            i = bisect_left(self.arrivals, replaces)
            is_known = i < len(self.arrivals) and self.arrivals[i] == replaces
            is_known = is_known and (self.first_rounds[i], self.last_rounds[i]) == (first, last)
            check(is_known, "replaces", "no value of the same rounds has that position")
        self.arrivals.append(position)
        self.first_rounds.append(0 if replaces is not None else first)
        self.last_rounds.append(last)


class Manifests:
    """Checks manifests, and the positions of measurements and void decisions.

    Parameters
    ----------
    session : SessionRow
        The session with its counters so far.
    trajectories : mapping
        The records of each trajectory so far.
    """

    def __init__(self, session: SessionRow, trajectories: Mapping[str, TrajectoryRecords]) -> None:
        self._session, self._trajectories = session, trajectories
        self._seen = 0  # by the last fit
        self._voids: dict[tuple[str, int], int] = {}  # positions, by trajectory and round

    def void(self, record: dict[str, Any]) -> None:
        """Check a void decision, and take note of its position.

        Raises
        ------
        InvalidRecord
            There is no such round, or it is void already.
        """
        known = self._trajectories.get(record["trajectory"])
        is_known = known is not None and record["round"] <= known.row.n_rounds
        check(is_known, "round", "that round has not been decided")
        place = record["trajectory"], record["round"]
        check(place not in self._voids, "round", "it is void already")
        self._voids[place] = record["position"]
        self._session.n_measurements += 1

    def check(self, manifest: dict[str, Any], where: str) -> None:
        """Check a manifest; `where` names it.

        Raises
        ------
        InvalidRecord
            It names what is not there.
        """
        session = self._session
        for name, most in (
            ("revision", len(changes_of(session.changes).changes)),
            ("measured", session.n_measurements),
            ("decided", session.n_rounds),
        ):
            check(manifest[name] <= most, f"{where}.{name}", f"there are {most}")
        self._seen = max(self._seen, manifest["measured"])

    def schedule(self, given: dict[str, Any]) -> Schedule:
        """Return the pending fits of a file, checked, without open windows."""
        current, waiting = given["current"], given["waiting"]
        named = [("current", current), *((f"waiting[{i}]", due) for i, due in enumerate(waiting))]
        for name, due in named:
            if due is not None:
                self.check(due, f"session.schedule.{name}")
        return Schedule.load({**given, "open": [], "seen": self._seen, "n_slots": 0})

    def check_positions(self) -> None:
        """Check the positions of all measurements and void decisions.

        Raises
        ------
        InvalidRecord
            They are not among 1 to n, each of them once.
        """
        n = self._session.n_measurements
        found = [np.array(part.arrivals, np.int64) for part in self._trajectories.values()]
        together = np.sort(np.concatenate([np.array([*self._voids.values()], np.int64), *found]))
        check(are_positions(together, n), "position", f"the positions are not 1 to {n}")
