"""Rows for the stores' contract suite, and how it commits them."""

from dataclasses import replace
from typing import Any

import numpy as np

from lhb_engine.history import FitWindow
from service.session.fit_schedule import OpenWindow, Schedule
from service.session.records import (
    DecisionRow,
    EstimateRow,
    KeptSumsRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    VoidRow,
)
from service.storage.ports import Changes, Keys, KnownRows
from service.storage.transactions import Store, Transaction

WINDOW = FitWindow(2, 9, 12, 4, 12)


def session(id: str = "s1", **changes: Any) -> SessionRow:
    made = SessionRow(
        tenant="t",
        id=id,
        name=None,
        algorithm="ad_lasso",
        dim=2,
        horizon=4,
        seed=2**53 - 1,
        options={"c": 0.1, "deep": [1, None, "x"]},
        reward_mode="single",
        reward_wait_seconds=0.25,
        default_reward=None,
        refit="background",
        request='{"dim": 2}',
        created_at=1700000000.123456,
        schedule=Schedule(open=[OpenWindow(WINDOW, 3, 12.5)]),
    )
    return replace(made, **changes)


def decision(round: int, trajectory: str = "", *, id: str = "s1", **changes: Any) -> DecisionRow:
    made = DecisionRow(
        tenant="t",
        session_id=id,
        trajectory=trajectory,
        round=round,
        number=round,
        position=round,
        client_event_id=None,
        digest=None,
        arm=1,
        arm_id=None,
        context=np.array([round, 1 / 3]).tobytes(),
        scores=np.array([0.1, 0.2]).tobytes(),
        propensity=0.5,
        explored=False,
        forced=False,
        epoch=1,
        model_version=0,
        next_fit_round=12,
        at=1000.0 + round,
    )
    return made._replace(**changes)


def measurement(
    first: int, last: int | None = None, trajectory: str = "", **changes: Any
) -> MeasurementRow:
    made = MeasurementRow(
        tenant="t",
        session_id="s1",
        trajectory=trajectory,
        first_round=first,
        last_round=first if last is None else last,
        number=first,
        position=first,
        value=first / 3,
        reward_id=None,
        at=2000.0,
    )
    return made._replace(**changes)


def trajectory(key: str = "", id: str = "s1", **changes: Any) -> TrajectoryRow:
    return replace(
        TrajectoryRow("t", id, key, n_decisions=3, n_rounds=3, last_at=1003.0), **changes
    )


def changes(*rows: Any, **more: Any) -> Changes:
    out = Changes(**more)
    for row in rows:
        if isinstance(row, SessionRow):
            out.new_sessions.append(row)
        elif isinstance(row, TrajectoryRow):
            out.trajectories[row.tenant, row.session_id, row.key] = row
        elif isinstance(row, DecisionRow):
            out.decisions.append(row)
        elif isinstance(row, MeasurementRow):
            out.measurements.append(row)
        elif isinstance(row, VoidRow):
            out.voids.append(row)
        elif isinstance(row, KeptSumsRow):
            out.kept_sums.append(row)
        else:
            out.estimates.append(row)
    return out


class Opened:
    """A transaction, row by row: each fetch is of one key."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.rollback = transaction.rollback

    def _fetch(self, kind: str, key: Any) -> Any:
        known = KnownRows()
        self._transaction.run(self._transaction.fetch(Keys(**{kind: {key}}), known))
        return getattr(known, kind)[key]

    def session(self, key: SessionKey) -> SessionRow | None:
        return self._fetch("sessions", key)

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        return self._fetch("trajectories", key)

    def decision_by_event(self, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
        return self._fetch("events", (key, event_id))

    def decision_by_number(self, key: TrajectoryKey, number: int) -> DecisionRow | None:
        return self._fetch("numbers", (key, number))

    def decision_by_round(self, key: TrajectoryKey, round: int) -> DecisionRow | None:
        return self._fetch("rounds", (key, round))

    def measurement_by_id(self, key: TrajectoryKey, reward_id: str) -> MeasurementRow | None:
        return self._fetch("rewards", (key, reward_id))

    def measurement_over(self, key: TrajectoryKey, first: int, last: int) -> MeasurementRow | None:
        found = self._transaction.reader.measurement_over(key, first, last)
        assert first < last or self._fetch("measured", (key, first)) == found
        return found

    def write(self, changes: Changes) -> None:
        self._transaction.run(self._transaction.write(changes))

    def commit(self) -> None:
        self._transaction.run(self._transaction.commit(Changes()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction.reader, name)


def commit(store: Store, *rows: Any, **more: Any) -> None:
    transaction = begin(store)
    transaction.write(changes(*rows, **more))
    transaction.commit()


def begin(store: Store) -> Opened:
    transaction = store.begin()
    announced = Keys(sessions={("t", "s1")}, trajectories={("t", "s1", "")})
    transaction.run(transaction.fetch(announced, KnownRows()))
    return Opened(transaction)


S1 = ("t", "s1")
T1 = ("t", "s1", "")


def estimate(number: int, **more: Any) -> EstimateRow:
    made = EstimateRow("t", "s1", number, 1, 4, "ok", None, "{}", 0, 1, "{}", "{}", 5.5)
    return made._replace(**more)
