"""The rounds of an imported session: what was chosen and measured in each trajectory.

An event is checked by the rules of a request, where there is one, and then applied as one. Where
rows are dropped, each trajectory has a record of its own, with counters that nothing else tells.
"""

from array import array
from base64 import b64decode
from bisect import bisect_left
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from lhb_engine.agents import Choice
from lhb_engine.history import Ints
from service.commands.rewards import refuse_corrections
from service.fits.rebuilt_schedule import Rounds
from service.rounds.closing import closing_of
from service.rounds.reward import Reward
from service.rounds.reward_rounds import check_round, may_be_late
from service.rounds.stored_rows import n_given
from service.rounds.timeline import timeline_of
from service.session.kept_contexts import may_be_kept, refuse_too_many
from service.session.records import SessionRow, TrajectoryRow
from service.session.trial import Shown, shown_again
from service.transfer.import_records import InvalidRecord, check, check_shape
from service.writer.unit_of_work import Spans

Record = dict[str, Any]
NO_SCORES = np.zeros(0)
shown_in = itemgetter(*Shown._fields)
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
        at, version = record["at"], record["model_version"]
        check(record["round"] == self.row.n_rounds + 1, "round", "not the next one")
        taken_at = timeline_of(session).time_of(at, at, 0, self.row.last_at)
        check(taken_at == at, "at", "time goes back")
        check(self.model_version <= version, "model_version", "versions go back")
        fits = (record["digest"] is None) == (record["client_event_id"] is None)
        check(fits, "digest", "a digest belongs to a client's event id")
        _check_choice(session, record)
        _follow(record, self.positions, "client_event_id", self.event_ids)
        self.times.append(at)
        self.is_measured.append(0)
        self.model_version = version

    def check_value(self, session: SessionRow, record: Record) -> None:
        """Check the trajectory's next measurement, and take note of it."""
        first, last, replaces = record["first_round"], record["last_round"], record["replaces"]
        of_round, reward_id = {} if first == last else {"first_round": first}, record["reward_id"]
        if replaces is None:
            place = (first, last), record["at"], "last_round"
            timeline_of(session).check_rounds(session.dim, self.row, *place)
            closing_of(session).refuse(Reward(0.0, "", reward_id=reward_id, **of_round), "")
            places = slice(max(first - 1 - self.n_before, 0), max(last - self.n_before, 0))
            takes = closing_of(session).takes((first, last), self.is_measured, places, self.totals)
            check(takes, "first_round", "it overlaps another measurement")
        else:
            refuse_corrections(session, Reward(0.0, "", replaces="", reward_id=reward_id), "")
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
        _follow(record, self.arrivals, "reward_id", self.reward_ids)
        self.received.append(record["at"])
        self.first_rounds.append(0 if replaces is not None else first)
        self.last_rounds.append(last)


def _follow(record: Record, positions: "array[int]", name: str, ids: set[str]) -> None:
    """Check that a record follows all before, and that its id of this name is new; note both."""
    position, id = record["position"], record[name]
    check(not positions or positions[-1] < position, "position", "out of order")
    check(id not in ids, name, "it stands twice")
    positions.append(position)
    if id is not None:
        ids.add(id)


class Trajectories:
    """All trajectories of a file, and the positions of what is in them."""

    def __init__(self, session: SessionRow) -> None:
        self._session = session
        self._known: dict[str, FileTrajectory] = {}
        self._declared: dict[str, TrajectoryRow] = {}  # where rounds are dropped
        self._voids: dict[tuple[str, int], int] = {}  # positions, by trajectory and round
        self._ends: list[tuple[int, int]] = []  # of summed slots: the last one, and `decided`
        n, most = session.n_dropped_rounds, session.dropped_to
        fits = max(n, session.swept_to) <= most and session.n_dropped_complete <= n
        check(fits, "session.dropped_to", "more is dropped than that")

    def declare(self, record: Record) -> None:
        """Take note of a trajectory's counters, of which dropped rows tell nothing."""
        if not self._session.dropped_to:
            return
        check(record["key"] not in self._declared, "key", "it stands twice")
        row = TrajectoryRow(*NO_OWNER, **{**record, "n_decisions": record["n_rounds"]})
        if "lately" in record:
            check_shape(record["lately"], "lately", (self._session.dim,))
            row.lately = array("d", record["lately"]).tobytes()
        self._declared[row.key] = row

    def n_rounds(self, name: str) -> int:
        """Return how many rounds a trajectory has, 0 if there is none."""
        row = self._known[name].row if name in self._known else self._declared.get(name)
        return 0 if row is None else row.n_rounds

    def of_decision(self, name: str, round: int) -> FileTrajectory:
        """Return a decision's trajectory; it begins after the rounds that are dropped."""
        part = self._known.get(name)
        if part is not None:
            return part
        drops = self._session.dropped_to > 0
        return self._begin(name, (round - 1 if name in self._declared else None) if drops else 0)

    def _begin(self, name: str, n: int | None) -> FileTrajectory:
        """Begin the records of a trajectory after n rounds that have none; None: it cannot be."""
        check(n is not None, "trajectory", "no decision was taken in it, or it has no record")
        row = TrajectoryRow(*NO_OWNER, name, n_decisions=n or 0, n_rounds=n or 0)
        part = self._known[name] = FileTrajectory(row, n or 0)
        return part

    def of_value(self, record: Record) -> FileTrajectory:
        """Return a measurement's trajectory; where some are dropped, its number is the file's."""
        name, session = record["trajectory"], self._session
        part = self._known.get(name)
        if part is None:
            part = self._begin(name, timeline_of(session).n_unread(self.n_rounds(name)))
        if session.dropped_to:
            number, n = record.get("number"), part.row.n_measurements
            check(type(number) is int and n < number <= 2**53, "number", f"after {n} comes another")
            part.row.n_measurements = int(number or 1) - 1
        return part

    def of_void(self, record: Record) -> TrajectoryRow:
        """Check a void decision, and return its trajectory."""
        place = name, round = record["trajectory"], record["round"]
        part = self._known.get(name)
        row = TrajectoryRow(*NO_OWNER, name, 0, self.n_rounds(name)) if part is None else part.row
        check_round(row, round, "round")
        check(place not in self._voids, "round", "it is void already")
        self._voids[place] = record["position"]
        return row

    def summed_slots(self, record: Record) -> bytes:
        """Check summed slots whose decisions are dropped, and return the bytes of the sums."""
        session, name, last = self._session, record["trajectory"], record["last_slot"]
        ends, decided = self._ends, record["decided"]
        if not name:
            before = (ends or [(0, 0)])[-1]
            in_order = before[0] < last and before[1] <= decided <= session.dropped_to
            in_order = in_order and timeline_of(session).has_slots(session)
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
            there, n = part.row, timeline_of(session).n_begun_of(session, part.row.n_rounds)
            row.n_rounds = row.n_decisions = there.n_rounds
            row.n_measurements = max(there.n_measurements, row.n_measurements)
            row.measured_through = min(max(there.measured_through, row.measured_through), n)
            row.last_at = max(there.last_at, row.last_at)
            row.lately = row.lately or there.lately
            n_gone += part.n_before
            n_less += row.n_measurements - len(part.arrivals)
        # those of a trajectory that was erased later count, too, and have no record
        for name, n in (("n_dropped_rounds", n_gone), ("n_dropped_measurements", n_less)):
            check(n <= getattr(session, name), f"session.{name}", f"{n} are")
        rows = [*self._declared.values()]
        session.n_trajectories = sum(row.n_decisions > 0 for row in rows)
        return rows


def _check_choice(session: SessionRow, record: Record) -> None:
    """Check the fields of a decision that say what was chosen, how and by whom."""
    contexts, n_arms, choice = record["contexts"], len(record["scores"]), None
    said: Any = Shown(*shown_in(record))
    if said.arm is None:
        for name in ("context", "scores", "arm_id", "own", "mean"):
            check(not record.get(name), name, "a round without action has none")
    else:
        by_agent = "arm" if said.played_by is None else "agent_arm"
        for name in ("arm", by_agent):
            check(record[name] is not None and record[name] < n_arms, name, "no such arm")
        for name in ("context", "own", "mean"):
            fits = name not in record or len(record[name]) == session.dim
            check(fits, name, f"not {session.dim} numbers")
        is_told = said.forced or said.propensity is not None
        check(is_told, "propensity", "there is one where the agent chose")
        choice = Choice(record[by_agent], NO_SCORES, said.propensity, said.explored)
    place = record["trajectory"], record["round"], record["position"], record["at"]
    draw = timeline_of(session).draw(session.seed, *place)
    again = shown_again(session.trial, draw, session.horizon, n_arms, said, choice)
    if again != said:
        name, now = next(one for one in again._asdict().items() if one[1] != record[one[0]])
        raise InvalidRecord(name, f"by the session's seed and who played it is {now!r}")
    if contexts is not None:
        kept = may_be_kept(session, len(contexts), record["position"])
        check(kept, "contexts", "the session does not keep them")
        refuse_too_many(session, len(contexts))
        fits = len(contexts) == n_arms and all(len(one) == session.dim for one in contexts)
        fits = fits and choice is not None and contexts[said.arm] == record["context"]
        check(fits, "contexts", "not one context for each arm, with that which was chosen")


def _check_positions(positions: Ints, n: int) -> None:
    """Check that sorted positions are among 1 to n, each of them at most once.

    They are as many as there must be, so that they are all where nothing is erased.
    """
    fits = (np.diff(positions, prepend=0, append=n + 1) > 0).all()
    check(bool(fits), "position", f"the positions are not 1 to {n}")
