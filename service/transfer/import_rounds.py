"""The rounds of an imported session: what was chosen and measured in each trajectory.

An event is checked by the rules of a request, where there is one, and then applied as one. Where
rows are dropped, each trajectory has a record of its own, with counters that nothing else tells.
"""

from array import array
from base64 import b64decode
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lhb_engine.history import Ints
from service.commands.rewards import refuse_corrections
from service.fits.rebuilt_schedule import Rounds
from service.rounds.closing import closing_of
from service.rounds.reward import Reward
from service.rounds.reward_rounds import may_be_late
from service.rounds.stored_rows import n_given
from service.rounds.timeline import timeline_of
from service.session.kept_contexts import may_be_kept, refuse_too_many
from service.session.records import SessionRow, TrajectoryRow
from service.session.trial import played_again
from service.transfer.import_records import COUNTERS, check, check_record
from service.writer.unit_of_work import Spans

Record = dict[str, Any]
NO_OWNER = ("", "")  # the command that writes a row knows its tenant and its session


@dataclass(slots=True)
class FileTrajectory:
    """The records of one trajectory so far: its counters, and arrays over its rounds.

    `arrivals` are the positions of its measurements, `received` their times, `first_rounds` and
    `last_rounds` their rounds; a correction's first round is 0 there.
    """

    row: TrajectoryRow
    n_before: int = 0  # rounds that are dropped; the arrays begin after them
    positions: "array[int]" = field(default_factory=lambda: array("q"))
    times: "array[float]" = field(default_factory=lambda: array("d"))
    is_measured: bytearray = field(default_factory=bytearray)  # one byte per round
    model_version: int = 0
    event_ids: set[str] = field(default_factory=set)
    reward_ids: set[str] = field(default_factory=set)
    arrivals: "array[int]" = field(default_factory=lambda: array("q"))
    received: "array[float]" = field(default_factory=lambda: array("d"))
    first_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    last_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    totals: Spans[None] = field(default_factory=Spans)  # slots that have one
    late: int = 0  # `MeasurementRow.late` of its last value that came late; 0: none did

    def check_decision(self, session: SessionRow, record: Record) -> None:
        """Check the trajectory's next decision, and take note of it."""
        n, at, event_id = self.row.n_rounds, record["at"], record["client_event_id"]
        check(record["round"] == n + 1, "round", f"after round {n} comes {n + 1}")
        in_order = not self.positions or self.positions[-1] < record["position"]
        check(in_order, "position", "out of order")
        taken_at = timeline_of(session).time_of(at, at, 0, self.row.last_at)
        check(taken_at == at, "at", "time goes back")
        check(self.model_version <= record["model_version"], "model_version", "versions go back")
        check(event_id not in self.event_ids, "client_event_id", "it stands twice")
        fits = (record["digest"] is None) == (event_id is None)
        check(fits, "digest", "a digest belongs to a client's event id")
        _check_choice(session, record)
        self.positions.append(record["position"])
        self.times.append(at)
        self.is_measured.append(0)
        self.model_version = record["model_version"]
        if event_id is not None:
            self.event_ids.add(event_id)

    def check_value(self, session: SessionRow, record: Record) -> None:
        """Check the trajectory's next measurement, and take note of it."""
        first, last, position = record["first_round"], record["last_round"], record["position"]
        reward_id, replaces = record["reward_id"], record["replaces"]
        check(reward_id not in self.reward_ids, "reward_id", "it stands twice")
        in_order = not self.arrivals or self.arrivals[-1] < position
        check(in_order, "position", "out of order")
        if replaces is None:
            place = (first, last), record["at"], "last_round"
            timeline_of(session).check_rounds(session.dim, self.row, *place)
            alone = {} if first == last else {"first_round": first}
            reward = Reward(0.0, self.row.key, reward_id=reward_id, **alone)
            closing_of(session).refuse(reward, "")
            places = slice(max(first - 1 - self.n_before, 0), max(last - self.n_before, 0))
            takes = closing_of(session).takes((first, last), self.is_measured, places, self.totals)
            check(takes, "first_round", "it overlaps another measurement")
        else:
            reward = Reward(0.0, self.row.key, replaces="", reward_id=reward_id)
            refuse_corrections(session, reward, "")
            i = bisect_left(self.arrivals, replaces)
            is_known = i < len(self.arrivals) and self.arrivals[i] == replaces
            is_known = is_known and (self.first_rounds[i], self.last_rounds[i]) == (first, last)
            check(is_known, "replaces", "no value of the same rounds has that position")
        if "late" in record:  # where sums take in the value: see `late_place`
            late, i = record["late"], first - 1 - self.n_before
            begun = self.positions[i] if 0 <= i < len(self.positions) else 0
            fits = may_be_late(session, (first, last), record["covariates"], late - 1, begun)
            check(fits and self.late <= late, "late", "the value has its place elsewhere")
            self.late = late
        if reward_id is not None:
            self.reward_ids.add(reward_id)
        self.arrivals.append(position)
        self.received.append(record["at"])
        self.first_rounds.append(0 if replaces is not None else first)
        self.last_rounds.append(last)


class Trajectories:
    """All trajectories of a file, and the positions of what is in them."""

    def __init__(self, session: SessionRow) -> None:
        self._session = session
        self._known: dict[str, FileTrajectory] = {}
        self._declared: dict[str, TrajectoryRow] = {}  # where rounds are dropped
        self._voids: dict[tuple[str, int], int] = {}  # positions, by trajectory and round
        self._ends: list[tuple[int, int]] = []  # of summed slots: the last one, and `decided`
        gone = session.n_dropped_rounds, session.swept_to, session.n_dropped_complete
        fits = all(n <= session.dropped_to for n in gone)
        fits = fits and session.n_dropped_complete <= session.n_dropped_rounds
        check(fits, "session.dropped_to", "more is dropped than that")

    def declare(self, record: Record) -> None:
        """Take note of a trajectory's counters, of which dropped rows tell nothing."""
        if not self._session.dropped_to:
            return
        check_record({"trajectory": record}, COUNTERS)
        check(record["key"] not in self._declared, "key", "it stands twice")
        row = TrajectoryRow(*NO_OWNER, **{**record, "n_decisions": record["n_rounds"]})
        if "lately" in record:
            check(len(record["lately"]) == self._session.dim, "lately", "not of this dim")
            row.lately = array("d", record["lately"]).tobytes()
        self._declared[row.key] = row

    def n_rounds(self, name: str) -> int:
        """Return how many rounds a declared trajectory has, 0 if there is none."""
        return self._declared[name].n_rounds if name in self._declared else 0

    def of_decision(self, name: str, round: int) -> FileTrajectory:
        """Return a decision's trajectory; it begins after the rounds that are dropped."""
        if name in self._known:
            return self._known[name]
        drops = self._session.dropped_to > 0
        check(not drops or name in self._declared, "trajectory", "it has no record of its own")
        return self._begin(name, round - 1 if drops else 0)

    def _begin(self, name: str, n: int = 0) -> FileTrajectory:
        row = TrajectoryRow(*NO_OWNER, name, n_decisions=n, n_rounds=n)
        part = self._known[name] = FileTrajectory(row, n)
        return part

    def of_value(self, record: Record) -> FileTrajectory:
        """Return a measurement's trajectory; where some are dropped, its number is the file's."""
        name, session = record["trajectory"], self._session
        part = self._known.get(name)
        if part is None:
            n = timeline_of(session).n_unread(self.n_rounds(name))
            check(n is not None, "trajectory", "no decision was taken in it")
            part = self._begin(name, n or 0)
        if session.dropped_to:
            number, n = record.get("number"), part.row.n_measurements
            check(type(number) is int and n < number <= 2**53, "number", f"after {n} comes another")
            part.row.n_measurements = int(number or 1) - 1
        return part

    def of_void(self, record: Record) -> TrajectoryRow:
        """Check a void decision, and return its trajectory."""
        name, place = record["trajectory"], (record["trajectory"], record["round"])
        part = self._known.get(name)
        row = TrajectoryRow(*NO_OWNER, name, 0, self.n_rounds(name)) if part is None else part.row
        check(record["round"] <= row.n_rounds, "round", "that round has not been decided")
        check(place not in self._voids, "round", "it is void already")
        self._voids[place] = record["position"]
        return row

    def summed_slots(self, record: Record) -> bytes:
        """Check summed slots whose decisions are dropped, and return the bytes of the sums."""
        session, name, last = self._session, record["trajectory"], record["last_slot"]
        ends, decided = self._ends, record["decided"]
        check(
            timeline_of(session).has_slots(session), "record", "no decisions of slots are dropped"
        )
        if not name:
            before = (ends or [(0, 0)])[-1]
            in_order = before[0] < last and before[1] <= decided <= session.dropped_to
            check(in_order, "last_slot", "out of order")
            ends.append((last, decided))
        place = bisect_left(ends, (last, decided))
        is_whose = ends[place : place + 1] == [(last, decided)]
        is_whose = is_whose and (not name or name in self._declared)
        check(is_whose, "trajectory", "there are no such slots")
        data, begun = b64decode(record["sums"], validate=True), ends[place - 1][0] if place else 0
        sums = np.frombuffer(data).reshape(-1, 1 + n_given(session))
        slots = sums[:, 0]
        in_order = np.all(np.diff(slots, prepend=begun, append=last + 1) > 0)
        fits = np.all(np.isfinite(sums)) and np.all(slots == np.floor(slots)) and in_order
        check(bool(fits), "sums", "they are not of these slots")
        return data

    def rounds(self) -> Rounds:
        """Merge the rounds of all trajectories; their positions are 1 to n, but for those gone."""
        parts, n = [*self._known.values()], self._session.n_rounds
        positions = np.concatenate([np.zeros(0, np.int64), *(one.positions for one in parts)])
        order = np.argsort(positions)
        _check_positions(positions[order], n)
        at = np.concatenate([np.zeros(0), *(one.times for one in parts)])
        followed = [np.append(np.asarray(one.times)[1:], np.inf) for one in parts]
        marks = b"".join(one.is_measured for one in parts)
        return Rounds(
            positions[order],
            at[order],
            np.concatenate([np.zeros(0), *followed])[order],
            np.frombuffer(marks, np.bool_)[order],
            np.concatenate([np.zeros(0), *(one.received for one in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(one.last_rounds for one in parts)]),
        )

    def check_arrivals(self) -> None:
        """Check that values and void decisions have positions 1 to n, but for those gone."""
        arrivals = [np.array(part.arrivals, np.int64) for part in self._known.values()]
        together = np.concatenate([np.array([*self._voids.values()], np.int64), *arrivals])
        _check_positions(np.sort(together), self._session.n_measurements)
        late = max((part.late for part in self._known.values()), default=0)
        check(late <= self._session.n_rounds + 1, "late", "there are not as many rounds")

    def rows(self, *, has_sums: bool) -> list[TrajectoryRow]:
        """Return the rows of all trajectories, with what is dropped; `has_sums`: of the latter."""
        session = self._session
        if not session.dropped_to:
            return [part.row for part in self._known.values()]
        place = (self._ends or [(0, 0)])[-1]
        has_sums = timeline_of(session).has_sums(session, place, of_estimate=has_sums)
        check(has_sums, "session.dropped_to", "there are no sums of the estimate in use")
        n_gone = n_less = 0
        for name, row in self._declared.items():
            part = self._known.get(name) or self._begin(name, row.n_rounds)
            there, last = part.row, timeline_of(session).n_begun_of(session, row.n_rounds)
            check(there.n_rounds == row.n_rounds, "n_rounds", "not as many are there")
            fits = there.measured_through <= row.measured_through <= last
            fits = fits and there.n_measurements <= row.n_measurements
            check(fits, "n_measurements", "fewer than there are")
            n_gone += part.n_before
            n_less += row.n_measurements - len(part.arrivals)
            row.last_at = max(there.last_at, row.last_at)
            row.lately = row.lately or there.lately
        # those of a trajectory that was erased later count, too, and have no record
        check(n_gone <= session.n_dropped_rounds, "session.n_dropped_rounds", f"{n_gone} are")
        fits = n_less <= session.n_dropped_measurements
        check(fits, "session.n_dropped_measurements", f"{n_less} are")
        rows = [*self._declared.values()]
        session.n_trajectories = sum(row.n_decisions > 0 for row in rows)
        return rows


def _check_choice(session: SessionRow, record: Record) -> None:
    """Check the fields of a decision that say what was chosen, how and by whom."""
    arm, dim, n_arms = record["arm"], len(record["context"]), len(record["scores"])
    check(len(record.get("own", [0.0] * dim)) == dim, "own", "not as the context")
    acted, is_chosen = arm is not None, arm is not None and not record["forced"]
    check(dim == (session.dim if acted else 0), "context", f"it has {dim} numbers")
    mean = record.get("mean") or record["context"]
    check(len(mean) == dim, "mean", "not as the context")
    check(arm < n_arms if acted else n_arms == 0, "arm" if acted else "scores", "no such arm")
    check(acted or record["arm_id"] is None, "arm_id", "a round without action has none")
    check(acted or not record["forced"], "forced", "a round without action is not forced")
    by, agent_arm = record["played_by"], record["agent_arm"]
    is_drawn = acted and by in ("control", "guard")
    fits = is_drawn or (record["propensity"] is not None) == is_chosen
    check(fits, "propensity", "there is one exactly where the agent chose")
    check(by is None or session.trial.is_on, "played_by", "there is no trial")
    fits = by is None or (by == "agent") == (not record["forced"]) or not acted
    check(fits, "played_by", "not as the choice")
    check((agent_arm is None) == (by is None or not acted), "agent_arm", "not as played_by")
    fits = agent_arm is None or (agent_arm == arm if by == "agent" else agent_arm < n_arms)
    check(fits, "agent_arm", "no such arm")
    check(is_chosen or not record["explored"], "explored", "the agent did not choose")
    if by not in (None, "caller"):  # its group, and what control draws, follow from the seed
        check(by == "agent" or session.trial.share > 0, "played_by", "there is no holdout")
        place = record["trajectory"], record["round"], record["position"], record["at"]
        draw = timeline_of(session).draw(session.seed, *place)
        play = played_again(session.trial, draw, session.horizon, n_arms, arm, by)
        check(play.by == by, "played_by", f"this round falls to {play.by}")
        if by != "agent":
            check(play.arm == arm, "arm", f"{by} draws {play.arm}")
            check(play.propensity == record["propensity"], "propensity", "not as it was drawn")
    contexts = record["contexts"]
    if contexts is not None:
        kept = may_be_kept(session, len(contexts), record["position"])
        check(kept, "contexts", "the session does not keep them")
        check(acted, "contexts", "a round without action has none")
        fits = len(contexts) == n_arms and all(len(one) == session.dim for one in contexts)
        check(fits, "contexts", f"it is not one list of {session.dim} numbers for each arm")
        refuse_too_many(session, len(contexts))
        check(contexts[arm] == record["context"], "contexts", "that of the arm is another")


def _check_positions(positions: Ints, n: int) -> None:
    """Check that sorted positions are among 1 to n, each of them at most once.

    They are as many as there must be, so that they are all where nothing is erased.
    """
    fits = (np.diff(positions, prepend=0, append=n + 1) > 0).all()
    check(bool(fits), "position", f"the positions are not 1 to {n}")
