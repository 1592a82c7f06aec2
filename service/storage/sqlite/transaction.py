"""The writer's transaction on SQLite: local reads are cheap, and each write is one statement."""

import sqlite3
from collections import OrderedDict
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from service.records import (
    DecisionRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.storage.ports import Changes, InThread, Keys
from service.storage.sql.columns import CHANGING, COUNTERS, session_values, trajectory_values
from service.storage.sqlite.bulk import execute_rows
from service.storage.sqlite.connection import translated
from service.storage.sqlite.reader import SqliteReader
from service.storage.sqlite.statements import SESSION_COLUMNS, SQL

counters = attrgetter(*COUNTERS)


class Caches(Protocol):
    """What the store remembers from one batch to the next."""

    path: Path
    sessions: OrderedDict[SessionKey, SessionRow]
    trajectories: OrderedDict[TrajectoryKey, TrajectoryRow]

    def trim(self) -> None:
        """Forget what has not been used for long."""


class SqliteTransaction(SqliteReader):
    """The writer's transaction. Reads are local and cheap, so nothing is read ahead."""

    is_here = False

    def __init__(self, store: Caches, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._store = store
        self._used: list[SessionKey] = []
        self._used_trajectories: list[TrajectoryKey] = []
        self._events: dict[tuple[TrajectoryKey, str], DecisionRow | None] = {}
        self._rewards: dict[tuple[TrajectoryKey, str], MeasurementRow | None] = {}

    def prefetch(self, keys: Keys) -> None:
        """Look up the clients' ids, in one statement a kind."""
        if keys.events:
            asked = [(*key, event) for key, event in keys.events]
            found = execute_rows(self.connection, SQL["decisions_by_events"], asked)
            self._events = dict.fromkeys(keys.events)
            for decision in map(DecisionRow._make, found):
                self._events[decision[:3], str(decision.client_event_id)] = decision
        if keys.rewards:
            asked = [(*key, reward) for key, reward in keys.rewards]
            found = execute_rows(self.connection, SQL["measurements_by_ids"], asked)
            self._rewards = dict.fromkeys(keys.rewards)
            for measurement in map(MeasurementRow._make, found):
                self._rewards[measurement[:3], str(measurement.reward_id)] = measurement

    async def prefetch_here(self, keys: Keys) -> None:
        """Nothing waits here."""
        self.prefetch(keys)

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        """The decision that a client's event id names."""
        try:
            return self._events[key, event_id]
        except KeyError:
            return super().decision_by_event(key, event_id)

    def measurement_by_id(self, key: TrajectoryKey, reward_id: str) -> MeasurementRow | None:
        """The measurement that a client's reward id names."""
        try:
            return self._rewards[key, reward_id]
        except KeyError:
            return super().measurement_by_id(key, reward_id)

    def session(self, key: SessionKey) -> SessionRow | None:
        """The session, from the cache if it is there."""
        cache = self._store.sessions
        found = cache.get(key)
        if found is None:
            found = super().session(key)
            if found is None:
                return None
            cache[key] = found
        else:
            cache.move_to_end(key)
        self._used.append(key)
        return found

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        """The trajectory, from the cache if it is there."""
        cache = self._store.trajectories
        found = cache.get(key)
        if found is None:
            found = super().trajectory(key)
            if found is None:
                return None
            cache[key] = found
        else:
            cache.move_to_end(key)
        self._used_trajectories.append(key)
        return found

    def write(self, changes: Changes) -> None:
        """All inserts and updates, one statement a table."""
        with translated(self._store.path):
            self._write(changes)

    def _write(self, changes: Changes) -> None:
        many = partial(execute_rows, self.connection)
        for key in changes.deleted:
            for table, column in OWNED:
                self.connection.execute(
                    f"delete from {table} where tenant = ? and {column} = ?", key
                )
            self._forget(key)
        for session in changes.new_sessions:
            self.connection.execute(SQL["insert_session"], session_values(session, SESSION_COLUMNS))
            self._store.sessions[session.key] = session
            self._used.append(session.key)
        for session in changes.sessions.values():
            self.connection.execute(
                SQL["update_session"], (*session.key, *session_values(session, CHANGING))
            )
        counted = {s.key: s for s in changes.new_sessions} | changes.sessions | changes.counts
        if counted:
            many(
                SQL["count_session"],
                [(*key, *counters(session)) for key, session in counted.items()],
            )
        if changes.trajectories:
            many(
                SQL["save_trajectory"],
                [trajectory_values(t) for t in changes.trajectories.values()],
            )
            for name, trajectory in changes.trajectories.items():
                self._store.trajectories[name] = trajectory
                self._used_trajectories.append(name)
        if changes.decisions:
            many(SQL["insert_decision"], changes.decisions)
            for decision in changes.decisions:
                if decision.client_event_id is not None:
                    self._events[decision[:3], decision.client_event_id] = decision
        if changes.measurements:
            many(SQL["insert_measurement"], changes.measurements)
            for measurement in changes.measurements:
                if measurement.reward_id is not None:
                    self._rewards[measurement[:3], measurement.reward_id] = measurement
        for estimate in changes.estimates:
            self.connection.execute(SQL["insert_estimate"], estimate)
        for api_key in changes.api_keys:
            self.connection.execute(SQL["save_api_key"], api_key)
        if changes.states:
            many(SQL["save_agent_state"], [(*k, state) for k, state in changes.states.items()])

    def commit(self, changes: Changes | None = None) -> None:
        """Make it durable: SQLite syncs the log before it returns."""
        if changes is not None:
            self.write(changes)
        with translated(self._store.path):
            # `commit()` would say nothing where SQLite has undone the transaction by itself
            self.connection.execute("commit")
        self._store.trim()

    async def commit_here(self, changes: Changes | None, in_thread: InThread) -> None:
        """Rows are written here; the thread waits for the disk."""
        if changes is not None:
            self.write(changes)
        await in_thread(self.commit, None)

    def rollback(self) -> None:
        """Forget it, and everything this transaction may have changed in the caches."""
        for key in self._used:
            self._store.sessions.pop(key, None)
        for trajectory in self._used_trajectories:
            self._store.trajectories.pop(trajectory, None)
        if self.connection.in_transaction:
            self.connection.execute("rollback")

    def _forget(self, key: SessionKey) -> None:
        self._store.sessions.pop(key, None)
        for trajectory in [t for t in self._store.trajectories if t[:2] == key]:
            del self._store.trajectories[trajectory]


OWNED = (
    ("measurements", "session_id"),
    ("decisions", "session_id"),
    ("estimates", "session_id"),
    ("agent_states", "session_id"),
    ("trajectories", "session_id"),
    ("session_counts", "session_id"),
    ("sessions", "id"),
)
