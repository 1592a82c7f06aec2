"""One batch on PostgreSQL: a constant number of round trips, whatever is in it.

Reading ahead is one exchange with the server, writing and the commit another.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from service.records import (
    DecisionRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.storage.ports import Changes, Contended, InThread, Keys, MustWait
from service.storage.postgres.array_literals import columns
from service.storage.postgres.pipeline import Exchange, Pipeline, ResultRows, Statement
from service.storage.postgres.reader import PostgresReader, translated
from service.storage.postgres.statements import SESSION_COLUMNS, SESSION_UPDATES
from service.storage.sql.columns import COUNTERS, session_values, trajectory_values
from service.storage.sql.reader import session_of

N_CACHED_SESSIONS = 4096
counters = attrgetter(*COUNTERS)


class PostgresTransaction(PostgresReader):
    """Reads under locks, answered from what was read ahead where that covers them.

    Parameters
    ----------
    pipeline : Pipeline
        The writer's, with no transaction open.
    cache : dict
        Sessions as this process last saw them, with their revision: parsing one costs more than
        reading it, and the locked row says whether anybody has changed it since.
    """

    def __init__(
        self, pipeline: Pipeline, cache: OrderedDict[SessionKey, tuple[int, SessionRow]]
    ) -> None:
        super().__init__(pipeline.connection)
        self.is_here = False
        self._pipeline = pipeline
        self._cache = cache
        self._revisions: dict[SessionKey, int] = {}
        self._sessions: dict[SessionKey, SessionRow | None] = {}
        self._trajectories: dict[TrajectoryKey, TrajectoryRow | None] = {}
        self._events: dict[tuple[TrajectoryKey, str], DecisionRow | None] = {}
        self._numbers: dict[tuple[TrajectoryKey, int], DecisionRow | None] = {}
        self._rewards: dict[tuple[TrajectoryKey, str], MeasurementRow | None] = {}
        self._rounds: dict[tuple[TrajectoryKey, int], DecisionRow] = {}
        self._measured: dict[tuple[TrajectoryKey, int], MeasurementRow | None] = {}

    def prefetch(self, keys: Keys) -> None:
        """Lock and read what the batch announced, in one round trip."""
        self._pipeline.wait(self._prefetching(keys))

    async def prefetch_here(self, keys: Keys) -> None:
        """The same in the event loop, where nothing else may wait for the server from now on."""
        self.is_here = True
        await self._pipeline.wait_here(self._prefetching(keys))

    def _prefetching(self, keys: Keys) -> Exchange[None]:
        if not keys.sessions:
            return
        asked = {"lock_sessions": columns(keys.sessions)}
        if keys.trajectories:
            asked["lock_trajectories"] = columns(keys.trajectories)
        if keys.events:
            events = ((*key, event) for key, event in keys.events)
            asked["decisions_by_events"] = columns(events)
        if keys.numbers:
            numbers = ((*key, number) for key, number in keys.numbers)
            asked["decisions_by_numbers"] = columns(numbers)
        if keys.rewards:
            rewards = ((*key, reward) for key, reward in keys.rewards)
            asked["measurements_by_ids"] = columns(rewards)
        found = yield from self._found(asked)
        self._sessions = dict.fromkeys(keys.sessions)
        self._trajectories = dict.fromkeys(keys.trajectories)
        self._events = dict.fromkeys(keys.events)
        self._numbers = dict.fromkeys(keys.numbers)
        self._rewards = dict.fromkeys(keys.rewards)
        for row in found["lock_sessions"]:
            self._keep(row)
        for row in found.get("lock_trajectories", ()):
            self._trajectories[row[:3]] = TrajectoryRow(*row)
        for decision in map(DecisionRow._make, found.get("decisions_by_events", ())):
            self._events[decision[:3], str(decision.client_event_id)] = decision
            self._rounds[decision[:3], decision.round] = decision
        for decision in map(DecisionRow._make, found.get("decisions_by_numbers", ())):
            self._numbers[decision[:3], decision.number] = decision
            self._rounds[decision[:3], decision.round] = decision
        for measurement in map(MeasurementRow._make, found.get("measurements_by_ids", ())):
            self._rewards[measurement[:3], str(measurement.reward_id)] = measurement
        yield from self._prefetching_rounds(keys.rounds | self._rounds.keys())

    def _found(self, asked: dict[str, list[str]]) -> Exchange[dict[str, ResultRows]]:
        with translated():
            found = yield from self._pipeline.exchange(asked.items())
        return dict(zip(asked, found, strict=True))

    def _prefetching_rounds(self, rounds: set[tuple[TrajectoryKey, int]]) -> Exchange[None]:
        """What rewards of rounds will ask: positions in sessions of several trajectories, and, of
        rounds that something may have measured already, by what."""
        self._measured = dict.fromkeys(rounds)
        several, measured = [], []
        for key, round in rounds:
            session, trajectory = self._sessions.get(key[:2]), self._trajectories.get(key)
            if session is not None and trajectory is not None:
                is_known = (key, round) in self._rounds or round > trajectory.n_rounds
                if session.n_trajectories > 1 and not is_known:
                    several.append((*key, round))
                if round <= trajectory.measured_through:
                    measured.append((*key, round))
        if not several and not measured:
            return
        asked = {}
        if several:
            asked["decisions_by_rounds"] = columns(several)
        if measured:
            asked["measurements_over_rounds"] = columns(measured)
        rows = yield from self._found(asked)
        for decision in map(DecisionRow._make, rows.get("decisions_by_rounds", ())):
            self._rounds[decision[:3], decision.round] = decision
        for round, *row in rows.get("measurements_over_rounds", ()):
            found = MeasurementRow(*row)
            self._measured[found[:3], round] = found

    def _all(self, name: str, *values: Any) -> list[Any]:
        self._refuse_here()
        return super()._all(name, *values)

    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        self._refuse_here()
        return super()._each(name, *values)

    def _refuse_here(self) -> None:
        """What was not announced is a round trip, which the event loop must not wait for."""
        if self.is_here:
            raise MustWait

    def _keep(self, row: Sequence[Any]) -> SessionRow:
        key = (str(row[0]), str(row[1]))
        revision = row[-1]
        cached = self._cache.get(key)
        is_known = cached is not None and cached[0] == revision
        session = cached[1] if cached is not None and is_known else session_of(row[:-1])
        self._revisions[key] = revision
        self._sessions[key] = session
        return session

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, locked. One that the batch did not announce is not waited for."""
        try:
            return self._sessions[key]
        except KeyError:
            pass
        try:
            rows = self._all("lock_session_now", *key)
        except Contended as contended:
            raise Contended(str(contended), key) from contended
        self._sessions[key] = None
        return self._keep(rows[0]) if rows else None

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        """The trajectory, under its session's lock."""
        try:
            return self._trajectories[key]
        except KeyError:
            found = self._trajectories[key] = super().trajectory(key)
            return found

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """The decision that a client's event id names."""
        try:
            return self._events[key, event_id]
        except KeyError:
            return super().decision_by_event(key, event_id)

    def decision_by_number(self, key: TrajectoryKey, number: int) -> DecisionRow | None:
        """A decision by its number within its trajectory."""
        try:
            return self._numbers[key, number]
        except KeyError:
            return super().decision_by_number(key, number)

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        """The first decision of a round."""
        return self._rounds.get((key, round)) or super().decision_by_round(key, round)

    def measurement_over(self, key: TrajectoryKey, first: int, last: int) -> MeasurementRow | None:
        """A measurement that shares a round with first..last (the one that starts last)."""
        if first == last and (key, first) in self._measured:
            return self._measured[key, first]
        return super().measurement_over(key, first, last)

    def measurement_by_id(self, key: TrajectoryKey, reward_id: str) -> MeasurementRow | None:
        """The measurement that a client's reward id names."""
        try:
            return self._rewards[key, reward_id]
        except KeyError:
            return super().measurement_by_id(key, reward_id)

    def write(self, changes: Changes) -> None:
        """All inserts and updates, one bulk call a table."""
        self._refuse_here()
        with translated():
            self._pipeline.wait(self._pipeline.exchange(self._statements(changes)))
        self._remember(changes)

    def _remember(self, changes: Changes) -> None:
        """Later reads of this transaction see what it has written."""
        for decision in changes.decisions:
            if decision.client_event_id is not None:
                self._events[decision[:3], decision.client_event_id] = decision
            self._numbers[decision[:3], decision.number] = decision
        for measurement in changes.measurements:
            if measurement.reward_id is not None:
                self._rewards[measurement[:3], measurement.reward_id] = measurement
        if changes.measurements:
            self._measured.clear()  # it was read before these

    def _statements(self, changes: Changes) -> Iterator[Statement]:
        for key in changes.deleted:
            yield "delete_session", key
            self._forget(key)
        for new in changes.new_sessions:
            yield "insert_session", session_values(new, SESSION_COLUMNS)
            self._sessions[new.key] = new
            self._revisions[new.key] = 1
        for key, session in changes.sessions.items():
            yield "update_session", (*key, *session_values(session, SESSION_UPDATES))
            self._revisions[key] += 1
        counts = [s for key, s in changes.counts.items() if key not in changes.sessions]
        if counts:
            rows = ((*s.key, *counters(s)) for s in counts)
            yield "count_sessions", columns(rows)
            for session in counts:
                self._revisions[session.key] += 1
        if changes.trajectories:
            saved = map(trajectory_values, changes.trajectories.values())
            yield "save_trajectories", columns(saved)
            self._trajectories.update(changes.trajectories)
        if changes.decisions:
            yield "insert_decisions", columns(changes.decisions)
        if changes.measurements:
            yield "insert_measurements", columns(changes.measurements)
        for estimate in changes.estimates:
            yield "insert_estimate", estimate
        for api_key in changes.api_keys:
            yield "save_api_key", api_key
        for key, state in changes.states.items():
            yield "save_agent_state", (*key, state)

    def commit(self, changes: Changes | None = None) -> None:
        """Make it durable, in one round trip: the server syncs its log before it answers."""
        self._pipeline.wait(self._committing(changes))

    async def commit_here(self, changes: Changes | None, in_thread: InThread) -> None:
        """The same in the event loop."""
        await self._pipeline.wait_here(self._committing(changes))

    def _committing(self, changes: Changes | None) -> Exchange[None]:
        unknown = "whether it was written is unknown: a repeat with the same id will tell"
        written = () if changes is None else self._statements(changes)
        with translated(unknown):
            yield from self._pipeline.exchange([*written, ("commit", ())])
        for key, revision in self._revisions.items():
            session = self._sessions.get(key)
            if session is not None:
                self._cache[key] = (revision, session)
                self._cache.move_to_end(key)
        while len(self._cache) > N_CACHED_SESSIONS:
            self._cache.popitem(last=False)

    def rollback(self) -> None:
        """Forget it, and every session that this transaction may have changed in memory."""
        for key in self._sessions:
            self._cache.pop(key, None)
        self._pipeline.rollback()

    def _forget(self, key: SessionKey) -> None:
        self._cache.pop(key, None)
        self._revisions.pop(key, None)
        self._sessions[key] = None
        for name in self._trajectories:
            if name[:2] == key:
                self._trajectories[name] = None
        self._events = {k: d for k, d in self._events.items() if k[0][:2] != key}
        self._numbers = {k: d for k, d in self._numbers.items() if k[0][:2] != key}
        self._rewards = {k: m for k, m in self._rewards.items() if k[0][:2] != key}
        self._rounds.clear()
        self._measured.clear()
