"""The fold that makes a session of a file's records: each is checked and counted, and gives a row.

Rules, counters, slots and windows are those of the commands that made the records. What a file says
of these is not read. What only an estimate, an agent's state or a pending fit can say is checked,
so that a file describes a session which the service could have written.
"""

import binascii
import json
from array import array
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.design.covariates import KNOWN
from lhb_engine.design.products import MOST_PRODUCTS
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow
from service.base.field_types import MOST_SECONDS
from service.base.problems import Problem
from service.commands.sessions import checked_agent
from service.fits.rebuilt_schedule import Rounds, Windows, open_window
from service.fits.warm_start import EstimateInUse
from service.lift.add_to_sums import group_of, totals_of
from service.lift.exact import DIGITS
from service.lift.sums import NO_ROW, NOTHING, LiftSums, ShadowSums, row_of
from service.lift.units import PAST
from service.rounds.closing import closing_of
from service.rounds.events import apply
from service.rounds.timeline import timeline_of
from service.session.covariates import covariates_text
from service.session.fit_schedule import OUT_OF_TURN, Schedule
from service.session.kept_contexts import pack
from service.session.names import imported_names
from service.session.records import (
    DecisionRow,
    EstimateRow,
    KeptSumsRow,
    LiftSumsRow,
    LiftUnitRow,
    MeasurementRow,
    SessionRow,
    SlotSumsRow,
    TrajectoryRow,
    VoidRow,
    changes_of,
)
from service.session.rules import has_only_sums
from service.session.slot_clock import clock_of
from service.session.trial import block_of, imported_trial
from service.transfer.file_format import FLOATS
from service.transfer.import_records import DERIVED, InvalidRecord, check, check_record
from service.transfer.import_rounds import NO_OWNER, Record, Trajectories
from service.writer.agent_cache import build_agent

Row = (
    DecisionRow | MeasurementRow | EstimateRow | TrajectoryRow | VoidRow | LiftUnitRow | SlotSumsRow
)
MOST_GONE = 2**50  # rounds, or measurements: with those to come they stay exact in JSON
NO_EFFECTS: dict[str, list[float]] = {"values": [], "included": [], "share": []}


class ImportFold:
    """The session as the records so far describe it, before it has an owner and an id.

    `apply` takes the records in order, `finish` comes after the last one. Both raise a `Problem`
    or `InvalidRecord`; `line` and `kind` then name the record.
    """

    session: SessionRow  # as counted so far; after `finish`, its schedule has the open windows
    agent: Agent  # before any fit; after `finish`, as it decides
    has_state = False  # whether the agent's state is stored: it had fits, or learns from rewards
    sums: KeptSumsRow | None = None  # what stands for dropped rounds
    lift: LiftSumsRow | None = None  # what stands for them in a comparison, after `finish`

    _trajectories: Trajectories
    _windows: Windows
    _schedule: dict[str, Any]  # as the file has it

    def __init__(self, allow_oracles: bool) -> None:
        self.line, self.kind = 0, "header"
        self._allow_oracles = allow_oracles
        self._in_use = EstimateInUse()
        self._direction: Estimate | None = None  # that estimate
        self._later: Estimate | None = None  # of the last fit after it
        self._installed_due = 0  # of the fit that gave it, or took one away; 0: none did
        self._done: set[int] = set()  # due rounds of finished and pending fits
        self._failed: set[int] = set()  # due rounds of failed fits
        self._seen = 0  # measurements that the last fit may use
        self._state: tuple[dict[str, Any], int] | None = None  # of the agent, with its line
        self._units = LiftSums()  # of a comparison
        self._last_unit = ("", PAST)  # its trajectory and its block
        self._past = NOTHING  # of that trajectory
        self._newest = (0, 0)  # highest model version of a decision, and the line of that decision

    def apply(self, line: int, record: Record) -> Row | None:
        """Check and count the next record, and return its row if it has one."""
        self.line, self.kind = line, str(record["record"])[:20]
        check_record(record)
        is_header = record.pop("record") == "header"
        check((line == 1) == is_header, "record", "the header is the first line and no other")
        row: Row | None = getattr(self, f"_{self.kind}_record")(record)
        return row

    def _header_record(self, record: Record) -> None:
        header = {k: v for k, v in record["session"].items() if k not in DERIVED["header"].split()}
        self._schedule = header.pop("schedule")
        try:
            header |= {
                "names": imported_names(header.get("names"), header["dim"]),
                "trial": imported_trial(header.get("trial")),
                "clock": clock_of(header.get("clock")),
                "changes": changes_of(header.get("changes")),
            }
            session = self.session = SessionRow(tenant="", **header)
            for revision in range(session.revision + 1):
                then = session.at_revision(revision)
                self.agent = checked_agent(then, self._allow_oracles)
        except Problem as problem:
            raise Problem(problem.code, problem.detail, f"session.{problem.field}") from None
        gone = session.n_gone, session.n_erased_measurements, session.n_dropped_measurements
        check(max(gone) <= MOST_GONE, "session.n_erased_rounds", "no session has had as many")
        session.n_rounds = session.n_gone
        session.n_measurements = session.n_erased_measurements + session.n_dropped_measurements
        session.schedule.n_slots = self._schedule["n_slots"]  # erased people may have begun some
        self._trajectories, self._windows = Trajectories(session), Windows(session)

    def _trajectory_record(self, record: Record) -> None:
        self._trajectories.declare(record)

    def _decision_record(self, record: Record) -> DecisionRow:
        session, timeline = self.session, timeline_of(self.session)
        part = self._trajectories.of_decision(record["trajectory"], record["round"])
        part.check_decision(session, record)
        self._newest = max(self._newest, (record["model_version"], self.line))
        covariates = timeline.covariates_of_decision(session, record["covariates"])
        context, mean = array("d", record["context"]).tobytes(), record.pop("mean", None)
        if mean and self.agent.takes_means:
            context += KNOWN + array("d", mean).tobytes()
        begun = timeline.begun_by(record["position"], record["at"])
        ahead = self._windows.ahead(record["position"], begun)
        digest, contexts = record["digest"], record["contexts"]
        values = {
            "number": record["round"],
            "epoch": 1 if ahead is None else ahead.epoch,
            "next_fit_round": None if ahead is None else ahead.due,
            "digest": None if digest is None else bytes.fromhex(digest),
            **{name: array("d", record[name]).tobytes() for name in FLOATS if name in record},
            "context": context,
            "contexts": None
            if contexts is None
            else pack(np.array(contexts), session.keep_contexts),
            "covariates": covariates,
        }
        decision = DecisionRow(*NO_OWNER, **{**record, **values})
        apply(session, part.row, decision, begun)
        return decision

    def _measurement_record(self, record: Record) -> MeasurementRow:
        part = self._trajectories.of_value(record)
        part.check_value(self.session, record)
        covariates = covariates_text(self.session, record["covariates"])
        values = {"number": part.row.n_measurements + 1, "covariates": covariates}
        value = MeasurementRow(*NO_OWNER, **{**record, **values})
        apply(self.session, part.row, value)
        return value

    def _void_record(self, record: Record) -> VoidRow:
        name = self.agent.name
        check(self.agent.takes_corrections, "record", f"{name} takes no void decisions")
        void = VoidRow(*NO_OWNER, **record)
        apply(self.session, self._trajectories.of_void(record), void)
        return void

    def _estimate_record(self, record: Record) -> EstimateRow:
        value, status, manifest = record["estimate"], record["status"], record["manifest"]
        check((value is None) == (status in ("failed", "skipped")), "estimate", "not as its status")
        if value is not None:
            self._check_estimate(value, status, manifest.get("revision", 0))
        window, session, parent = FitWindow(**manifest["window"]), self.session, self._in_use.number
        inside = window.first <= window.last <= window.due <= timeline_of(session).n_begun(session)
        inside = inside and window.n_lags <= session.horizon
        check(inside, "manifest.window", "not a window of this session")
        is_again = window.due in self._done and manifest["reason"] not in OUT_OF_TURN
        check(not is_again, "manifest.window", "that fit was done before")
        self._check_manifest(manifest, "manifest")
        (self._failed if status == "failed" else self._done).add(window.due)
        if value is not None:
            answer, has_direction = (session, session.n_estimates + 1, manifest), status == "ok"
            self._in_use = self._in_use.after(*answer, has_direction=has_direction)
            self.has_state = True
            if self._in_use.number != parent:
                self._direction = Estimate.from_json(value) if has_direction else None
                self._later, self._installed_due = None, window.due
            if value["theta"] is None:
                self._later = Estimate.from_json(value)
        session.count_fit(self._in_use.number)
        values: dict[str, Any] = {
            "number": session.n_estimates,
            "epoch": window.epoch,
            "due": window.due,
            "parent": parent,
            "model_version": session.model_version,
        }
        for name in ("manifest", "fingerprint", "estimate"):
            values[name] = None if record[name] is None else json.dumps(record[name])
        return EstimateRow(*NO_OWNER, **{**record, **values})

    def _check_manifest(self, manifest: dict[str, Any], where: str) -> None:
        """Check that a manifest names nothing that is not there; `where` names the manifest."""
        session = self.session
        for name, most in (
            ("revision", session.revision),
            ("measured", session.n_measurements),
            ("decided", session.n_rounds),
            ("n_erased", session.n_erased_rows),
        ):
            check(manifest.get(name, 0) <= most, f"{where}.{name}", f"there are {most}")
        self._seen = max(self._seen, manifest["measured"])

    def _check_estimate(self, value: dict[str, Any], status: str, revision: int) -> None:
        """Check the sizes of an estimate of a fit with these options."""
        theta, dim, n_lags = value["theta"], self.session.dim, len(value["lag_weights"])
        check(value["status"] == status, "estimate.status", "not as the record's")
        check((theta is None) == (status != "ok"), "estimate.theta", "not as its status")
        is_short = n_lags <= self.session.horizon
        check(is_short, "estimate.lag_weights", "more than there are lags")
        products = value.get("products", [])
        for pair in products:
            fits = len(pair) == 2 and sorted(pair) == list(pair) and pair[-1] < dim
            check(fits, "estimate.products", "not pairs of the session's features")
        check(len(products) == len(set(map(tuple, products))), "estimate.products", "one is twice")
        check(len(products) <= MOST_PRODUCTS, "estimate.products", "too many")
        if theta is None:
            return
        dim += len(products)
        check(len(theta) == dim, "estimate.theta", "not of this dim")
        drawn = value.get("candidates")
        check(drawn is None or _widths(drawn) == {dim}, "estimate.candidates", "not of this dim")
        fresh = build_agent(self.session.at_revision(revision), None)
        every = groups = fresh.covariates.groups
        sizes = [len(one) for one in (value.get("effects") or NO_EFFECTS).values()]
        if self.agent.takes_means and sizes[1] < len(groups):  # what all arms share does nothing
            groups = groups[:-1]
        fits = sizes == [sum(groups), len(groups), len(groups)]
        check(fits, "estimate.effects", "not those of the session's covariates")
        responses = value.get("own") or {"covariance": [[0.0] * dim] * dim}
        of_groups = responses.get("groups", {"covariance": [], "means": {}, "errors": {}})
        covariance, means, errors = of_groups["covariance"], of_groups["means"], of_groups["errors"]
        every_row = *responses["covariance"], *covariance, *means.values(), *errors.values()
        fits = len(responses["covariance"]) == dim and len(covariance) in (0, dim)
        fits = fits and _widths(every_row) == {dim} and means.keys() == errors.keys()
        check(fits, "estimate.own", "not of this dim")
        shape, profiles = {fresh.fitted_dim + len(products)}, value.get("lag_profiles")
        own = value.get("form") not in (None, "shared")
        check((profiles is not None) == own, "estimate.lag_profiles", "not as its form")
        fits = profiles is None or (len(profiles) == n_lags and _widths(profiles) == shape)
        check(fits, "estimate.lag_profiles", "not a list of the session's dim for each lag")
        sums = (value.get("intervals") or {}).get("lag_sums")
        fits = sums is None or len(sums) == dim
        check(fits, "estimate.intervals", "lag_sums are not of the session's dim")
        forms = value.get("forms") or {}
        check(not forms or "shared" in forms, "estimate.forms", "shared profiles are missing")
        for form in forms.values():
            fits = len(form["profiles"]) <= n_lags and _widths(form["profiles"]) == shape
            check(fits, "estimate.forms", "profiles are not of the session's size")
            fits = len(form["effects"]) in (1 + sum(groups), 1 + sum(every))
            check(fits, "estimate.forms", "not these effects")

    def _sums_record(self, record: Record) -> None:
        session = self.session
        is_first = has_only_sums(session) and self.sums is None
        check(is_first, "record", "sums are once in a session that needs them, else never")
        self._install()  # sums have its products
        for name in ("settled", "seen"):
            if record[name] is not None:
                record[name] = _sums(record[name], name, self.agent)
        places = record["first_round"], record["last_round"], session.n_rounds
        check(tuple(sorted(places)) == places, "last_round", "there are no such rounds")
        most = session.n_measurements
        check(record["measured"] <= most, "measured", f"there are {most} measurements")
        ends = record["last_round" if closing_of(session).is_by_time else "measured"]
        check(record["n_settled"] <= ends, "n_settled", f"the fit had {ends} rows")
        self.sums = KeptSumsRow(*NO_OWNER, **record)

    def _slots_record(self, record: Record) -> SlotSumsRow:
        record["sums"] = self._trajectories.summed_slots(record)
        return SlotSumsRow(*NO_OWNER, **record)

    def _lift_record(self, record: Record) -> None:
        session, decided, measured = self.session, record["decided"], record["measured"]
        is_first = bool(session.dropped_to) and session.trial.is_on and self.lift is None
        check(is_first, "record", "lift stands once in a session that needs its sums, else never")
        begun = session.dropped_to
        check(begun <= decided <= session.n_rounds, "decided", "there is no such round")
        check(measured <= session.n_measurements, "measured", "there is no such reward")
        times = [point[4] for point in record["points"]]
        check(all(0 <= at <= MOST_SECONDS for at in times), "points", "they are of no time")
        sums = {name: record[name] for name in ("n_left_out", "points", "past_to")}
        self._units = LiftSums(shadow=ShadowSums(**record["shadow"]), **sums)
        self.lift = LiftSumsRow(*NO_OWNER, session.trial.since, decided, measured, "")

    def _unit_record(self, record: Record) -> LiftUnitRow:
        session, unit = self.session, LiftUnitRow(*NO_OWNER, **record)
        is_past = unit.block == PAST
        has_lift = self.lift is not None and (0 if is_past else self.lift.since) == unit.since
        check(has_lift, "since", "there is no such comparison")
        place = unit.trajectory, unit.block
        check(place > self._last_unit, "block", "units are in order")
        n_rounds = self._trajectories.n_rounds(unit.trajectory)
        n = timeline_of(session).n_begun_of(session, n_rounds)
        n_blocks = block_of(unit.trajectory, n, session.horizon)
        has_block = n > 0 and PAST <= unit.block <= n_blocks
        check(has_block, "block", "the trajectory has no such block")
        for name in ("reward", "predicted"):
            exponent = int(record[name].split("p")[1])
            check(exponent >= -DIGITS, name, "it is no sum of floats")
        if place[0] != self._last_unit[0]:
            self._past = NOTHING
        self._last_unit, totals = place, totals_of(unit)
        if is_past:
            self._past = totals
        else:
            self._units.move(group_of(session, unit), NO_ROW, row_of(totals, self._past))
        return unit

    def _agent_record(self, record: Record) -> None:
        check(self._state is None, "record", "there is one agent")
        self._state = record["state"], self.line

    def finish(self) -> Iterator[TrajectoryRow]:
        """Check the records as a whole, and yield the rows of the trajectories."""
        session = self.session
        self.kind = "decision"
        version, self.line = self._newest
        check(version <= session.model_version, "model_version", "there is no such version")
        rounds = self._trajectories.rounds()
        self.kind = "measurement"
        self._trajectories.check_arrivals()
        self.line, self.kind = 1, "header"
        self._take_pending()
        self._open_windows(rounds)
        since = session.trial.since, session.trial.since_reward
        begun = since[0] <= session.n_rounds and since[1] <= session.n_measurements
        check(begun, "session.trial", "its comparison begins after the last round or reward")
        sums = self.sums
        has_sums = sums is not None and sums.estimate == session.estimate
        if self.lift is not None:
            self.lift = self.lift._replace(sums=self._units.dumps())
        is_compared = session.trial.is_on and session.dropped_to > session.trial.since
        check(not is_compared or self.lift is not None, "session.dropped_to", "lift has no sums")
        yield from self._trajectories.rows(has_sums=has_sums or not has_only_sums(session))
        self._learn()

    def _take_pending(self) -> None:
        """Check the pending fits of the file: the session has them."""
        session, header = self.session, self._schedule
        places = [0, *(change.after for change in session.changes.changes), session.n_rounds]
        check(places == sorted(places), "session.changes", "not in the order of rounds")
        n_slots = session.schedule.n_slots
        is_all = header["n_slots"] == n_slots
        check(is_all, "session.schedule.n_slots", f"the records are of {n_slots}")
        schedule = session.schedule = Schedule.load({**header, "open": [], "seen": 0})
        pending = [(f"waiting[{i}]", due) for i, due in enumerate(schedule.waiting)]
        if schedule.current is None:
            for due in schedule.waiting:
                due.retry_at = due.retry_at or 0.0  # start it at once
        else:
            pending.append(("current", schedule.current))
            schedule.current.retry_at = None
        for name, due in pending:
            where = f"session.schedule.{name}"
            self._check_manifest(due.manifest(), where)
            is_known = due.key <= timeline_of(session).n_begun(session) and self._windows.knows(due)
            check(is_known, f"{where}.window", "not a window of this schedule")
            is_done = due.reason not in OUT_OF_TURN and due.key in self._done
            is_done = is_done or due.key < self._installed_due
            check(not is_done, f"{where}.window", "that fit is done")
            self._done.add(due.key)
        schedule.seen = self._seen

    def _open_windows(self, rounds: Rounds) -> None:
        """Open the windows that are neither done nor pending."""
        session, schedule, timeline = self.session, self.session.schedule, timeline_of(self.session)
        is_whole, said = len(rounds.position) == session.n_rounds, self._schedule.get("open", ())
        said = timeline.overdue_said(said, is_whole=is_whole)
        overdue = {window.get("due"): at for window, _, at in said}
        done, n = self._done | self._failed, timeline.n_begun(session)
        for window in self._windows.opened(session, rounds, self._installed_due):
            if window.due not in done:
                opened = open_window(session, rounds, window)
                if window.due <= n:
                    opened.overdue_at = overdue.get(window.due, opened.overdue_at)
                schedule.open.append(opened)
        if schedule.open:
            session.n_complete, schedule.open[-1].n_complete = schedule.open[-1].n_complete, 0

    def _learn(self) -> None:
        """Rebuild the agent: install the estimate, and restore what it learned since.

        What an earlier release's agent learned since in a form that is no longer read is left out:
        the agent goes on from its last fit.
        """
        agent = self.agent
        self._install()
        if not agent.learns_within_epoch or self._state is None:
            return
        state, self.line = self._state
        self.kind = "agent"
        if state["version"] < agent.state_version:
            return
        state = {**state, "theta": agent.state()["theta"]}
        check((state.get("lag") or 0) < agent.horizon, "state.lag", "no such lag")
        if "ellipsoid" in state:
            ellipsoid = state["ellipsoid"]
            sizes = {len(row) for row in [ellipsoid["moment"], *ellipsoid["inverse"]]}
            fits = sizes == {agent.dim} and len(ellipsoid["inverse"]) == agent.dim
            check(fits, "state.ellipsoid", "not of this dim")
        try:
            agent = self.agent = build_agent(self.session, state)
            is_same = state == agent.state()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRecord("state", f"{agent.name} cannot read it: {error!r}") from None
        check(is_same, "state", f"not a state of {agent.name}")
        self.has_state = True

    def _install(self) -> None:
        for estimate in filter(None, (self._direction, self._later)):
            self.agent.install(estimate)


def _widths(rows: Iterable[Any]) -> set[int]:
    """Return how many numbers rows have; nothing where there are no rows."""
    return set(map(len, rows))


def _sums(text: str, field: str, agent: Agent) -> bytes:
    from lhb_engine.agents.fit_past import sums_from_bytes  # loads what only fits need

    try:
        data = b64decode(text, validate=True)
        sums_from_bytes(agent, data)
    except (binascii.Error, ValueError) as error:
        raise InvalidRecord(field, str(error)) from None
    return data
