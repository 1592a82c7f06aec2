"""The manifests of an imported session's fits, and the order in which its measurements came."""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.history import Ints
from service.session.due_fits import Schedule
from service.session.option_changes import changes_of
from service.session.records import SessionRow, TrajectoryRow
from service.storage.watermarks import arrival_order, as_watermark, is_old
from service.transfer.import_records import check
from service.transfer.import_schedule import are_positions
from service.writer.pending_spans import Spans


@dataclass(slots=True)
class TrajectoryRecords:
    """The records of one trajectory so far: its counters, and arrays over its rounds.

    The last four are arrays over its measurements: their positions, when they came, and their first
    and last rounds; a correction's first round is 0 there.
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
    arrived_at: "array[float]" = field(default_factory=lambda: array("d"))
    first_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    last_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    totals: Spans[None] = field(default_factory=Spans)  # the slots that have one, with a clock

    def places(self, first: int, last: int) -> slice:
        """Return where rounds are in the arrays; dropped ones are not."""
        return slice(max(first - 1 - self.n_before, 0), max(last - self.n_before, 0))

    def add_measurement(self, record: dict[str, Any]) -> None:
        """Take note of a measurement with a position, and check that it is in order.

        Raises
        ------
        InvalidRecord
            Also if it corrects no earlier value of the same rounds.
        """
        position, replaces = record["position"], record.get("replaces")
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
    """Checks manifests against the records before them, and makes watermarks of old ones.

    Parameters
    ----------
    version : int
        The file's. In version 1 manifests name measurements by trajectory.
    session : SessionRow
        The session with its counters so far.
    trajectories : mapping
        The records of each trajectory so far.
    """

    def __init__(
        self, version: int, session: SessionRow, trajectories: Mapping[str, TrajectoryRecords]
    ) -> None:
        self.are_old = version == 1
        self._session, self._trajectories = session, trajectories
        self._counts: list[dict[str, int]] = []
        self._seen = 0  # by the last fit
        self._voids: dict[tuple[str, int], int] = {}  # positions, by trajectory and round

    def refuse_corrections(self, agent: Agent) -> None:
        """Raise `InvalidRecord` if such a session has no corrections and no void decisions."""
        can = not agent.learns_within_epoch and not self.are_old
        check(can, "record", f"{agent.name} takes no corrections")

    def void(self, record: dict[str, Any], agent: Agent) -> None:
        """Check a void decision, and take note of its position.

        Raises
        ------
        InvalidRecord
            There is no such round, or it is void already.
        """
        self.refuse_corrections(agent)
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
            It is not of the file's version, or names what is not there.
        """
        old, new = ("closed",), ("decided", "closed_at")
        here, elsewhere = (old, new) if self.are_old else (new, old)
        measured = manifest["measured"]
        n_measured = sum(measured.values()) if isinstance(measured, dict) else measured
        self._seen = max(self._seen, n_measured)
        fits = is_old(manifest) == self.are_old and all(name in manifest for name in here)
        fits = fits and not any(name in manifest for name in elsewhere)
        check(fits, f"{where}.measured", "it is of another version")
        most = len(changes_of(self._session.changes).changes)
        check(manifest.get("revision", 0) <= most, f"{where}.revision", f"there are {most}")
        if not self.are_old:
            most = self._session.n_measurements
            check(manifest["measured"] <= most, f"{where}.measured", f"there are {most}")
            most = self._session.n_rounds
            check(manifest["decided"] <= most, f"{where}.decided", f"there are {most}")
            return
        for part, counter in (("measured", "n_measurements"), ("closed", "n_rounds")):
            for name, n in manifest[part].items():
                known = name in self._trajectories and n <= getattr(
                    self._trajectories[name].row, counter
                )
                check(known, f"{where}.{part}", f"not so many of {name!r}")
        self._counts.append(manifest["measured"])

    def schedule(self, given: dict[str, Any]) -> Schedule:
        """Return the pending fits of a file, checked, without open windows."""
        current, waiting = given["current"], given["waiting"]
        named = [("current", current), *((f"waiting[{i}]", due) for i, due in enumerate(waiting))]
        for name, due in named:
            if due is not None:
                self.check(due, f"session.schedule.{name}")
        first, *others = (due and self.as_new(due) for _, due in named)
        seen = self._seen
        return Schedule.load({"open": [], "current": first, "waiting": others, "seen": seen})

    def as_new(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return a manifest as a watermark."""
        if not self.are_old:
            return manifest
        return as_watermark(manifest, self._session.reward_wait_seconds, self._position_of)

    def _position_of(self, name: str, round: int) -> int:
        positions = self._trajectories[name].positions
        return positions[round - 1] if round <= len(positions) else 0

    def arrivals(self) -> dict[str, Ints]:
        """Return the positions of each trajectory's measurements; all manifests are checked.

        Raises
        ------
        InvalidRecord
            The positions in the file are not among 1 to n, each of them once.
        """
        parts = {name: part for name, part in self._trajectories.items() if part.arrived_at}
        if self.are_old:
            times = {name: part.arrived_at for name, part in parts.items()}
            return arrival_order(times, self._counts)
        found = {name: np.array(part.arrivals, np.int64) for name, part in parts.items()}
        n = self._session.n_measurements
        voids = np.array([*self._voids.values()], np.int64)
        together = np.sort(np.concatenate([voids, *found.values()]))
        check(are_positions(together, n), "position", f"the positions are not 1 to {n}")
        return found
