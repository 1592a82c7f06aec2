"""A batch in the making: one view of what is stored and what the batch is about to store."""

from dataclasses import dataclass, field

from pydantic_core import to_json

from lhb_engine.agents import Agent
from service.records import (
    ApiKey,
    DecisionRow,
    EstimateRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    number_in,
)
from service.storage.ports import Changes, InThread, Transaction
from service.writer.round_spans import Spans


@dataclass(slots=True)
class Effects:
    """What has to happen once the batch is durable."""

    due: dict[SessionKey, int] = field(default_factory=dict)
    installed: set[SessionKey] = field(default_factory=set)
    timed: dict[SessionKey, float] = field(default_factory=dict)
    removed: set[SessionKey] = field(default_factory=set)


@dataclass(slots=True)
class LiveAgent:
    """An agent in memory, and which stored state it stands for."""

    agent: Agent
    n_estimates: int
    state: str | None


class UnitOfWork:
    """Reads through to the transaction, buffers writes, and shows them to later reads.

    Parameters
    ----------
    transaction : Transaction
        The open transaction.
    now : float
        Seconds since the epoch: one time for the whole batch.
    """

    def __init__(self, transaction: Transaction, now: float) -> None:
        self.now = round(now, 6)  # microseconds: what RFC 3339 carries both ways
        self.effects = Effects()
        self.n_writes = 0
        self.agents: dict[SessionKey, LiveAgent] = {}
        self._learned: set[SessionKey] = set()
        self._transaction = transaction
        self._changes = Changes()
        self._sessions: dict[SessionKey, SessionRow | None] = {}
        self._trajectories: dict[TrajectoryKey, TrajectoryRow] = {}
        self._events: dict[tuple[TrajectoryKey, str], DecisionRow] = {}
        self._rounds: dict[tuple[TrajectoryKey, int], DecisionRow] = {}
        self._numbers: dict[tuple[TrajectoryKey, int], DecisionRow] = {}
        self._n_indexed = 0
        self._measured: dict[TrajectoryKey, Spans[MeasurementRow]] = {}
        self._reward_ids: dict[tuple[TrajectoryKey, str], MeasurementRow] = {}

    @property
    def is_here(self) -> bool:
        """Whether only what the batch announced can be read: the event loop waits for nothing."""
        return self._transaction.is_here

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, or None."""
        found = self._sessions.get(key)
        if found is None and key not in self._sessions:
            found = self._sessions[key] = self._transaction.session(key)
        return found

    def session_named(self, tenant: str, name: str) -> SessionRow | None:
        """The session of that name, or None."""
        self.flush()
        found = self._transaction.session_named(tenant, name)
        return None if found is None else self.session(found.key)

    def created_as(self, tenant: str, name: str) -> list[tuple[str, str]]:
        """Id and request of every session that was created under that name."""
        self.flush()
        return self._transaction.created_as(tenant, name)

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow:
        """The trajectory; a fresh one, not yet stored, where there is none."""
        found = self._trajectories.get(key)
        if found is None:
            found = self._transaction.trajectory(key) or TrajectoryRow(*key)
            self._trajectories[key] = found
        return found

    def trajectories(self, key: SessionKey) -> list[TrajectoryRow]:
        """All trajectories of a session."""
        self.flush()
        return self._transaction.trajectories(key)

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """The decision that an event id names, the client's or the server's."""
        number = number_in(event_id)
        if number is not None:
            found = self._decision_by_number(key, number)
            return found if found is not None and found.client_event_id is None else None
        pending = self._events.get((key, event_id))
        return pending or self._transaction.decision_by_event(key, event_id)

    def _decision_by_number(self, key: TrajectoryKey, number: int) -> DecisionRow | None:
        if not 1 <= number <= self.trajectory(key).n_decisions:
            return None
        self._index_decisions()
        pending = self._numbers.get((key, number))
        return pending or self._transaction.decision_by_number(key, number)

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        """The first decision of a round."""
        self._index_decisions()
        pending = self._rounds.get((key, round))
        return pending or self._transaction.decision_by_round(key, round)

    def _index_decisions(self) -> None:
        """Pending decisions by what is seldom asked for."""
        for decision in self._changes.decisions[self._n_indexed :]:
            self._rounds.setdefault((decision[:3], decision.round), decision)
            self._numbers[decision[:3], decision.number] = decision
        self._n_indexed = len(self._changes.decisions)

    def decision_before(self, key: TrajectoryKey, at: float) -> DecisionRow | None:
        """The last decision taken at or before a time."""
        self.flush()
        return self._transaction.decision_before(key, at)

    def measurement_over(
        self, trajectory: TrajectoryRow, first: int, last: int
    ) -> MeasurementRow | None:
        """A measurement that shares a round with first..last."""
        if first > trajectory.measured_through:
            return None
        key = (trajectory.tenant, trajectory.session_id, trajectory.key)
        spans = self._measured.get(key)
        pending = None if spans is None else spans.over(first, last)
        return pending or self._transaction.measurement_over(key, first, last)

    def measurement_by_id(self, key: TrajectoryKey, reward_id: str) -> MeasurementRow | None:
        """The measurement that a reward id names."""
        pending = self._reward_ids.get((key, reward_id))
        return pending or self._transaction.measurement_by_id(key, reward_id)

    def count_measured(self, key: SessionKey, first: int, last: int) -> int:
        """How many rounds of positions first..last a measurement covers."""
        self.flush()
        return self._transaction.count_measured(key, first, last)

    def closed_rounds(self, key: SessionKey, before: float) -> dict[str, int]:
        """Last round of each trajectory whose next decision was taken at or before a time."""
        self.flush()
        return self._transaction.closed_rounds(key, before)

    def closed_at(self, key: SessionKey, first: int, last: int) -> float | None:
        """When the last unmeasured round of positions first..last was followed by a decision."""
        self.flush()
        return self._transaction.closed_at(key, first, last)

    def agent_state(self, key: SessionKey) -> str | None:
        """The agent's state as JSON, or None."""
        self._save_learned()
        self.flush()
        return self._transaction.agent_state(key)

    def selected_contexts(
        self, key: TrajectoryKey, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Round, position and selected context of every decision of rounds first..last."""
        self.flush()
        return self._transaction.selected_contexts(key, first, last)

    def positions(self, key: TrajectoryKey, first: int, last: int) -> list[int]:
        """Position of the first decision of each of rounds first..last."""
        self.flush()
        return self._transaction.positions(key, first, last)

    def add_session(self, session: SessionRow) -> None:
        """Store a new session."""
        self.n_writes += 1
        self._sessions[session.key] = session
        self._changes.new_sessions.append(session)

    def count(self, session: SessionRow) -> None:
        """Store the session's counters."""
        self.n_writes += 1
        self._changes.counts[session.key] = session

    def save(self, session: SessionRow) -> None:
        """Store all of the session that may change."""
        self.n_writes += 1
        self._changes.sessions[session.key] = session

    def save_trajectory(self, trajectory: TrajectoryRow) -> None:
        """Store the trajectory's counters."""
        self.n_writes += 1
        key = (trajectory.tenant, trajectory.session_id, trajectory.key)
        self._changes.trajectories[key] = trajectory

    def save_agent(self, key: SessionKey) -> None:
        """Store the state of an agent that this batch has fetched, as it is when it is flushed."""
        self.n_writes += 1
        self._learned.add(key)

    def restore_agent(self, key: SessionKey, agent: Agent, n_estimates: int) -> None:
        """Store the state of an agent that comes from elsewhere."""
        self.agents[key] = LiveAgent(agent, n_estimates, None)
        self.save_agent(key)

    def add_decision(self, decision: DecisionRow) -> None:
        """Store a decision."""
        self.n_writes += 1
        self._changes.decisions.append(decision)
        if decision.client_event_id is not None:
            self._events[decision[:3], decision.client_event_id] = decision

    def add_measurement(self, measurement: MeasurementRow) -> None:
        """Store a measurement."""
        self.n_writes += 1
        key = measurement[:3]
        self._changes.measurements.append(measurement)
        spans = self._measured.get(key)
        if spans is None:
            spans = self._measured[key] = Spans()
        spans.add(measurement.first_round, measurement.last_round, measurement)
        if measurement.reward_id is not None:
            self._reward_ids[key, measurement.reward_id] = measurement

    def add_estimate(self, estimate: EstimateRow) -> None:
        """Store what came of a fit."""
        self.n_writes += 1
        self._changes.estimates.append(estimate)

    def save_api_key(self, key: ApiKey) -> None:
        """Store a new key, or that it is revoked."""
        self.n_writes += 1
        self._changes.api_keys.append(key)

    def delete_session(self, session: SessionRow) -> None:
        """Delete the session and all that belongs to it."""
        self.flush()
        self.n_writes += 1
        self._sessions[session.key] = None
        self._changes.deleted.append(session.key)
        self.flush()
        for key in [k for k in self._trajectories if k[:2] == session.key]:
            del self._trajectories[key]
        self.agents.pop(session.key, None)
        self._learned.discard(session.key)
        self.effects.removed.add(session.key)

    def flush(self) -> None:
        """Hand what is buffered to the transaction, so that any read sees it.

        What agents have learned is not: writing it out takes as long as a hundred rewards, each of
        which reads. `agent_state` and the commit see to it.
        """
        if self._changes != _NOTHING:
            self._transaction.write(self._changes)
            self._changes = Changes()
            self._events.clear()
            self._rounds.clear()
            self._numbers.clear()
            self._n_indexed = 0
            self._measured.clear()
            self._reward_ids.clear()

    def commit(self) -> None:
        """Make all of it durable; what is buffered goes with the commit."""
        self._transaction.commit(self._left())

    async def commit_here(self, in_thread: InThread) -> None:
        """The same in the event loop."""
        await self._transaction.commit_here(self._left(), in_thread)

    def _left(self) -> Changes | None:
        self._save_learned()
        return None if self._changes == _NOTHING else self._changes

    def _save_learned(self) -> None:
        for key in self._learned:
            live = self.agents[key]
            live.state = self._changes.states[key] = to_json(live.agent.state()).decode()
        self._learned.clear()


_NOTHING = Changes()
