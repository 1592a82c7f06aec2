"""A session from its events: checked whole first, then written in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from service.agents import build_agent
from service.events import (
    PAGE,
    decision_of,
    estimate_of,
    measurement_of,
    read_lines,
    trajectory_of,
)
from service.problems import Problem
from service.records import Decision, Measurement, Schedule, Session, Trajectory
from service.sessions import first_agent, new_id
from service.storage.unit_of_work import UnitOfWork

LARGEST = 1e12
Open = Callable[[], BinaryIO]


@dataclass(slots=True)
class ImportSession:
    """Command: a new session from a file that `check_import` has passed."""

    tenant: str
    open_file: Open
    name: str | None
    allow_oracles: bool

    def __call__(self, uow: UnitOfWork) -> Session:
        """The session, which goes on where the other one was."""
        with self.open_file() as file:
            records = (record for _, record in read_lines(file))
            session = session_of(next(records), self.tenant)
            session = replace(
                session, id=new_id(uow.now), name=self.name or session.name, archived_at=None
            )
            if session.name is not None and uow.session_named(self.tenant, session.name):
                detail = f"the name {session.name!r} is taken; give another one"
                raise Problem(409, "session_conflict", detail, "name")
            first_agent(session, self.allow_oracles)
            uow.add_session(session)
            for i, record in enumerate(records):
                self._write(uow, session, record)
                if i % PAGE == 0:
                    uow.flush()
        if session.schedule.current is not None:
            uow.effects.due[session.key] = session.schedule.current.key
        if session.wake_at is not None:
            uow.effects.timed[session.key] = session.wake_at
        return session

    def _write(self, uow: UnitOfWork, session: Session, record: dict[str, Any]) -> None:
        kind = record["record"]
        if kind == "decision":
            uow.add_decision(decision_of(record, *session.key))
        elif kind == "measurement":
            uow.add_measurement(measurement_of(record, *session.key))
        elif kind == "trajectory":
            uow.save_trajectory(trajectory_of(record, *session.key))
        elif kind == "estimate":
            uow.add_estimate(estimate_of(record, *session.key))
        else:
            agent = build_agent(session, record["state"])
            uow.restore_agent(session.key, agent, session.n_estimates)


def session_of(header: dict[str, Any], tenant: str) -> Session:
    """The session of a header."""
    values = dict(header["session"])
    values["schedule"] = Schedule.load(values["schedule"])
    return Session(tenant=tenant, **values)


def check_import(open_file: Open) -> Session:
    """Read it all, and believe nothing.

    Raises
    ------
    Problem
        422 bad_import, naming the line.
    """
    check = _Check()
    try:
        with open_file() as file:
            for check.line, record in read_lines(file):
                check.take(record)
            check.finish()
            return check.session
    except Problem:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shown = str(error) if isinstance(error, ValueError) else f"line {check.line}: {error!r}"
        raise Problem(422, "bad_import", shown, "body") from None


class _Check:
    """What has to hold between the records of one session."""

    session: Session

    def __init__(self) -> None:
        self.line = 0
        self._trajectories: dict[str, Trajectory] = {}
        self._seen: dict[str, list[int]] = {}
        self._n_estimates = 0

    def take(self, record: dict[str, Any]) -> None:
        kind = record["record"]
        if kind == "header":
            self.session = session_of(record, "")
            _require(self.session.reward_mode in ("single", "sum"), "reward_mode")
            _require(self.session.refit in ("background", "blocking"), "refit")
            build_agent(self.session, None)
            self._positions = np.zeros(self.session.n_rounds + 1, dtype=bool)
        elif kind == "trajectory":
            trajectory = trajectory_of(record, "", "")
            self._trajectories[trajectory.key] = trajectory
            self._seen[trajectory.key] = [0, 0]
        elif kind == "decision":
            self._decision(decision_of(record, "", ""))
        elif kind == "measurement":
            self._measurement(measurement_of(record, "", ""))
        elif kind == "estimate":
            self._n_estimates += 1
            _require(estimate_of(record, "", "").number == self._n_estimates, "estimates' numbers")
        elif kind == "agent":
            build_agent(self.session, record["state"])
        else:
            raise ValueError(f"unknown record {kind!r}")

    def _decision(self, decision: Decision) -> None:
        seen = self._seen[decision.trajectory]
        seen[0] += 1
        _require(decision.round == decision.number == seen[0], "rounds that are not contiguous")
        _require(0 < decision.position <= self.session.n_rounds, "a position out of range")
        _require(not self._positions[decision.position], "a position that stands twice")
        self._positions[decision.position] = True
        context, scores = np.frombuffer(decision.context), np.frombuffer(decision.scores)
        _require(len(context) in (0, self.session.dim), "a context of the wrong size")
        _require(bool((np.abs(context) <= LARGEST).all()), "a context out of range")
        _require(decision.arm is None or 0 <= decision.arm < len(scores), "an arm without score")

    def _measurement(self, measurement: Measurement) -> None:
        seen = self._seen[measurement.trajectory]
        seen[1] += 1
        _require(measurement.number == seen[1], "measurements' numbers")
        _require(abs(measurement.value) <= LARGEST, "a value out of range")
        n_rounds = self._trajectories[measurement.trajectory].n_rounds
        inside = 0 < measurement.first_round <= measurement.last_round <= n_rounds
        _require(inside, "a measurement outside its trajectory")

    def finish(self) -> None:
        for key, trajectory in self._trajectories.items():
            counted = [trajectory.n_decisions, trajectory.n_measurements]
            _require(counted == self._seen[key], f"counters of trajectory {key!r}")
            _require(trajectory.n_rounds == trajectory.n_decisions, "rounds without decision")
        _require(bool(self._positions[1:].all()), "positions missing")
        _require(self._n_estimates == self.session.n_estimates, "estimates missing")
        _require(len(self._trajectories) == self.session.n_trajectories, "trajectories missing")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"it does not fit together: {what}")
