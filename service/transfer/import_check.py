"""Check the records of an imported session against each other.

Counters, versions, parents and windows are derived from the records. Everything else is checked, so
that a file can only describe a session that the service could have written.
"""

import json
from dataclasses import replace
from typing import Any, NamedTuple

from lhb_engine.agents import Agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow
from service.base.problems import Problem
from service.commands.sessions import checked_agent, first_agent
from service.rounds.timeline import timeline_of
from service.session.covariates import names_of_covariates
from service.session.due_fits import OUT_OF_TURN
from service.session.estimate_in_use import EstimateInUse
from service.session.names import imported_names
from service.session.option_changes import imported_changes
from service.session.records import SessionRow, TrajectoryRow
from service.session.slot_clock import imported_clock
from service.session.trial import imported_trial
from service.transfer.import_dropped import Dropped
from service.transfer.import_records import DERIVED, InvalidRecord, check, check_record
from service.transfer.import_rounds import (
    TrajectoryRecords,
    check_choice,
    check_rounds,
    count_slot,
)
from service.transfer.import_schedule import Manifests, Rounds, Windows, in_order, open_window
from service.writer.agent_cache import build_agent


class ImportedSession(NamedTuple):
    """The session that the records of a file describe, before it has an owner and an id.

    Counters and schedule are derived. `windows` are the agent's, up to the first that is not due
    yet; without a state to store there is no agent. `dropped` is what dropped rows no longer tell.
    """

    session: SessionRow
    trajectories: list[TrajectoryRow]
    windows: Windows
    agent: Agent | None
    dropped: Dropped


NO_EFFECTS: dict[str, list[float]] = {"values": [], "included": [], "share": []}


def _is_object(text: str) -> bool:
    """Return whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _parts(header: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of the header's session that it has as text."""
    return {
        "names": imported_names(header["names"], header["dim"]),
        "trial": imported_trial(header["trial"]),
        "clock": imported_clock(header["clock"]),
        "changes": imported_changes(header["changes"]),
    }


class ImportCheck:
    """Checks the records of a file in order; `finish` returns the session that they describe.

    Every method raises `InvalidRecord`; `line` and `kind` then name the record.
    """

    _session: SessionRow
    _agent: Agent
    _manifests: Manifests
    _pending: dict[str, Any]  # the schedule in the file

    def __init__(self, allow_oracles: bool) -> None:
        self.line, self.kind = 0, "header"
        self._allow_oracles = allow_oracles
        self._trajectories: dict[str, TrajectoryRecords] = {}
        self._done: set[int] = set()  # due rounds of finished and pending fits
        self._failed: set[int] = set()  # due rounds of failed fits
        self._n_fitted = 0
        self._installed_due = 0
        self._installed: Estimate | None = None
        self._in_use = EstimateInUse()
        self._state: dict[str, Any] | None = None
        self._agent_line = 1
        self._newest = (0, 0)  # highest model version of a decision, and the line of that decision

    def take(self, line: int, record: dict[str, Any]) -> None:
        """Check the next record."""
        self.line, self.kind = line, str(record["record"])[:20]
        check_record(record)
        is_header = self.kind == "header"
        check((line == 1) == is_header, "record", "the header is the first line and no other")
        if self.kind == "trajectory":  # it holds only derived values, but for what is dropped
            self._dropped.trajectory(record)
        elif self.kind == "sums":
            self._dropped.take_sums(record, self._agent)
        else:
            getattr(self, f"_{self.kind}_record")(record)

    def _header_record(self, record: dict[str, Any]) -> None:
        given = {k: v for k, v in record["session"].items() if k not in DERIVED["header"].split()}
        self._pending = given.pop("schedule")
        try:
            self._begin(SessionRow(tenant="", **{**given, **_parts(given)}))
        except Problem as problem:
            where = f"header.session.{problem.field}"
            raise Problem(problem.code, problem.detail, where) from None

    def _begin(self, session: SessionRow) -> None:
        """Check the session as the header has it; each decision in the file counts one more."""
        check(_is_object(session.request), "session.request", "it is no JSON object")
        self._session = session
        session.n_rounds = session.n_gone
        session.n_measurements = session.n_erased_measurements + session.n_dropped_measurements
        session.schedule.n_slots = self._pending["n_slots"]  # erased people may have begun some
        self._dropped = Dropped(session, self._trajectories)
        self._manifests = Manifests(session, self._trajectories)
        self._agent = checked_agent(session, self._allow_oracles)
        for revision in range(session.revision):
            first_agent(session.at_revision(revision), self._allow_oracles)

    def _decision_record(self, record: dict[str, Any]) -> None:
        name = record["trajectory"]
        trajectory = self._trajectories.get(name)
        if trajectory is None:
            n = self._dropped.begin(name, record["round"])
            trajectory = TrajectoryRecords(TrajectoryRow("", "", name, n_rounds=n), n)
            self._trajectories[name] = trajectory
        n, version = trajectory.row.n_rounds, record["model_version"]
        check(record["round"] == n + 1, "round", f"after round {n} comes {n + 1}")
        before = trajectory.positions[-1:]
        check(not before or before[0] < record["position"], "position", "out of order")
        is_in_order = trajectory.row.last_at <= record["at"] or self._session.clock is not None
        check(is_in_order, "at", "time goes back")
        count_slot(self._session, record["at"])
        check(trajectory.model_version <= version, "model_version", "versions go back")
        event_id = record["client_event_id"]
        check(event_id not in trajectory.event_ids, "client_event_id", "it stands twice")
        fits = (record["digest"] is None) == (event_id is None)
        check(fits, "digest", "a digest belongs to a client's event id")
        check_choice(self._session, record)
        self._check_covariates(record)
        trajectory.positions.append(record["position"])
        trajectory.times.append(record["at"])
        trajectory.measured.append(0)
        trajectory.row.n_decisions = trajectory.row.n_rounds = n + 1
        trajectory.row.last_at = max(trajectory.row.last_at, record["at"])
        trajectory.model_version = version
        if event_id is not None:
            trajectory.event_ids.add(event_id)
        self._session.n_rounds += 1
        self._newest = max(self._newest, (version, self.line))

    def _measurement_record(self, record: dict[str, Any]) -> None:
        name = record["trajectory"]
        trajectory = self._trajectories.get(name)
        if trajectory is None and timeline_of(self._session).has_values_alone(name):
            trajectory = self._trajectories[""] = TrajectoryRecords(TrajectoryRow("", "", ""))
        if trajectory is None:
            raise InvalidRecord("trajectory", "no decision was taken in it")
        last, reward_id = record["last_round"], record["reward_id"]
        self._check_covariates(record)
        check(reward_id not in trajectory.reward_ids, "reward_id", "it stands twice")
        if record["replaces"] is not None:
            self._refuse_corrections()
        check_rounds(self._session, trajectory, record)
        trajectory.add_measurement(record)
        self._session.n_measurements += 1
        trajectory.row.n_measurements += 1
        trajectory.row.measured_through = max(trajectory.row.measured_through, last)
        if reward_id is not None:
            trajectory.reward_ids.add(reward_id)

    def _check_covariates(self, record: dict[str, Any]) -> None:
        given = record["covariates"] or {}
        are_known = set(given) <= {*names_of_covariates(self._session)}
        check(are_known, "covariates", "the session has no such covariate")
        is_fit = not given or self._session.clock is None or record["record"] != "decision"
        check(is_fit, "covariates", "with a clock they come with rewards")

    def _void_record(self, record: dict[str, Any]) -> None:
        self._refuse_corrections()
        self._manifests.void(record)

    def _refuse_corrections(self) -> None:
        """Raise `InvalidRecord` if such a session has no corrections and no void decisions."""
        agent = self._agent
        check(not agent.learns_within_epoch, "record", f"{agent.name} takes no corrections")

    def _estimate_record(self, record: dict[str, Any]) -> None:
        found, status, manifest = record["estimate"], record["status"], record["manifest"]
        window, session = FitWindow(**manifest["window"]), self._session
        inside = window.first <= window.last <= window.due <= timeline_of(session).n_begun(session)
        inside = inside and window.n_lags <= session.horizon
        check(inside, "manifest.window", "not a window of this session")
        is_again = window.due in self._done and manifest["reason"] not in OUT_OF_TURN
        check(not is_again, "manifest.window", "that fit was done before")
        self._manifests.check(manifest, "manifest")
        check((found is None) == (status in ("failed", "skipped")), "estimate", "not as its status")
        session.n_estimates += 1
        (self._failed if status == "failed" else self._done).add(window.due)
        if found is None:
            return
        self._n_fitted += 1
        theta = found["theta"]
        check(found["status"] == status, "estimate.status", "not as the record's")
        check((theta is None) == (status != "ok"), "estimate.theta", "not as its status")
        n_lags = len(found["lag_weights"])
        check(n_lags <= session.horizon, "estimate.lag_weights", "more than there are lags")
        if theta is not None:
            check(len(theta) == session.dim, "estimate.theta", "not of this dim")
            drawn = found.get("candidates")
            fit = drawn is None or (drawn and {len(one) for one in drawn} == {session.dim})
            check(bool(fit), "estimate.candidates", "not of this dim")
            self._check_profiles(found, n_lags)
            sizes = [len(one) for one in (found.get("effects") or NO_EFFECTS).values()]
            groups = self._agent.covariates.groups
            fit = sizes == [sum(groups), len(groups), len(groups)]
            check(fit, "estimate.effects", "not those of the session's covariates")
        before, has_direction = self._in_use, theta is not None
        given = session.n_estimates, manifest
        self._in_use = in_use = before.after(*given, has_direction=has_direction)
        session.model_version, session.estimate = in_use.model_version, in_use.number
        if in_use != before:
            self._installed_due = window.due
            self._installed = Estimate.from_json(found) if has_direction else None

    def _check_profiles(self, found: dict[str, Any], n_lags: int) -> None:
        """Check that lag profiles are of the agent's size, and there where features have own."""
        shape, phi, forms = {self._agent.fitted_dim}, found.get("lag_profiles"), found.get("forms")
        own = found.get("form") not in (None, "shared")
        check((phi is not None) == own, "estimate.lag_profiles", "not as its form")
        fits = phi is None or (len(phi) == n_lags and {len(one) for one in phi} == shape)
        check(fits, "estimate.lag_profiles", "not a list of the session's dim for each lag")
        sums = (found.get("intervals") or {}).get("lag_sums")
        fits = sums is None or len(sums) == self._session.dim
        check(fits, "estimate.intervals", "lag_sums are not of the session's dim")
        n_effects = 1 + sum(self._agent.covariates.groups)
        check(not forms or "shared" in forms, "estimate.forms", "shared profiles are missing")
        for form in (forms or {}).values():
            phi = form["profiles"]
            fits = 0 < len(phi) <= n_lags and {len(one) for one in phi} == shape
            check(fits, "estimate.forms", "profiles are not of the session's size")
            check(len(form["effects"]) == n_effects, "estimate.forms", "not these effects")

    def _agent_record(self, record: dict[str, Any]) -> None:
        check(self._state is None, "record", "there is one agent")
        self._state, self._agent_line = record["state"], self.line

    def finish(self) -> ImportedSession:
        """Check the records as a whole, and return the session that they describe."""
        self.kind = "decision"
        version, self.line = self._newest
        check(version <= self._session.model_version, "model_version", "there is no such version")
        parts, n_rounds = self._trajectories.values(), self._session.n_rounds
        rounds = in_order([(s.positions, s.times, s.measured) for s in parts], n_rounds)
        self.line, self.kind = 1, "header"
        windows = self._schedule(rounds)
        self.kind = "measurement"
        self._manifests.check_positions()
        self.line, self.kind = 1, "header"
        trial, session = self._session.trial, self._session
        begun = trial.since <= n_rounds and trial.since_reward <= session.n_measurements
        check(begun, "session.trial", "its comparison begins after the last round or reward")
        self.line, self.kind = self._agent_line, "agent"
        learned = self._learned()
        rows = self._dropped.finish()
        n_trajectories = sum(row.n_decisions > 0 for row in rows)
        session = replace(self._session, n_trajectories=n_trajectories)
        return ImportedSession(session, rows, windows, learned, self._dropped)

    def _schedule(self, rounds: Rounds) -> Windows:
        """Check the pending fits, and open the other windows that are not done."""
        session, n_slots = self._session, self._session.schedule.n_slots
        schedule = session.schedule = self._manifests.schedule(self._pending)
        n_begun = timeline_of(session).n_begun(session)
        is_all = schedule.n_slots == n_slots
        check(is_all, "session.schedule.n_slots", f"the records are of {n_slots}")
        windows = Windows(session)
        pending = [(f"waiting[{i}]", due) for i, due in enumerate(schedule.waiting)]
        if schedule.current is None:
            for due in schedule.waiting:
                due.retry_at = due.retry_at or 0.0  # start it at once
        else:
            pending.append(("current", schedule.current))
            schedule.current.retry_at = None
        for name, due in pending:
            where = f"session.schedule.{name}"
            beside = due.reason in OUT_OF_TURN
            is_done = due.key <= self._installed_due - beside
            is_done = is_done or (not beside and due.key in self._done)
            is_known = windows.knows(due) and due.key <= n_begun
            check(is_known, f"{where}.window", "not a window of this schedule")
            check(not is_done, f"{where}.window", "that fit is done")
            self._done.add(due.key)
        after = max(self._done | self._failed | {self._installed_due})
        left = [w for w in windows.ahead_of(session, after) if w.due > self._installed_due]
        left = [w for w in left if w.due not in self._done | self._failed]
        schedule.open = [open_window(session, rounds, window) for window in left]
        if schedule.open:
            session.n_complete, schedule.open[-1].n_complete = schedule.open[-1].n_complete, 0
        return windows

    def _learned(self) -> Agent | None:
        """Rebuild the agent: install the estimate, and restore what it learned since.

        What an earlier release's agent learned since in a form that is no longer read is left out:
        the agent goes on from its last fit.
        """
        agent, state = self._agent, self._state
        if self._installed is not None:
            agent.install(self._installed)
        if state is not None and isinstance(state.get("version"), int):
            state = state if state["version"] >= agent.state_version else None
        if not agent.learns_within_epoch or state is None:
            return agent if self._n_fitted else None
        state = {**state, "theta": agent.state()["theta"]}
        check((state.get("lag") or 0) < agent.horizon, "state.lag", "no such lag")
        if "ellipsoid" in state:
            ellipsoid = state["ellipsoid"]
            sizes = {len(row) for row in [ellipsoid["moment"], *ellipsoid["inverse"]]}
            fits = sizes == {agent.dim} and len(ellipsoid["inverse"]) == agent.dim
            check(fits, "state.ellipsoid", "not of this dim")
        try:
            agent = build_agent(self._session, state)
            is_same = agent.state() | state == agent.state()  # an older state may lack keys
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRecord("state", f"{agent.name} cannot read it: {error!r}") from None
        check(is_same, "state", f"not a state of {agent.name}")
        return agent
