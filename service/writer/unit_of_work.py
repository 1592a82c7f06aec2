"""The unit of work: one view of the stored rows and the batch's own pending writes."""

from bisect import bisect_right
from typing import Generic, TypeVar

from pydantic_core import to_json

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
from service.storage.ports import (
    Changes,
    DropCursor,
    Dropped,
    EraseCursor,
    Keys,
    KnownRows,
    MustWait,
)
from service.storage.reader import Reader
from service.storage.transactions import Steps, Transaction
from service.writer.after_commit import Effects, LiveAgent

T = TypeVar("T")
_NOTHING = Changes()


class Spans(Generic[T]):
    """Items by span of rounds, found by any round of the span.

    A unit of work keeps its pending measurements in it. Which rounds a reward means is checked in
    `service.rounds.reward_rounds`. Spans do not overlap, so the one that starts last is the only
    candidate: a search takes O(log n), and so does adding a span after all others.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._spans: dict[int, tuple[int, T]] = {}

    def add(self, first: int, last: int, item: T) -> None:
        """Add the item of rounds first..last, replacing one that starts at the same round."""
        if first not in self._spans:
            starts = self._starts
            starts.insert(bisect_right(starts, first), first)
        self._spans[first] = last, item

    def over(self, first: int, last: int) -> T | None:
        """Return the item whose span overlaps rounds first..last and starts last, or None."""
        place = bisect_right(self._starts, last)
        if not place:
            return None
        end, item = self._spans[self._starts[place - 1]]
        return item if end >= first else None


class UnitOfWork:
    """Serves reads from known rows, fetches other rows, and buffers writes.

    `known` are rows fetched in the open transaction, to which the batch's own are added; `now`, in
    seconds since 1970, is one time for the whole batch. `can_read` says whether rows that were not
    announced can be read. If a read would block the event loop, `MustWait` is raised instead, and a
    thread runs the batch again.
    """

    def __init__(self, transaction: Transaction, rows: KnownRows, now: float) -> None:
        self.now = round(now, 6)  # microseconds, the precision of timestamps in the API
        self.can_read = True
        self.effects = Effects()
        self.n_writes = 0
        self.agents: dict[SessionKey, LiveAgent] = {}
        self._learned: set[SessionKey] = set()
        self._transaction = transaction
        self._known = rows
        self._changes = Changes()
        self._measured: dict[TrajectoryKey, Spans[MeasurementRow]] = {}

    @property
    def stored(self) -> Reader:
        """The reader of the transaction; pending writes are flushed first.

        `MustWait` is raised where a read would block the event loop.
        """
        self.flush()
        return self._reader()

    def _reader(self) -> Reader:
        if not self.can_read:
            raise MustWait
        return self._transaction.reader

    def _run(self, steps: Steps) -> None:
        if not self.can_read:
            raise MustWait
        self._transaction.run(steps)

    def _fetch(self, keys: Keys) -> None:
        self._run(self._transaction.fetch(keys, self._known))

    def session(self, key: SessionKey) -> SessionRow | None:
        """Return the session, locked, or None."""
        if key not in self._known.sessions:
            self._fetch(Keys(sessions={key}))
        return self._known.sessions[key]

    def unlocked_session(self, key: SessionKey) -> SessionRow | None:
        """Return a session that is only read, as this batch has it or else as it is stored."""
        session = self._known.sessions.get(key)
        return session if session is not None else self._reader().session(key)

    def session_named(self, tenant: str, name: str) -> SessionRow | None:
        """Return the session with this name, locked, or None."""
        session = self.stored.session_named(tenant, name)
        return None if session is None else self.session(session.key)

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow:
        """Return the trajectory; a new one, not yet stored, if there is none."""
        rows = self._known.trajectories
        if key not in rows:
            self._fetch(Keys(trajectories={key}))
        trajectory = rows[key] = rows[key] or TrajectoryRow(*key)
        return trajectory

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """Return the decision with an event id, the client's or the server's, or None."""
        number = number_in(event_id)
        if number is not None:
            if not 1 <= number <= self.trajectory(key).n_decisions:
                return None
            if (key, number) not in self._known.numbers:
                self._fetch(Keys(numbers={(key, number)}))
            decision = self._known.numbers[key, number]
            return decision if decision is not None and decision.client_event_id is None else None
        if (key, event_id) not in self._known.events:
            self._fetch(Keys(events={(key, event_id)}))
        return self._known.events[key, event_id]

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        """Return the first decision of a round, or None."""
        if not 1 <= round <= self.trajectory(key).n_rounds:
            return None
        if (key, round) not in self._known.rounds:
            self._fetch(Keys(rounds={(key, round)}))
        return self._known.rounds[key, round]

    def measurement_over(
        self, trajectory: TrajectoryRow, first: int, last: int
    ) -> MeasurementRow | None:
        """Return a measurement that overlaps rounds first..last, or None."""
        if first > trajectory.measured_through:
            return None
        key = (trajectory.tenant, trajectory.session_id, trajectory.key)
        spans = self._measured.get(key)
        pending = None if spans is None else spans.over(first, last)
        if pending is not None:
            return pending
        if first < last:
            return self._reader().measurement_over(key, first, last)
        if (key, first) not in self._known.measured:
            self._fetch(Keys(measured={(key, first)}))
        return self._known.measured[key, first]

    def measurement_by_id(self, key: TrajectoryKey, reward_id: str) -> MeasurementRow | None:
        """Return the measurement with a reward id, or None."""
        if (key, reward_id) not in self._known.rewards:
            self._fetch(Keys(rewards={(key, reward_id)}))
        return self._known.rewards[key, reward_id]

    def agent_state(self, key: SessionKey) -> str | None:
        """Return the agent's state as JSON, or None."""
        self._save_learned()
        return self.stored.agent_state(key)

    @property
    def pending(self) -> Changes:
        """What the batch will write, for a command to add to: to ask for it is to write."""
        self.n_writes += 1
        return self._changes

    def add_session(self, session: SessionRow) -> None:
        """Store a new session."""
        self._known.sessions[session.key] = session
        self.pending.new_sessions.append(session)

    def count(self, session: SessionRow) -> None:
        """Store the counters of a session."""
        self.pending.counts[session.key] = session

    def save(self, session: SessionRow) -> None:
        """Store all columns of a session that may change."""
        self.pending.sessions[session.key] = session

    def save_trajectory(self, trajectory: TrajectoryRow) -> None:
        """Store the counters of a trajectory."""
        key = (trajectory.tenant, trajectory.session_id, trajectory.key)
        self.pending.trajectories[key] = trajectory

    def save_agent(self, key: SessionKey) -> None:
        """Store the state that an agent of this batch has at the commit."""
        self.n_writes += 1
        self._learned.add(key)

    def write_rows(self, changes: Changes) -> None:
        """Write rows that no command of this batch reads."""
        self.n_writes += 1
        self._run(self._transaction.write(changes))

    def add_decision(self, decision: DecisionRow) -> None:
        """Store a decision."""
        self.pending.decisions.append(decision)
        self._known.add_decision(decision)

    def add_measurement(self, measurement: MeasurementRow) -> None:
        """Store a measurement."""
        key = measurement[:3]
        self.pending.measurements.append(measurement)
        spans = self._measured.get(key)
        if spans is None:
            spans = self._measured[key] = Spans()
        spans.add(measurement.first_round, measurement.last_round, measurement)
        if measurement.reward_id is not None:
            self._known.rewards[key, measurement.reward_id] = measurement

    def add_estimate(self, estimate: EstimateRow) -> None:
        """Store the outcome of a fit."""
        self.pending.estimates.append(estimate)

    def delete_session(self, session: SessionRow) -> None:
        """Delete a session; its rows are hidden, and a sweep erases them."""
        self.flush()
        self.pending.deleted.append(session.key)
        self._changes.hidden.append(HiddenRows(*session.key, None, 0, None, self.now))
        self.flush()
        self._known.forget(session.key)
        self._measured = {k: v for k, v in self._measured.items() if k[:2] != session.key}
        self.agents.pop(session.key, None)
        self._learned.discard(session.key)
        self.effects.removed.add(session.key)

    @property
    def locking(self) -> Transaction:
        """The transaction, for reads that lock rows; pending writes are flushed first."""
        self.flush()
        self._reader()  # raises where it may not block
        return self._transaction

    def erase(self, hidden: HiddenRows, cursor: EraseCursor | None) -> EraseCursor | None:
        """Delete some hidden rows; see `Transaction.erase`."""
        self.n_writes += 1
        following = self.locking.erase(hidden, cursor)
        if following is None and hidden.trajectory is not None and not hidden.after_round:
            self._known.forget_rounds(hidden[:2])
            self._known.trajectories[*hidden[:2], hidden.trajectory] = None
        return following

    def drop(self, key: SessionKey, to: int, n_kept: int, cursor: DropCursor | None) -> Dropped:
        """Delete some rows of rounds that a session has given up; see `Transaction.drop`."""
        self.n_writes += 1
        self._known.forget_rounds(key)
        self._measured = {k: v for k, v in self._measured.items() if k[:2] != key}
        return self.locking.drop(key, to, n_kept, cursor)

    def flush(self) -> None:
        """Write the buffered changes, so that `stored` sees them.

        Agents' states are left to `agent_state` and `commit`, because serializing one is slow and
        many commands flush.
        """
        if self._changes != _NOTHING:
            self._run(self._transaction.write(self._changes))
            self._changes = Changes()

    def commit(self) -> Steps:
        """Return the steps that write the buffered changes and commit."""
        self._save_learned()
        return self._transaction.commit(self._changes)

    def _save_learned(self) -> None:
        for key in self._learned:
            live = self.agents[key]
            live.state = self._changes.states[key] = to_json(live.agent.state()).decode()
        self._learned.clear()
