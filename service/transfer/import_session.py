"""The fold that makes a session of a file's records: each is checked and counted, and gives a row.

Rules, counters, slots and windows are those of the commands that made the records. What a file says
of these is not read. What only an estimate, an agent's state or a pending fit can say is checked,
so that a file describes a session which the service could have written.
"""

import binascii
import json
from array import array
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.design.covariates import KNOWN
from lhb_engine.design.products import MOST_PRODUCTS
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow
from service.base.field_types import MOST_SECONDS
from service.base.problems import Problem
from service.commands.decisions import refuse_voids
from service.commands.sessions import checked_agent
from service.fits.fit_row import counted_fit
from service.fits.rebuilt_schedule import Rounds, Windows, open_window
from service.fits.warm_start import EstimateInUse
from service.lift.add_to_sums import group_of, totals_of
from service.lift.sums import NO_ROW, NOTHING, LiftSums, ShadowSums, row_of
from service.lift.units import PAST
from service.rounds.closing import closing_of
from service.rounds.events import apply
from service.rounds.timeline import timeline_of
from service.session.covariates import covariates_text
from service.session.fit_schedule import OUT_OF_TURN, Schedule
from service.session.kept_contexts import pack
from service.session.names import check_names
from service.session.records import (
    PARTS,
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
)
from service.session.rules import has_only_sums
from service.session.trial import block_of, imported_trial
from service.transfer.file_format import FLOATS
from service.transfer.import_records import DERIVED, InvalidRecord, check, check_record, check_shape
from service.transfer.import_rounds import NO_OWNER, Record, Trajectories
from service.writer.agent_cache import build_agent

Row = (
    DecisionRow | MeasurementRow | EstimateRow | TrajectoryRow | VoidRow | LiftUnitRow | SlotSumsRow
)
NO_EFFECTS: dict[str, list[float]] = {"values": [], "included": [], "share": []}


class ImportFold:
    """The session as the records so far describe it, before it has an owner and an id.

    `apply` takes the records in order, each once `line` is its number, `finish` comes after the
    last one. Both raise a `Problem` or `InvalidRecord`; `line` and `kind` then name the record.
    """

    session: SessionRow  # as counted so far; after `finish`, its schedule has the open windows
    agent: Agent  # as the fits so far leave it; after `finish`, as it decides
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
        self._installed_due = 0  # of the fit that gave this, or took one away; 0: none did
        self._done: set[int] = set()  # due rounds of finished and pending fits
        self._failed: set[int] = set()  # due rounds of failed fits
        self._seen = 0  # measurements that the last fit may use
        self._state: tuple[dict[str, Any], int] | None = None  # of the agent, with its line
        self._units = LiftSums()  # of a comparison
        self._last_unit = ("", PAST)  # its trajectory and its block
        self._past = NOTHING  # of that trajectory
        self._newest = (0, 0)  # highest model version of a decision, and the line of that decision

    def apply(self, record: Record) -> Row | None:
        """Check and count the record of the next `line`, and return its row if it has one."""
        self.kind = str(record["record"])[:20]
        check_record(record)
        is_header = record.pop("record") == "header"
        check((self.line == 1) == is_header, "record", "the header is the first line and no other")
        row: Row | None = getattr(self, f"_{self.kind}_record")(record)
        return row

    def _header_record(self, record: Record) -> None:
        header = {k: v for k, v in record["session"].items() if k not in DERIVED["header"].split()}
        self._schedule = header.pop("schedule")
        try:
            if header.get("names") is not None:
                check_names(json.loads(header["names"]), header["dim"])
            header["trial"] = imported_trial(header.get("trial"))
            for part in ("names", "clock", "changes"):
                header[part] = PARTS[part](header.get(part))
            session = self.session = SessionRow(tenant="", **header)
            for revision in range(session.revision + 1):
                then = session.at_revision(revision)
                self.agent = checked_agent(then, self._allow_oracles)
        except Problem as problem:
            raise Problem(problem.code, problem.detail, f"session.{problem.field}") from None
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
        record["covariates"] = timeline.covariates_of_decision(session, record["covariates"])
        digest, contexts, mean = record["digest"], record["contexts"], record.pop("mean", None)
        for name in FLOATS:
            if name in record:
                record[name] = array("d", record[name]).tobytes()
        if mean and self.agent.takes_means:
            record["context"] += KNOWN + array("d", mean).tobytes()
        if contexts is not None:
            record["contexts"] = pack(np.array(contexts), session.keep_contexts)
        record["digest"] = None if digest is None else bytes.fromhex(digest)
        begun = timeline.begun_by(record["position"], record["at"])
        ahead = self._windows.ahead(record["position"], begun)
        record["epoch"] = 1 if ahead is None else ahead.epoch
        record["next_fit_round"] = None if ahead is None else ahead.due
        record["number"] = record["round"]
        decision = DecisionRow(*NO_OWNER, **record)
        apply(session, part.row, decision, begun)
        return decision

    def _measurement_record(self, record: Record) -> MeasurementRow:
        part = self._trajectories.of_value(record)
        part.check_value(self.session, record)
        record["covariates"] = covariates_text(self.session, record["covariates"])
        record["number"] = part.row.n_measurements + 1
        value = MeasurementRow(*NO_OWNER, **record)
        apply(self.session, part.row, value)
        return value

    def _void_record(self, record: Record) -> VoidRow:
        refuse_voids(self.session, "record")
        void = VoidRow(*NO_OWNER, **record)
        apply(self.session, self._trajectories.of_void(record), void)
        return void

    def _estimate_record(self, record: Record) -> EstimateRow:
        value, status, manifest = record["estimate"], record["status"], record["manifest"]
        window, session, parent = FitWindow(**manifest["window"]), self.session, self._in_use.number
        is_done = status not in ("failed", "skipped")
        its_status = None if value is None else value["status"]
        check(its_status == (status if is_done else None), "estimate", "not as its status")
        self._check_there(manifest, "manifest.")
        inside = window.first <= window.last <= window.due <= timeline_of(session).n_begun(session)
        is_again = window.due in self._done and manifest["reason"] not in OUT_OF_TURN
        is_new = inside and window.n_lags <= session.horizon and not is_again
        check(is_new, "manifest.window", "not a window of this session, or one that was fitted")
        self._seen = max(self._seen, manifest["measured"])
        (self._failed if status == "failed" else self._done).add(window.due)
        if value is not None:
            self._check_sizes(value, manifest.get("revision", 0))
            if self._in_use.is_left(session, manifest):
                self.agent = build_agent(session, None)
            self.agent.install(Estimate.from_json(value))
            answer = session, session.n_estimates + 1, manifest
            self._in_use = self._in_use.after(*answer, has_direction=status == "ok")
            self.has_state = True
            if self._in_use.number != parent:
                self._installed_due = window.due
        values = {name: record[name] for name in ("status", "reason", "at")}
        for name in ("manifest", "fingerprint", "estimate"):
            values[name] = None if record[name] is None else json.dumps(record[name])
        return counted_fit(session, window, self._in_use.number, **values)

    def _check_there(self, named: Mapping[str, Any], where: str = "") -> None:
        """Check that what a record names is there; the names of its fields begin with `where`."""
        session = self.session
        n_measurements, n_rounds = session.n_measurements, session.n_rounds
        counts = {"measured": n_measurements, "decided": n_rounds, "last_round": n_rounds}
        counts |= {"revision": session.revision, "n_erased": session.n_erased_rows}
        for name, most in counts.items():
            check(named.get(name, 0) <= most, f"{where}{name}", f"there are {most}")

    def _check_sizes(self, value: dict[str, Any], revision: int) -> None:
        """Check the sizes of an estimate of a fit with the options at a revision."""
        session, n_lags, products = self.session, len(value["lag_weights"]), value.get("products")
        is_ok, dim = value["status"] == "ok", session.dim
        pairs = [tuple(pair) for pair in products or ()]
        fits = all(len(pair) == 2 and pair[0] <= pair[1] < dim for pair in pairs)
        fits = fits and len({*pairs}) == len(pairs) <= MOST_PRODUCTS
        check(fits, "estimate.products", "not pairs of the session's features, each once")
        check_shape(value["lag_weights"], "estimate.lag_weights", (min(n_lags, session.horizon),))
        dim += len(pairs)
        check_shape(value["theta"], "estimate.theta", (dim,) if is_ok else ())
        if not is_ok:
            return
        fresh = build_agent(session.at_revision(revision), None)
        every = groups = fresh.covariates.groups
        width, effects = fresh.fitted_dim + len(pairs), value.get("effects") or NO_EFFECTS
        if self.agent.takes_means and len(effects["included"]) < len(groups):
            groups = groups[:-1]  # what all arms share does nothing
        n_effects, n_groups = sum(groups), len(groups)
        drawn, own, forms = (value.get(name) or {} for name in ("candidates", "own", "forms"))
        by_group = own.get("groups") or {"covariance": (), "means": {}, "errors": {}}
        means, errors = by_group["means"], by_group["errors"]
        has_profiles = value.get("form") not in (None, "shared")
        check(means.keys() == errors.keys(), "estimate.own", "one is missing")
        check(not forms or "shared" in forms, "estimate.forms", "one is missing")
        parts: list[tuple[Any, ...]] = [
            (value.get("candidates"), "candidates", (), (len(drawn), dim)),
            (effects["values"], "effects", (n_effects,)),
            *((effects[name], "effects", (n_groups,)) for name in ("included", "share")),
            (own.get("covariance"), "own", (), (dim, dim)),
            (by_group["covariance"], "own", (0,), (dim, dim)),
            *((one, "own", (dim,)) for one in (*means.values(), *errors.values())),
            (value.get("lag_profiles"), "lag_profiles", (n_lags, width) if has_profiles else ()),
            ((value.get("intervals") or {}).get("lag_sums"), "intervals", (), (dim, 3, 2)),
        ]
        for form in forms.values():
            n_own = min(len(form["profiles"]), n_lags)
            parts.append((form["profiles"], "forms", (n_own, width)))
            parts.append((form["effects"], "forms", (1 + n_effects,), (1 + sum(every),)))
        for part, field, *shapes in parts:
            check_shape(part, f"estimate.{field}", *shapes)

    def _sums_record(self, record: Record) -> None:
        session = self.session
        _check_once(has_only_sums(session), self.sums)
        for name in ("settled", "seen"):
            if record[name] is not None:
                record[name] = _sums(record[name], name, self.agent)
        self._check_there(record)
        ends = record["last_round" if closing_of(session).is_by_time else "measured"]
        fits = record["first_round"] <= record["last_round"] and record["n_settled"] <= ends
        check(fits, "n_settled", f"the fit had {ends} rows")
        self.sums = KeptSumsRow(*NO_OWNER, **record)

    def _slots_record(self, record: Record) -> SlotSumsRow:
        record["sums"] = self._trajectories.summed_slots(record)
        return SlotSumsRow(*NO_OWNER, **record)

    def _lift_record(self, record: Record) -> None:
        session, places = self.session, (record["decided"], record["measured"])
        _check_once(session.dropped_to > 0 and session.trial.is_on, self.lift)
        self._check_there(record)
        check(session.dropped_to <= places[0], "decided", "it has no sums of dropped rounds")
        in_time = all(0 <= point[4] <= MOST_SECONDS for point in record["points"])
        check(in_time, "points", "they are of no time")
        sums = {name: record[name] for name in ("n_left_out", "points", "past_to")}
        self._units = LiftSums(shadow=ShadowSums(**record["shadow"]), **sums)
        self.lift = LiftSumsRow(*NO_OWNER, session.trial.since, *places, "")

    def _unit_record(self, record: Record) -> LiftUnitRow:
        session, unit = self.session, LiftUnitRow(*NO_OWNER, **record)
        is_past = unit.block == PAST
        has_lift = self.lift is not None and (0 if is_past else self.lift.since) == unit.since
        check(has_lift, "since", "there is no such comparison")
        place = unit.trajectory, unit.block
        n_rounds = self._trajectories.n_rounds(unit.trajectory)
        n = timeline_of(session).n_begun_of(session, n_rounds)
        last = block_of(unit.trajectory, n, session.horizon)
        has_block = place > self._last_unit and n > 0 and PAST <= unit.block <= last
        check(has_block, "block", "the trajectory has no such block, or had a later one")
        if place[0] != self._last_unit[0]:
            self._past = NOTHING
        self._last_unit, totals = place, totals_of(unit)
        if is_past:
            self._past = totals
        else:
            self._units.move(group_of(session, unit), NO_ROW, row_of(totals, self._past))
        return unit

    def _agent_record(self, record: Record) -> None:
        _check_once(True, self._state)
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
        worked_out = {"open": [], "seen": 0, "n_slots": session.schedule.n_slots}
        schedule = session.schedule = Schedule.load({**header, **worked_out})
        pending = [(f"waiting[{i}]", due) for i, due in enumerate(schedule.waiting)]
        if schedule.current is None:
            for due in schedule.waiting:
                due.retry_at = due.retry_at or 0.0  # start it at once
        else:
            pending.append(("current", schedule.current))
            schedule.current.retry_at = None
        for name, due in pending:
            where = f"session.schedule.{name}"
            self._check_there(due.manifest(), f"{where}.")
            is_done = due.reason not in OUT_OF_TURN and due.key in self._done
            is_open = not is_done and self._installed_due <= due.key
            is_open = is_open and due.key <= timeline_of(session).n_begun(session)
            is_open = is_open and self._windows.knows(due)
            check(is_open, f"{where}.window", "not a window of this schedule, or one that is done")
            self._done.add(due.key)
            self._seen = max(self._seen, due.known.measured)
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
        """Restore what the agent learned since its last fit.

        What an earlier release's agent learned since in a form that is no longer read is left out:
        the agent goes on from its last fit.
        """
        agent = self.agent
        if not agent.learns_within_epoch or self._state is None:
            return
        state, self.line = self._state
        self.kind = "agent"
        if state["version"] < agent.state_version:
            return
        state = {**state, "theta": agent.state()["theta"]}
        check((state.get("lag") or 0) < agent.horizon, "state.lag", "no such lag")
        if "ellipsoid" in state:
            for name, n_axes in (("moment", 1), ("inverse", 2)):
                check_shape(state["ellipsoid"][name], "state.ellipsoid", (agent.dim,) * n_axes)
        try:
            agent = self.agent = build_agent(self.session, state)
            is_same = state == agent.state()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRecord("state", f"{agent.name} cannot read it: {error!r}") from None
        check(is_same, "state", f"not a state of {agent.name}")
        self.has_state = True


def _check_once(is_needed: bool, before: object) -> None:
    """Check that a record is needed, and that there is none of its kind before."""
    fits = is_needed and before is None
    check(fits, "record", "it stands once in a session that needs it, else never")


def _sums(text: str, field: str, agent: Agent) -> bytes:
    from lhb_engine.agents.fit_past import sums_from_bytes  # loads what only fits need

    try:
        data = b64decode(text, validate=True)
        sums_from_bytes(agent, data)
    except (binascii.Error, ValueError) as error:
        raise InvalidRecord(field, str(error)) from None
    return data
