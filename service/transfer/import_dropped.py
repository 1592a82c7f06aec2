"""Check what an imported session says of its dropped rows: counts of trajectories, and sums."""

import binascii
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from lhb_engine.agents import Agent
from service.session.records import KeptSumsRow, SessionRow, TrajectoryRow
from service.session.rules import needs_sums
from service.transfer.import_records import InvalidRecord, check
from service.transfer.import_rounds import TrajectoryRecords

COUNTS = ("n_rounds", "n_measurements", "measured_through")


class Dropped:
    """Checks the trajectory records and the sums of a file, which other files need not have."""

    def __init__(self, session: SessionRow, trajectories: Mapping[str, TrajectoryRecords]) -> None:
        self.sums: KeptSumsRow | None = None
        self._session, self._trajectories = session, trajectories
        self._given: dict[str, dict[str, Any]] = {}
        gone = session.n_dropped_rounds, session.swept_to, session.n_dropped_complete
        fits = all(n <= session.dropped_to for n in gone)
        fits = fits and session.n_dropped_complete <= session.n_dropped_rounds
        check(fits, "session.dropped_to", "more is dropped than that")

    def trajectory(self, record: dict[str, Any]) -> None:
        """Take note of a trajectory's counters, of which dropped rows tell nothing."""
        if not self._session.dropped_to:
            return
        key, at = record.get("key"), record.get("last_at")
        check(isinstance(key, str) and key not in self._given, "key", "it stands twice, or not")
        for name in COUNTS:
            n = record.get(name)
            check(type(n) is int and 0 <= n <= 2**53, name, "it is no count")
        check(isinstance(at, int | float) and 0 <= at <= 1e11, "last_at", "it is no time")
        self._given[str(key)] = record

    def begin(self, name: str, round: int) -> int:
        """Return how many rounds of a trajectory come before the first one in the file."""
        if not self._session.dropped_to:
            return 0
        check(name in self._given, "trajectory", "it has no record of its own")
        return round - 1

    def take_sums(self, record: dict[str, Any], agent: Agent) -> None:
        """Check the sums, and keep them; a session that drops no rows has none."""
        session = self._session
        is_first = bool(session.dropped_to) and needs_sums(session) and self.sums is None
        check(is_first, "record", "sums are once in a session that needs them, else never")
        data = {}
        for name in ("settled", "seen"):
            data[name] = None if record[name] is None else _sums(record[name], name, agent)
        places = record["first_round"], record["last_round"], session.n_rounds
        check(tuple(sorted(places)) == places, "last_round", "there are no such rounds")
        most = session.n_measurements
        in_order = record["n_settled"] <= record["measured"] <= most
        check(in_order, "n_settled", f"there are {most} measurements")
        given = {name: v for name, v in record.items() if name != "record"}
        self.sums = KeptSumsRow("", "", **{**given, **data})

    def finish(self) -> list[TrajectoryRow]:
        """Return the trajectories, with what is dropped."""
        session, known = self._session, self._trajectories
        if not session.dropped_to:
            return [part.row for part in known.values()]
        has_sums = self.sums is not None and self.sums.estimate == session.estimate
        fits = has_sums or not needs_sums(session)
        check(fits, "session.dropped_to", "there are no sums of the estimate in use")
        rows, n_gone, n_less = [], 0, 0
        for name, given in self._given.items():
            part = known.get(name)
            row = TrajectoryRow("", "", name) if part is None else part.row
            n_rounds = given["n_rounds"]
            check(part is None or row.n_rounds == n_rounds, "n_rounds", "not as many are there")
            n_gone += n_rounds if part is None else part.n_before
            more = given["n_measurements"] - row.n_measurements
            through = given["measured_through"]
            fits = more >= 0 and row.measured_through <= through <= n_rounds
            check(fits, "n_measurements", "fewer than there are")
            n_less += more
            row.n_decisions = row.n_rounds = n_rounds
            row.n_measurements += more
            row.measured_through, row.last_at = through, max(row.last_at, given["last_at"])
            rows.append(row)
        # those of a trajectory that was erased later count, too, and have no record
        fits = n_gone <= session.n_dropped_rounds
        check(fits, "session.n_dropped_rounds", f"{n_gone} are")
        fits = n_less <= session.n_dropped_measurements
        check(fits, "session.n_dropped_measurements", f"{n_less} are")
        return rows

    def n_measured_before(self, name: str) -> int:
        """Return how many measurements of a trajectory come before those in the file."""
        given = self._given.get(name)
        if given is None:
            return 0
        return int(given["n_measurements"]) - len(self._trajectories[name].arrivals)


def _sums(text: str, field: str, agent: Agent) -> bytes:
    """Return the bytes of sums, checked."""
    from lhb_engine.agents.summed_fit import sums_from_bytes  # loads what only fits need

    try:
        data = b64decode(text, validate=True)
        sums_from_bytes(agent, data)
    except (binascii.Error, ValueError) as error:
        raise InvalidRecord(field, str(error)) from None
    return data
