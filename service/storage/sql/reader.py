"""Reading by named statements: the same rows from every SQL database."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from lhb_engine.history import FitWindow, History
from service.records import (
    ApiKey,
    DecisionRow,
    DueFit,
    EstimateRow,
    MeasurementRow,
    Schedule,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    number_in,
)
from service.storage.ports import PAGE_BYTES, n_bytes
from service.storage.sql.columns import COLUMNS
from service.storage.sql.histories import read_history

FOR_EVER = 2**62


class SqlReader(ABC):
    """Reads inside a transaction that the caller has begun; an adapter runs the statements."""

    @abstractmethod
    def _all(self, name: str, *values: Any) -> list[Any]:
        """All rows of a named statement."""

    @abstractmethod
    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        """The rows of a named statement, without holding them all."""

    def _some(self, name: str, *values: Any) -> list[Any]:
        """Rows of a named statement, until those before the last exceed PAGE_BYTES."""
        rows, size = [], 0
        for row in self._each(name, *values):
            rows.append(row)
            if size > PAGE_BYTES:
                break
            size += n_bytes(row)
        return rows

    def _one(self, name: str, *values: Any) -> Any:
        rows = self._all(name, *values)
        return rows[0] if rows else None

    def session(self, key: SessionKey) -> SessionRow | None:
        """A session."""
        row = self._one("session", *key)
        return None if row is None else session_of(row)

    def session_named(self, tenant: str, name: str) -> SessionRow | None:
        """The session of that name."""
        row = self._one("session_named", tenant, name)
        return None if row is None else self.session((tenant, row[0]))

    def created_as(self, tenant: str, name: str) -> list[tuple[str, str]]:
        """Id and request of every session that was created under that name."""
        return [(id, request) for id, request in self._all("created_as", tenant, name)]

    def sessions(self, tenant: str, after: str, limit: int, archived: bool) -> list[SessionRow]:
        """Sessions in order of creation."""
        return [session_of(row) for row in self._all("sessions", tenant, after, archived, limit)]

    def unfinished(self) -> list[tuple[SessionKey, int | None, float | None]]:
        """Sessions with a fit due or a time to wake at."""
        return [((tenant, id), due, at) for tenant, id, due, at in self._all("unfinished")]

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        """A trajectory."""
        row = self._one("trajectory", *key)
        return None if row is None else TrajectoryRow(*row)

    def trajectories(self, key: SessionKey) -> list[TrajectoryRow]:
        """All trajectories of a session, in key order."""
        return [TrajectoryRow(*row) for row in self._all("trajectories", *key)]

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """The decision that a client's event id names."""
        return _decision(self._one("decision_by_event", *key, event_id))

    def decision_by_number(self, key: TrajectoryKey, number: int) -> DecisionRow | None:
        """A decision by its number within its trajectory."""
        return _decision(self._one("decision_by_number", *key, number))

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        """The first decision of a round."""
        return _decision(self._one("decision_by_round", *key, round))

    def decision_before(self, key: TrajectoryKey, at: float) -> DecisionRow | None:
        """The last decision taken at or before a time."""
        return _decision(self._one("decision_before", *key, at))

    def decision(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """A decision by its event id, the client's or the server's."""
        number = number_in(event_id)
        if number is None:
            return self.decision_by_event(key, event_id)
        found = self.decision_by_number(key, number)
        return found if found is not None and found.event_id == event_id else None

    def decisions(
        self, key: TrajectoryKey, after: int, limit: int, until: int | None = None
    ) -> list[DecisionRow]:
        """Decisions of rounds beyond `after`, in order; fewer than `limit` where they are large."""
        last = FOR_EVER if until is None else until
        return [DecisionRow(*row) for row in self._some("decisions", *key, after, last, limit)]

    def measurement_over(self, key: TrajectoryKey, first: int, last: int) -> MeasurementRow | None:
        """A measurement that shares a round with first..last (the one that starts last)."""
        row = self._one("measurement_over", *key, first, last)
        return None if row is None else MeasurementRow(*row)

    def measurements(self, key: TrajectoryKey, first: int, last: int) -> list[MeasurementRow]:
        """Measurements that start within first..last."""
        return [MeasurementRow(*row) for row in self._all("measurements", *key, first, last)]

    def measurement_log(self, key: TrajectoryKey) -> Iterator[MeasurementRow]:
        """All measurements of a trajectory as they came."""
        return (MeasurementRow(*row) for row in self._each("measurement_log", *key))

    def count_measured(self, key: SessionKey, first: int, last: int) -> int:
        """How many rounds of the session's positions first..last a measurement covers."""
        trajectories = self.trajectories(key)
        if len(trajectories) == 1:
            row = self._one("count_measured_alone", *key, first, last, trajectories[0].key)
        else:
            row = self._one("count_measured", *key, first, last)
        return int(row[0])

    def closed_rounds(self, key: SessionKey, before: float) -> dict[str, int]:
        """Last round of each trajectory whose next decision was taken at or before a time."""
        return {name: last for name, last in self._all("closed_rounds", *key, before) if last > 0}

    def closed_at(self, key: SessionKey, first: int, last: int) -> float | None:
        """When the last unmeasured round of positions first..last was followed by a decision."""
        n_open, at = self._one("closed_at", *key, first, last)
        return None if n_open else at or 0.0

    def agent_state(self, key: SessionKey) -> str | None:
        """The agent's state as JSON."""
        row = self._one("agent_state", *key)
        return None if row is None else str(row[0])

    def estimates(self, key: SessionKey, after: int, limit: int) -> list[EstimateRow]:
        """Fits beyond number `after`, in order; fewer than `limit` where they are large."""
        return [EstimateRow(*row) for row in self._some("estimates", *key, after, limit)]

    def estimate(self, key: SessionKey, number: int) -> EstimateRow | None:
        """One fit."""
        row = self._one("estimate", *key, number)
        return None if row is None else EstimateRow(*row)

    def rounds_in_window(
        self, key: SessionKey, first: int, last: int
    ) -> list[tuple[str, int, int]]:
        """Of each trajectory, its first and last round whose position lies in first..last; in
        key order."""
        trajectories = self.trajectories(key)
        if len(trajectories) == 1:
            alone = trajectories[0]
            last = min(last, alone.n_rounds)
            return [(alone.key, first, last)] if first <= last else []
        return self._all("rounds_in_window", *key, first, last)

    def selected_contexts(
        self, key: TrajectoryKey, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Round, position and selected context of every decision of rounds first..last."""
        return self._all("selected_contexts", *key, first, last)

    def positions(self, key: TrajectoryKey, first: int, last: int) -> list[int]:
        """Position of the first decision of each of rounds first..last."""
        return [position for (position,) in self._all("positions", *key, first, last)]

    def measured_values(
        self, key: TrajectoryKey, first: int, last: int, number: int
    ) -> list[tuple[int, int, float]]:
        """First round, last round and value of measurements within first..last, up to a number."""
        return self._all("measured_values", *key, first, last, number)

    def history(self, session: SessionRow, window: FitWindow, due: DueFit | None = None) -> History:
        """What a fit over `window` reads; with `due`, no more than its manifest allows."""
        return read_history(self, session, window, due)

    def api_keys(self) -> list[ApiKey]:
        """Every tenant's keys, revoked ones too."""
        return [ApiKey(*row) for row in self._all("api_keys")]

    def check(self) -> None:
        """Ask for nothing, to see whether there is an answer."""
        self._one("check")


def _decision(row: Any) -> DecisionRow | None:
    return None if row is None else DecisionRow(*row)


def session_of(row: Any) -> SessionRow:
    """The session of a row of statement `session`."""
    values = dict(zip(COLUMNS["sessions"], row, strict=True))
    values["options"] = json.loads(values["options"])
    values["schedule"] = Schedule.loads(values["schedule"])
    return SessionRow(**values)
