"""What has to hold between the records of one session. Counters and marks are counted again."""

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import Ints
from lhb_engine.posterior.prediction_check import Prediction
from service.agent_cache import build_agent
from service.commands.sessions import check_modes, first_agent
from service.problems import Problem
from service.records import DecisionRow, Schedule, SessionRow
from service.transfer.import_records import InvalidRecord, check_record, require
from service.transfer.import_schedule import Seen, check_schedule
from service.transfer.ndjson import decision_of


def session_of(header: dict[str, Any], tenant: str) -> SessionRow:
    """The session of a header."""
    values = dict(header["session"])
    values["schedule"] = Schedule.load(values["schedule"])
    return SessionRow(tenant=tenant, **values)


@dataclass(slots=True)
class ImportedTrajectory:
    """What has been seen of a trajectory, beside what its record claims."""

    line: int
    claimed: dict[str, Any]
    positions: "array[int]" = field(default_factory=lambda: array("q"))
    measured: bytearray = field(default_factory=bytearray)  # a byte a round
    n_measurements: int = 0
    through: int = 0
    last_at: float = 0.0
    model_version: int = 0
    event_ids: set[str] = field(default_factory=set)
    reward_ids: set[str] = field(default_factory=set)


class Check:
    """Takes the records of a file in order, then looks at the whole.

    Every method raises `InvalidRecord`, about the record that `line` and `kind` name.
    """

    session: SessionRow
    agent: Agent

    def __init__(self, allow_oracles: bool) -> None:
        self.line, self.kind = 0, "header"
        self._allow_oracles = allow_oracles
        self._logs: dict[str, ImportedTrajectory] = {}
        self._estimates = 0
        self._installed = 0
        self._installed_due = 0
        self._theta: list[float] | None = None
        self._in_force: Estimate | None = None
        self._model_version = 0
        self._done: set[int] = set()
        self._state: dict[str, Any] | None = None
        self._agent_line = 0

    def take(self, line: int, record: dict[str, Any]) -> None:
        """The next record."""
        self.line = line
        self.kind = str(record["record"])[:20]
        check_record(record)
        if (line == 1) != (self.kind == "header"):
            raise InvalidRecord("record", "the header is the first line and no other")
        getattr(self, f"_{self.kind}")(record)

    def _header(self, record: dict[str, Any]) -> None:
        self.session = session_of(record, "")
        try:
            check_modes(record["session"])
            self.agent = first_agent(self.session, self._allow_oracles)
        except Problem as problem:
            where = f"header.session.{problem.field}"
            raise Problem(problem.code, problem.detail, where) from None

    def _trajectory(self, record: dict[str, Any]) -> None:
        require(record["key"] not in self._logs, "key", "a trajectory that stands twice")
        self._logs[record["key"]] = ImportedTrajectory(self.line, record)

    def _decision(self, record: dict[str, Any]) -> None:
        decision, log = decision_of(record, "", ""), self._log(record)
        n = len(log.positions) + 1
        require(decision.round == n, "round", f"after round {n - 1} comes {n}")
        require(decision.number == n, "number", "one decision a round: its number")
        last = log.positions[-1] if log.positions else 0
        require(last < decision.position <= self.session.n_rounds, "position", "out of order")
        require(decision.at >= log.last_at, "at", "time goes back")
        ahead = log.model_version <= decision.model_version <= self.session.model_version
        require(ahead, "model_version", "no such version then")
        require(decision.epoch <= decision.position, "epoch", "there were not so many rounds")
        due = decision.next_fit_round
        require(due is None or due >= decision.position, "next_fit_round", "it has passed")
        known = decision.client_event_id in log.event_ids
        require(not known, "client_event_id", "it stands twice")
        digest_fits = (decision.digest is None) == (decision.client_event_id is None)
        require(digest_fits, "digest", "a digest belongs to a client's event id")
        self._choice(decision)
        log.positions.append(decision.position)
        log.measured.append(0)
        log.last_at, log.model_version = decision.at, decision.model_version
        if decision.client_event_id is not None:
            log.event_ids.add(decision.client_event_id)

    def _choice(self, decision: DecisionRow) -> None:
        dim, n_arms = len(decision.context) // 8, len(decision.scores) // 8
        if decision.arm is None:
            require(dim == 0, "context", "a round without action has none")
            require(n_arms == 0, "scores", "a round without action has none")
            require(decision.arm_id is None, "arm_id", "a round without action has none")
            require(not decision.forced, "forced", "a round without action is not forced")
        else:
            require(dim == self.session.dim, "context", f"it has {dim} numbers")
            require(decision.arm < n_arms, "arm", f"there are {n_arms} scores")
        is_chosen = decision.arm is not None and not decision.forced
        fits = (decision.propensity is not None) == is_chosen
        require(fits, "propensity", "there is one exactly where the agent chose")
        require(is_chosen or not decision.explored, "explored", "the agent did not choose")

    def _measurement(self, record: dict[str, Any]) -> None:
        log = self._log(record)
        first, last = record["first_round"], record["last_round"]
        log.n_measurements += 1
        require(record["number"] == log.n_measurements, "number", "numbers have no gaps")
        require(first <= last, "last_round", "it is before first_round")
        require(last <= len(log.measured), "last_round", "that round has not been decided")
        reward_id = record["reward_id"]
        require(
            reward_id is None or reward_id not in log.reward_ids, "reward_id", "it stands twice"
        )
        if self.session.reward_mode == "sum":
            require(first == last, "last_round", "in sum mode values belong to one round")
            require(reward_id is not None, "reward_id", "sum mode needs one")
        else:
            is_new = 1 not in log.measured[first - 1 : last]
            require(is_new, "first_round", "it overlaps another measurement")
        log.measured[first - 1 : last] = b"\1" * (last - first + 1)
        log.through = max(log.through, last)
        if reward_id is not None:
            log.reward_ids.add(reward_id)

    def _estimate(self, record: dict[str, Any]) -> None:
        self._estimates += 1
        require(record["number"] == self._estimates, "number", "numbers have no gaps")
        require(record["parent"] == self._installed, "parent", "another one was installed")
        found, status, window = record["estimate"], record["status"], record["manifest"]["window"]
        same = window["epoch"] == record["epoch"] and window["due"] == record["due"]
        inside = window["first"] <= window["last"] <= window["due"] <= self.session.n_rounds
        inside = inside and window["n_lags"] <= self.session.horizon
        require(same and inside, "manifest.window", "not a window of this session")
        self._manifest(record["manifest"], "manifest")
        require(
            (found is None) == (status in ("failed", "skipped")), "estimate", "not as its status"
        )
        if found is not None:
            theta = found["theta"]
            require(found["status"] == status, "estimate.status", "not as the record's")
            require((theta is None) == (status != "ok"), "estimate.theta", "not as its status")
            fits = len(found["lag_weights"]) <= self.session.horizon
            require(fits, "estimate.lag_weights", "more than there are lags")
            if theta is not None:
                require(len(theta) == self.session.dim, "estimate.theta", "not of this dim")
                self._model_version += 1
                self._installed, self._installed_due = self._estimates, record["due"]
                self._theta = theta
                self._in_force = Estimate.from_json(found)
        version = self._model_version
        require(record["model_version"] == version, "model_version", f"it is {version} by then")
        if status != "failed":  # what failed may be tried again
            require(record["due"] not in self._done, "due", "that fit was done before")
            self._done.add(record["due"])

    def _manifest(self, manifest: dict[str, Any], where: str) -> None:
        for name, n in manifest["measured"].items():
            log = self._logs.get(name)
            fits = log is not None and n <= log.n_measurements
            require(fits, f"{where}.measured", f"not so many of {name!r}")
        for name, n in manifest["closed"].items():
            log = self._logs.get(name)
            fits = log is not None and n <= len(log.positions)
            require(fits, f"{where}.closed", f"not so many of {name!r}")

    def _agent(self, record: dict[str, Any]) -> None:
        require(self._state is None, "record", "there is one agent")
        self._agent_line = self.line
        state = self._state = record["state"]
        dim = self.session.dim
        theta, ellipsoid = state.get("theta"), state.get("ellipsoid")
        require(theta is None or len(theta) == dim, "state.theta", f"it must hold {dim} numbers")
        require((state.get("lag") or 0) < self.session.horizon, "state.lag", "no such lag")
        if ellipsoid is not None:
            require(len(ellipsoid["moment"]) == dim, "state.ellipsoid.moment", "not of this dim")
            sizes = {dim} if len(ellipsoid["inverse"]) == dim else {0}
            fits = {len(row) for row in ellipsoid["inverse"]} == sizes
            require(fits, "state.ellipsoid.inverse", "not of this dim")
        try:
            agent = build_agent(self.session, state)
            is_same = agent.state() == state
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRecord(
                "state", f"{self.session.algorithm} cannot read it: {error!r}"
            ) from None
        require(is_same, "state", f"not a state of {self.session.algorithm}")

    def finish(self) -> None:
        """The whole: what is claimed of it is what it is."""
        for log in self._logs.values():
            self.line, self.kind = log.line, "trajectory"
            counted = {
                "n_decisions": len(log.positions),
                "n_rounds": len(log.positions),
                "n_measurements": log.n_measurements,
                "measured_through": log.through,
                "last_at": log.last_at,
            }
            for name, value in counted.items():
                require(log.claimed[name] == value, name, f"by its records it is {value}")
            require(len(log.positions) > 0, "n_rounds", "a trajectory has at least one")
        self.line, self.kind = 1, "header"
        positions, measured = self._positions()
        session, at = self.session, "session"
        n = len(positions)  # first: nobody's claim decides how much memory it takes
        is_whole = n == session.n_rounds
        is_whole = is_whole and np.array_equal(np.sort(positions), np.arange(1, n + 1))
        require(is_whole, f"{at}.n_rounds", "not the positions of the decisions")
        totals = {
            "n_trajectories": len(self._logs),
            "n_estimates": self._estimates,
            "estimate": self._installed,
            "model_version": self._model_version,
        }
        for name, value in totals.items():
            require(
                getattr(session, name) == value, f"{at}.{name}", f"by its records it is {value}"
            )
        latest = max((log.last_at for log in self._logs.values()), default=0.0)
        seen = Seen(np.sort(measured), latest, self._installed_due, self._done)
        for due, where in check_schedule(session, self.agent, seen):
            self._manifest({"measured": due.measured, "closed": due.closed}, where)
        if self._state is None:
            require(self._theta is None, f"{at}.estimate", "there is no agent to decide by it")
            return
        self.line, self.kind = self._agent_line, "agent"
        is_installed = self._state["theta"] == self._theta
        require(is_installed, "state.theta", "not that of the installed estimate")
        prediction = self._state.get("prediction")
        if prediction is not None:
            known = Prediction.of(self._in_force) if self._in_force else None
            is_its = known is not None and known.to_json() == prediction
            require(is_its, "state.prediction", "not that of the installed estimate")

    def _positions(self) -> tuple[Ints, Ints]:
        """Positions of all rounds, and of those that are measured."""
        none = np.zeros(0, dtype=np.int64)
        logs = self._logs.values()
        all_of = [np.array(log.positions, dtype=np.int64) for log in logs]
        marks = [np.frombuffer(log.measured, dtype=np.bool_) for log in logs]
        measured = [p[mark] for p, mark in zip(all_of, marks, strict=True)]
        return np.concatenate([none, *all_of]), np.concatenate([none, *measured])

    def _log(self, record: dict[str, Any]) -> ImportedTrajectory:
        log = self._logs.get(record["trajectory"])
        if log is None:
            raise InvalidRecord("trajectory", f"there is no trajectory {record['trajectory']!r}")
        return log
