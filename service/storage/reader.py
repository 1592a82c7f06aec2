"""Reads by named statements, the same for every SQL database."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from service.session.records import (
    ApiKey,
    AuditRow,
    DecisionRow,
    EstimateRow,
    HiddenRows,
    KeptSumsRow,
    LiftSumsRow,
    LiftUnitRow,
    LimitRow,
    MeasurementRow,
    PlayedRound,
    SessionKey,
    SessionRow,
    SlotSumsRow,
    TrajectoryKey,
    TrajectoryRow,
    VoidRow,
    Webhook,
    number_in,
)
from service.storage.sql.statements import session_of

Row = TypeVar("Row")
FOR_EVER = 2**62
Selected = tuple[int, int, bytes]  # round, position, and the context's bytes
PAGE_BYTES = 2**20  # a paged read stops one row after it exceeds this size
Range = tuple[str, int, int]  # a trajectory, and its first and last round
# trajectory, first and last round, value, position, of a correction the first value's position, and
# `MeasurementRow.late`
MeasuredRow = tuple[str, int, int, float, int, int | None, int | None]
Columns = Sequence[Sequence[Any]]  # some stored rows, column by column
AT_ONCE = 512  # of these rows
FEW = 2  # ranges that are read by a statement each


def in_columns(rows: Iterable[tuple[Any, ...]]) -> Iterator[Columns]:
    """Iterate over the columns of stored rows, some rows at a time."""
    remaining = iter(rows)
    while some := [*islice(remaining, AT_ONCE)]:
        yield [*zip(*some, strict=True)]


class ChosenArm(NamedTuple):
    """What one decision chose."""

    trajectory: str
    round: int
    position: int
    at: float
    arm: int | None
    arm_id: str | None
    context: bytes
    is_void: bool
    by: str  # who chose: `service.session.trial.PlayedBy`; of a log, its caller


class Voided(NamedTuple):
    """A voided decision; None where its row is gone."""

    trajectory: str
    round: int
    position: int  # of the void
    at: float  # of the void
    begun: int | None  # position of the decision
    taken_at: float | None


class SumsPlace(NamedTuple):
    """What kept sums are of: see `KeptSumsRow`."""

    estimate: int
    first_round: int
    last_round: int
    n_settled: int
    measured: int


class Reader(ABC):
    """Reads inside a transaction that the caller has begun; an adapter runs the statements.

    The reader of a store sees a snapshot of the committed rows. The reader of a transaction also
    sees the transaction's own writes.
    """

    @abstractmethod
    def _all(self, name: str, *values: Any) -> list[Any]:
        """Return all rows of a named statement."""

    @abstractmethod
    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        """Iterate over the rows of a named statement without holding them all in memory."""

    def _one(self, name: str, *values: Any) -> Any:
        rows = self._all(name, *values)
        return rows[0] if rows else None

    def _row(self, kind: Callable[..., Row], name: str, *values: Any) -> Row | None:
        row = self._one(name, *values)
        return None if row is None else kind(*row)

    def _rows(self, kind: Callable[..., Row], name: str, *values: Any) -> list[Row]:
        return [kind(*row) for row in self._all(name, *values)]

    def _log(self, kind: Callable[..., Row], name: str, *values: Any) -> Iterator[Row]:
        return (kind(*row) for row in self._each(name, *values))

    def _first(self, kind: Callable[[Any], Row], name: str, *values: Any) -> Row | None:
        """Return the first column of a statement's first row as this kind of value, or None."""
        row = self._one(name, *values)
        return None if row is None or row[0] is None else kind(row[0])

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
        id = self._first(str, "session_named", tenant, name)
        return None if id is None else self.session((tenant, id))

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
        return self._row(TrajectoryRow, "trajectory", *key)

    def trajectories(self, key: SessionKey) -> Iterator[TrajectoryRow]:
        """Iterate over all trajectories of a session, in key order."""
        return self._log(TrajectoryRow, "trajectories", *key)

    def measured_of_last(self, key: SessionKey, first: str, last: str, n: int) -> dict[str, int]:
        """Return of trajectories with keys first..last how many of `n` last rounds are measured."""
        rows = self._all("measured_of_last", *key, first, last, n)
        return {name: int(n) for name, n in rows}

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """Return the decision with this client's event id, or None."""
        return self._row(DecisionRow, "decision_by_event", *key, event_id)

    def decision_by_number(self, key: TrajectoryKey, number: int) -> DecisionRow | None:
        """Return a decision by its number within its trajectory, or None."""
        return self._row(DecisionRow, "decision_by_number", *key, number)

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        """Return the first decision of a round, or None."""
        return self._row(DecisionRow, "decision_by_round", *key, round)

    def decision_before(self, key: TrajectoryKey, at: float) -> DecisionRow | None:
        """Return the last decision taken at or before the time `at`, or None."""
        return self._row(DecisionRow, "decision_before", *key, at)

    def decision(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """Return a decision by its event id (the client's or the server's), or None."""
        number = number_in(event_id)
        if number is None:
            row = self.decision_by_event(key, event_id)
        else:
            row = self.decision_by_number(key, number)
        if row is None or row.event_id != event_id or row.round > self._shown_until(key):
            return None
        return row

    def _shown_until(self, key: TrajectoryKey) -> int:
        """Return the last round that may be shown: a log is hidden until it is whole."""
        last = self._first(int, "shown_until", *key)
        return FOR_EVER if last is None else last

    def decisions(
        self, key: TrajectoryKey, after: int, limit: int, until: int | None = None
    ) -> list[DecisionRow]:
        """Return a page of decisions after a round, in order of rounds; empty only if none is left.

        Rounds are later than `after`, and at most `until`. The page ends early, one row after it
        exceeds PAGE_BYTES.
        """
        last = min(FOR_EVER if until is None else until, self._shown_until(key))
        return [DecisionRow(*row) for row in self._some("decisions", *key, after, last, limit)]

    def decision_log(self, key: TrajectoryKey) -> Iterator[DecisionRow]:
        """Iterate over all decisions of a trajectory, in order of rounds."""
        return self._log(DecisionRow, "decisions", *key, 0, self._shown_until(key), FOR_EVER)

    def measurement_over(self, key: TrajectoryKey, first: int, last: int) -> MeasurementRow | None:
        """Return the measurement that overlaps rounds first..last and starts last, or None."""
        return self._row(MeasurementRow, "measurement_over", *key, first, last)

    def measurements(self, key: TrajectoryKey, first: int, last: int) -> list[MeasurementRow]:
        """Return measurements that start in rounds first..last, ordered by start and number."""
        last = min(last, self._shown_until(key))
        return self._rows(MeasurementRow, "measurements", *key, first, last)

    def measurement_log(self, key: TrajectoryKey) -> Iterator[MeasurementRow]:
        """Iterate over all measurements of a trajectory, in order of arrival."""
        last = self._shown_until(key)
        rows = self._log(MeasurementRow, "measurement_log", *key)
        return (row for row in rows if row.first_round <= last)

    def count_measured(self, key: SessionKey, first: int, last: int) -> int:
        """Return the number of measured rounds among the session's positions first..last."""
        return self._first(int, *self._window("count_measured", key, first, last)) or 0

    def count_rounds(self, key: SessionKey, first: int, last: int) -> int:
        """Return how many rounds at positions first..last have rows."""
        return self._first(int, *self._window("count_rounds", key, first, last)) or 0

    def closed_at(self, key: SessionKey, first: int, last: int) -> float | None:
        """Return the time at which the last unmeasured round of positions first..last ended.

        A round ends when the next decision of its trajectory is taken. Seconds since 1970; None if
        an unmeasured round has not ended, 0 if all are measured.
        """
        n_open, at = self._one(*self._window("closed_at", key, first, last))
        return None if n_open else at or 0.0

    def agent_state(self, key: SessionKey) -> str | None:
        """Return the agent's state as JSON, or None if none has been stored."""
        return self._first(str, "agent_state", *key)

    def estimates(self, key: SessionKey, after: int, limit: int) -> list[EstimateRow]:
        """Return a page, like that of `decisions`, of fits after a number, skipped ones too."""
        return [EstimateRow(*row) for row in self._some("estimates", *key, after, limit)]

    def estimate_log(self, key: SessionKey) -> Iterator[EstimateRow]:
        """Iterate over all fits, failed and skipped ones too."""
        return self._log(EstimateRow, "estimates", *key, 0, FOR_EVER)

    def estimate(self, key: SessionKey, number: int) -> EstimateRow | None:
        """Return a fit by its number, or None."""
        return self._row(EstimateRow, "estimate", *key, number)

    def installed(self, session: SessionRow) -> EstimateRow | None:
        """Return the fit whose estimate was installed last, or None."""
        return self.estimate(session.key, session.estimate) if session.estimate else None

    def selected_contexts(self, key: TrajectoryKey, first: int, last: int) -> list[Selected]:
        """Return round, position and selected context (bytes) of each decision of first..last."""
        return self._all("selected_contexts", *key, first, last)

    def positions(self, key: TrajectoryKey, first: int, last: int) -> list[int]:
        """Return the positions of rounds first..last."""
        return [position for (position,) in self._all("positions", *key, first, last)]

    def hidden(self) -> list[HiddenRows]:
        """Return the notes of rows that no reader sees, in order of `sweep_at`."""
        return self._rows(HiddenRows, "hidden")

    def trajectories_from(self, key: SessionKey, first: str, limit: int) -> list[TrajectoryRow]:
        """Return at most `limit` trajectories, in key order, from the key `first` on."""
        return self._rows(TrajectoryRow, "trajectories_from", *key, first, limit)

    def _window(self, name: str, key: SessionKey, first: int, last: int, *more: Any) -> Any:
        """Return a statement of a window with its values: that for one trajectory, or for many."""
        trajectories = self._all("alone", *key)
        if len(trajectories) == 1:
            return f"alone_{name}", *key, first, last, *more, trajectories[0][0]
        return f"window_{name}", *key, first, last, *more

    def window_rounds(
        self, key: SessionKey, first: int, last: int, n_before: int
    ) -> Iterator[tuple[str, int, int, bytes]]:
        """Iterate over the decisions at positions first..last, with `n_before` rounds before them.

        Yields trajectory, round, position and selected context, in order of trajectory and round.
        """
        if first <= 1:
            return self._each("rounds_until", *key, last)
        return self._each(*self._window("rounds", key, first, last, n_before))

    def timed_decisions(
        self, key: SessionKey, after: int, decided: int, unnamed_after: int
    ) -> Iterator[tuple[str, int, int, float, bytes]]:
        """Iterate over the decisions with positions `after` + 1 to `decided`.

        Decisions of the default trajectory are looked for after the round that `unnamed_after`
        returned. Yields trajectory, round, position, time and selected context, in order of
        trajectory and round.
        """
        return self._each("timed_decisions", *key, after, decided, unnamed_after)

    def unnamed_after(self, key: SessionKey, position: int, n_named: int) -> int:
        """Return a round of the default trajectory, whose rounds after a position are all later.

        `n_named` rounds are of trajectories with a key, or erased.
        """
        round = self._first(int, "unnamed_after", *key, position, n_named)
        return position if round is None else round - 1

    def last_slot_sums(
        self, key: SessionKey, until: int, decided: int = FOR_EVER
    ) -> SlotSumsRow | None:
        """Return the default trajectory's last summed slots up to a slot; None: there are none.

        Decisions of later slots may have all positions after `decided`.
        """
        return self._row(SlotSumsRow, "last_slot_sums", *key, until, decided)

    def summed_for_good(self, session: SessionRow) -> int:
        """Return the last slot whose sum stands for decisions that are dropped; 0 if none are.

        Sums of slots up to this one follow from no row any more: they stay as they are.
        """
        if not session.dropped_to:
            return 0
        row = self.last_slot_sums(session.key, FOR_EVER, session.dropped_to)
        return 0 if row is None else row.last_slot

    def slot_sums_in(
        self, key: SessionKey, ranges: list[Range], until: int
    ) -> Iterator[SlotSumsRow]:
        """Iterate over summed slots whose last one is in ranges, and not after a slot."""
        return self._log(SlotSumsRow, "slot_sums_in", *key, json.dumps(ranges), until)

    def window_measurements(
        self, key: SessionKey, first: int, last: int, n_before: int, until: int
    ) -> Iterator[MeasuredRow]:
        """Iterate over the measurements that begin in the rounds of `window_rounds`.

        Measurements with positions beyond `until` are left out. A trajectory's measurement
        before these rounds, which may reach into them, may be there; so may measurements after a
        window that begins with the session. The order is that of trajectory and round; a row and
        its corrections have one round.
        """
        if first <= 1:
            return self._each("measurements_until", *key, until)
        return self._each(*self._window("measurements", key, first, last, n_before, until))

    def window_spans(self, key: SessionKey, first: int, last: int) -> list[Range]:
        """Return the first and the last round of each trajectory at positions first..last."""
        return [tuple(row) for row in self._all(*self._window("spans", key, first, last))]

    def measurements_after(
        self, key: SessionKey, position: int, until: int
    ) -> Iterator[MeasuredRow]:
        """Iterate over measurements at positions `position` + 1 to `until`, ordered as a window."""
        return self._each("measurements_after", *key, position, until)

    def first_replaced(self, key: SessionKey, position: int, until: int) -> int | None:
        """Return the least position that corrections at `position` + 1 to `until` replace."""
        return self._first(int, "replaced", *key, position, until)

    def measurements_in(
        self, key: SessionKey, ranges: list[Range], until: int
    ) -> Iterator[MeasuredRow]:
        """Iterate over the measurements up to position `until` that begin in ranges of rounds."""
        return self._each("measurements_in", *key, json.dumps(ranges), until)

    def measurements_over(
        self, key: SessionKey, ranges: list[Range], until: int
    ) -> Iterator[MeasuredRow]:
        """Iterate over `measurements_in`, and the last one before each range: it may reach in."""
        return self._each("measurements_over", *key, json.dumps(ranges), until)

    def rounds_in(self, key: SessionKey, ranges: list[Range], until: int) -> Iterator[Columns]:
        """Iterate over columns of `window_rounds`, of ranges of rounds, up to position `until`."""
        return self._columns("rounds", key, ranges, until)

    def measured_in(self, key: SessionKey, ranges: list[Range], until: int) -> Iterator[Columns]:
        """Iterate over columns of what `measurements_in` yields; not always with the last one."""
        return self._columns("measurements", key, ranges, until)

    def _columns(
        self, name: str, key: SessionKey, ranges: list[Range], until: int
    ) -> Iterator[Columns]:
        """Yield columns of rows of ranges of rounds: of a few ranges without a sort of the rows."""
        if len(ranges) > FEW:
            yield from in_columns(self._each(f"{name}_in", *key, json.dumps(ranges), until))
            return
        for one in ranges:
            for some in in_columns(self._each(f"{name}_of", *key, *one, until)):
                yield [[one[0]] * len(some[0]), *some]

    def context_sets(self, key: SessionKey, positions: list[int]) -> list[tuple[str, int, bytes]]:
        """Return trajectory, position and packed context set of decisions that keep one."""
        ranges: list[Range] = [("", position, position) for position in positions]
        return self._all("context_sets", *key, json.dumps(ranges))

    def covariates_in(self, key: SessionKey, ranges: list[Range]) -> Iterator[tuple[str, int, str]]:
        """Iterate over trajectory, round and covariates of decisions in ranges, in their order."""
        return self._each("covariates_in", *key, json.dumps(ranges))

    def measured_covariates_in(
        self, key: SessionKey, ranges: list[Range], until: int
    ) -> Iterator[tuple[str, int, int, str]]:
        """Iterate over the measurements up to position `until` that have covariates.

        Yields trajectory, first round, position and covariates, in order of trajectory, position.
        """
        return self._each("measured_covariates_in", *key, json.dumps(ranges), until)

    def voids(self, key: SessionKey, after: int, until: int) -> list[Voided]:
        """Return the session's voided decisions at positions `after` + 1 to `until`, in order."""
        return self._rows(Voided, "voids", *key, after, until)

    def voids_in(self, key: SessionKey, ranges: list[Range], until: int) -> list[Voided]:
        """Return the voided decisions in ranges of rounds, of voids up to a position."""
        return self._rows(Voided, "voids_in", *key, json.dumps(ranges), until)

    def voids_of(self, key: TrajectoryKey, first: int, last: int) -> list[VoidRow]:
        """Return the voided decisions of rounds first..last of a trajectory."""
        return self._rows(VoidRow, "voids_of", *key, first, last)

    def kept_sums(self, key: SessionKey) -> KeptSumsRow | None:
        """Return the moments of a session's past, or None if none have been stored."""
        return self._row(KeptSumsRow, "kept_sums", *key)

    def sums_place(self, key: SessionKey) -> SumsPlace | None:
        """Return what the kept sums of a session are of, if they go on from an estimate."""
        return self._row(SumsPlace, "sums_place", *key)

    def oldest_measured(
        self, key: SessionKey, after: int, until: int, n_later: int = 0, *, late: bool = True
    ) -> int | None:
        """Return the least position of a first round of measurements `after` + 1 to `until`.

        Or that of the round `n_later` after it, if there is one. Not `late`: of those in time.
        """
        return self._first(int, "oldest_measured", *key, after, until, n_later, late)

    def late_rounds(self, key: SessionKey, after: int, until: int, measured: int) -> list[Range]:
        """Return rounds, with those around, whose rows the first `measured` values changed late.

        The rows change at positions `after` + 1 to `until`.
        """
        return self._all("late_rounds", *key, after, until, measured)

    def first_began_after(self, key: SessionKey, first: int, last: int, at: float) -> int:
        """Return the first of positions first..last taken after a time; without one `last` + 1."""
        position = self._first(int, *self._window("first_began_after", key, first, last, at))
        return last + 1 if position is None else position

    def oldest_open(self, key: SessionKey, first: int, last: int) -> int | None:
        """Return the least position of a round before those at positions first..last.

        The round comes right before a trajectory's first there, or begins a value of that first
        one.
        """
        return self._first(int, *self._window("oldest_open", key, first, last))

    def began_from(self, key: SessionKey, position: int, n_named: int) -> float | None:
        """Return when the first round from a position on began; see `unnamed_after`."""
        return self._first(float, "began_from", *key, position, n_named)

    def time_of_round(self, key: TrajectoryKey, round: int) -> float | None:
        """Return when a round of a trajectory began; None if its row is not there."""
        return self._first(float, "time_of_round", *key, round)

    def first_left(self, key: TrajectoryKey) -> int | None:
        """Return the first round of a trajectory whose row is there, or None."""
        return self._first(int, "first_left", *key)

    def played(self, key: SessionKey, first: int, last: int) -> list[PlayedRound]:
        """Return the rounds of a trial at positions first..last, in order of position."""
        return self._rows(PlayedRound, *self._window("played", key, first, last))

    def played_in(self, key: SessionKey, ranges: list[Range], until: int) -> Iterator[PlayedRound]:
        """Iterate over the rounds of a trial in ranges of rounds, up to position `until`."""
        return self._log(PlayedRound, "played_in", *key, json.dumps(ranges), until)

    def lift_sums(self, key: SessionKey) -> LiftSumsRow | None:
        """Return what is summed so far of a session with a trial, or None."""
        return self._row(LiftSumsRow, "lift_sums", *key)

    def lift_units(
        self, key: SessionKey, since: int, units: list[tuple[str, int]]
    ) -> dict[tuple[str, int], LiftUnitRow]:
        """Return the totals of those of these units (trajectory, block) that have any."""
        places = json.dumps([(trajectory, block, 0) for trajectory, block in units])
        rows = self._all("lift_units", *key, places, since)
        totals = (LiftUnitRow(*key, since, *row) for row in rows)
        return {(one.trajectory, one.block): one for one in totals}

    def unsummed(self, after: SessionKey, limit: int) -> list[SessionKey]:
        """Return sessions with rounds or rewards of a trial that are in no sums, by keys."""
        return [(tenant, id) for tenant, id in self._all("unsummed", *after, limit)]

    def window_closed(
        self, key: SessionKey, first: int, last: int, decided: int, closed_at: float
    ) -> dict[str, int]:
        """Return the last closed round of each trajectory with a position in first..last.

        A round is closed if its trajectory's next decision, to `decided`, was taken by `closed_at`.
        """
        return dict(self._all(*self._window("closed", key, first, last, decided, closed_at)))

    def taken(self, key: SessionKey, first: int, last: int) -> list[tuple[int, float, bool | None]]:
        """Return position, time, and whether it explored, None where the agent did not choose."""
        return self._all(*self._window("taken", key, first, last))

    def chosen(self, key: SessionKey, first: int, last: int) -> Iterator[ChosenArm]:
        """Iterate over the decisions at positions first..last, by trajectory and round."""
        return self._log(ChosenArm, *self._window("chosen", key, first, last))

    def arrivals(self, key: SessionKey, first: int, last: int) -> list[tuple[float, bool]]:
        """Return of each measurement at positions first..last how long it took, and if it was late.

        It takes seconds from the decision of its last round on, and is late after the next one.
        """
        return self._all(*self._window("arrivals", key, first, last))

    def n_bytes(self) -> int:
        """Return the size of the database."""
        return self._first(int, "n_bytes") or 0

    def count_sessions(self, tenant: str, most: int) -> int:
        """Count a tenant's sessions, up to `most`."""
        return self._first(int, "n_sessions", tenant, most) or 0

    def stored_by_tenant(self) -> list[tuple[str, float]]:
        """Return of each tenant about how many bytes its sessions' rows and kept sums take."""
        return self._all("stored_by_tenant")

    def due_by_tenant(self) -> list[tuple[str, int, int, float]]:
        """Return tenants with due fits: how many, the most rounds since one, the oldest's time."""
        return self._all("due_by_tenant")

    def guards_tripped(self) -> list[tuple[str, int]]:
        """Return of each tenant with trials how many of its sessions' guards have tripped."""
        return [(tenant, int(n)) for tenant, n in self._all("guards_tripped")]

    def api_keys(self) -> list[ApiKey]:
        """Return the API keys of all tenants, revoked ones too."""
        return self._rows(ApiKey, "api_keys")

    def limits(self) -> list[LimitRow]:
        """Return the limits of all tenants and keys that have some of their own."""
        return self._rows(LimitRow, "limits")

    def limit_of(self, tenant: str, key_id: str = "") -> LimitRow | None:
        """Return the limits of a tenant, or of a key; None: it has none of its own."""
        return self._row(LimitRow, "limit_of", tenant, key_id)

    def audit(self, tenant: str | None, after: str, limit: int) -> list[AuditRow]:
        """Return a page of the audit log after an id, in order of time; of one tenant, or all."""
        return self._rows(AuditRow, "audit", tenant is None, tenant or "", after, limit)

    def webhooks(self, tenant: str) -> list[Webhook]:
        """Return a tenant's webhooks, in order of creation."""
        return self._rows(Webhook, "webhooks", tenant)

    def due_webhooks(self, now: float, limit: int) -> list[tuple[str, str]]:
        """Return tenant and id of webhooks with a due message, the longest due first."""
        return [(tenant, id) for tenant, id in self._all("due_webhooks", now, limit)]

    def waiting_messages(self, tenant: str | None) -> dict[tuple[str, str], tuple[int, float]]:
        """Return how many messages wait, and the next attempt's time, by tenant and webhook."""
        rows = self._all("waiting_messages", tenant is None, tenant or "")
        return {(tenant, id): (int(n), next_at) for tenant, id, n, next_at in rows}

    def messages_given_up(self) -> list[tuple[str, int]]:
        """Return how many messages to a tenant's webhooks were given up, by tenant."""
        return [(tenant, int(n)) for tenant, n in self._all("messages_given_up")]

    def check(self) -> None:
        """Raise `Unavailable` unless the database answers."""
        self._one("check")


def n_bytes(row: object) -> int:
    """Return the total length of a row's texts and blobs."""
    parts = row if isinstance(row, tuple) else ()
    return sum(len(part) for part in parts if isinstance(part, str | bytes))
