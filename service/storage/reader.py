"""Reads by named statements, the same for every SQL database."""

import json
from collections.abc import Iterator
from typing import Any

from service.session.due_fits import Schedule
from service.session.records import (
    DecisionRow,
    EstimateRow,
    HiddenRows,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    number_in,
)
from service.storage.history_reader import HistoryReader
from service.storage.sql.columns import BOOLS, COLUMNS
from service.storage.tenant_reader import TenantReader

FOR_EVER = 2**62
Selected = tuple[int, int, bytes]  # round, position, and the context's bytes
PAGE_BYTES = 2**20  # a paged read stops one row after it exceeds this size


class Reader(HistoryReader, TenantReader):
    """Reads inside a transaction that the caller has begun; an adapter runs the statements.

    The reader of a store sees a snapshot of the committed rows. The reader of a transaction also
    sees the transaction's own writes.
    """

    def _some(self, name: str, *values: Any) -> list[Any]:
        """Return rows of a named statement, up to one row after they exceed PAGE_BYTES."""
        rows, size = [], 0
        for row in self._each(name, *values):
            rows.append(row)
            if size > PAGE_BYTES:
                break
            size += n_bytes(row)
        return rows

    def session(self, key: SessionKey) -> SessionRow | None:
        """Return a session, or None."""
        row = self._one("session", *key)
        return None if row is None else session_of(row)

    def session_named(self, tenant: str, name: str) -> SessionRow | None:
        """Return the session with this name, or None."""
        row = self._one("session_named", tenant, name)
        return None if row is None else self.session((tenant, row[0]))

    def controlled_by(self, key: SessionKey) -> list[str]:
        """Return names, or ids, of sessions whose control plays this session's agent; a few."""
        tenant, id = key
        return [name or other for name, other in self._all("controlled_by", tenant, id)]

    def created_as(self, tenant: str, name: str) -> list[tuple[str, str]]:
        """Return id and creation request of every session created under this name."""
        return [(id, request) for id, request in self._all("created_as", tenant, name)]

    def sessions(self, tenant: str, after: str, limit: int, archived: bool) -> list[SessionRow]:
        """Return sessions with ids greater than `after`, in order of creation."""
        return [session_of(row) for row in self._all("sessions", tenant, after, archived, limit)]

    def with_retention(self, after: SessionKey, limit: int) -> list[SessionRow]:
        """Return sessions that drop old rounds, in order of keys, from the one after `after` on."""
        return [session_of(row) for row in self._all("with_retention", *after, limit)]

    def unfinished(self) -> list[tuple[SessionKey, int | None, float | None]]:
        """Return sessions with a due fit or a wake-up time: key, due round and time of each."""
        return [((tenant, id), due, at) for tenant, id, due, at in self._all("unfinished")]

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        """Return a trajectory, or None."""
        row = self._one("trajectory", *key)
        return None if row is None else TrajectoryRow(*row)

    def trajectories(self, key: SessionKey) -> Iterator[TrajectoryRow]:
        """Iterate over all trajectories of a session, in key order."""
        return (TrajectoryRow(*row) for row in self._each("trajectories", *key))

    def measured_of_last(self, key: SessionKey, first: str, last: str, n: int) -> dict[str, int]:
        """Return how many of each trajectory's last `n` rounds are measured.

        Trajectories with keys in first..last are counted.
        """
        rows = self._all("measured_of_last", *key, first, last, n)
        return {name: int(n) for name, n in rows}

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """Return the decision with this client's event id, or None."""
        return _decision(self._one("decision_by_event", *key, event_id))

    def decision_by_number(self, key: TrajectoryKey, number: int) -> DecisionRow | None:
        """Return a decision by its number within its trajectory, or None."""
        return _decision(self._one("decision_by_number", *key, number))

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        """Return the first decision of a round, or None."""
        return _decision(self._one("decision_by_round", *key, round))

    def decision_before(self, key: TrajectoryKey, at: float) -> DecisionRow | None:
        """Return the last decision taken at or before the time `at`, or None."""
        return _decision(self._one("decision_before", *key, at))

    def decision(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """Return a decision by its event id (the client's or the server's), or None."""
        number = number_in(event_id)
        if number is None:
            found = self.decision_by_event(key, event_id)
        else:
            found = self.decision_by_number(key, number)
        if found is None or found.event_id != event_id or found.round > self._shown_until(key):
            return None
        return found

    def _shown_until(self, key: TrajectoryKey) -> int:
        """Return the last round that may be shown: a log is hidden until it is whole."""
        row = self._one("shown_until", *key)
        return FOR_EVER if row is None else int(row[0])

    def decisions(
        self, key: TrajectoryKey, after: int, limit: int, until: int | None = None
    ) -> list[DecisionRow]:
        """Return a page of decisions, in order of rounds.

        Parameters
        ----------
        key : TrajectoryKey
            The trajectory.
        after, until : int
            Rounds of the page: later than `after`, and at most `until`.
        limit : int
            Most decisions in the page. It ends early, one row after it exceeds PAGE_BYTES.

        Returns
        -------
        list of DecisionRow
            Empty only if no decision is left.
        """
        last = min(FOR_EVER if until is None else until, self._shown_until(key))
        return [DecisionRow(*row) for row in self._some("decisions", *key, after, last, limit)]

    def measurement_over(self, key: TrajectoryKey, first: int, last: int) -> MeasurementRow | None:
        """Return the measurement that overlaps rounds first..last and starts last, or None."""
        row = self._one("measurement_over", *key, first, last)
        return None if row is None else MeasurementRow(*row)

    def measurements(self, key: TrajectoryKey, first: int, last: int) -> list[MeasurementRow]:
        """Return measurements that start in rounds first..last, ordered by start and number."""
        last = min(last, self._shown_until(key))
        return [MeasurementRow(*row) for row in self._all("measurements", *key, first, last)]

    def measurement_log(self, key: TrajectoryKey) -> Iterator[MeasurementRow]:
        """Iterate over all measurements of a trajectory, in order of arrival."""
        last = self._shown_until(key)
        rows = (MeasurementRow(*row) for row in self._each("measurement_log", *key))
        return (row for row in rows if row.first_round <= last)

    def count_measured(self, key: SessionKey, first: int, last: int) -> int:
        """Return the number of measured rounds among the session's positions first..last."""
        return int(self._one(*self._window("count_measured", key, first, last))[0])

    def closed_at(self, key: SessionKey, first: int, last: int) -> float | None:
        """Return the time at which the last unmeasured round of positions first..last ended.

        A round ends when the next decision of its trajectory is taken.

        Returns
        -------
        float or None
            Seconds since 1970; None if an unmeasured round has not ended, 0 if all are measured.
        """
        n_open, at = self._one(*self._window("closed_at", key, first, last))
        return None if n_open else at or 0.0

    def agent_state(self, key: SessionKey) -> str | None:
        """Return the agent's state as JSON, or None if none has been stored."""
        row = self._one("agent_state", *key)
        return None if row is None else str(row[0])

    def estimates(self, key: SessionKey, after: int, limit: int) -> list[EstimateRow]:
        """Return a page of fits with numbers greater than `after`, failed and skipped ones too.

        The page is bounded like that of `decisions`.
        """
        return [EstimateRow(*row) for row in self._some("estimates", *key, after, limit)]

    def estimate(self, key: SessionKey, number: int) -> EstimateRow | None:
        """Return a fit by its number, or None."""
        row = self._one("estimate", *key, number)
        return None if row is None else EstimateRow(*row)

    def selected_contexts(self, key: TrajectoryKey, first: int, last: int) -> list[Selected]:
        """Return round, position and selected context (bytes) of each decision of first..last."""
        return self._all("selected_contexts", *key, first, last)

    def positions(self, key: TrajectoryKey, first: int, last: int) -> list[int]:
        """Return the positions of rounds first..last."""
        return [position for (position,) in self._all("positions", *key, first, last)]

    def hidden(self) -> list[HiddenRows]:
        """Return the notes of rows that no reader sees, in order of `sweep_at`."""
        return [HiddenRows(*row) for row in self._all("hidden")]

    def check(self) -> None:
        """Raise `Unavailable` unless the database answers."""
        self._one("check")


def _decision(row: Any) -> DecisionRow | None:
    return None if row is None else DecisionRow(*row)


def session_of(row: Any) -> SessionRow:
    """Return the session that a row of the statement `session` describes."""
    values = dict(zip(COLUMNS["sessions"], row, strict=True))
    values["options"] = json.loads(values["options"])
    values["schedule"] = Schedule.loads(values["schedule"])
    for name in BOOLS:
        values[name] = bool(values[name])  # SQLite stores an integer
    return SessionRow(**values)


def n_bytes(row: object) -> int:
    """Return the total length of a row's texts and blobs."""
    parts = row if isinstance(row, tuple) else ()
    return sum(len(part) for part in parts if isinstance(part, str | bytes))
