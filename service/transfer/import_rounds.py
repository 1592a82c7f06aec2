"""The rounds of an imported session: what was chosen and measured in each trajectory."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from service.commands.rewards import refuse_corrections
from service.rounds.closing import closing_of
from service.rounds.reward import Reward
from service.rounds.reward_rounds import check_span, may_be_late
from service.rounds.timeline import timeline_of
from service.session.kept_contexts import may_be_kept, refuse_too_many
from service.session.names import after_choice
from service.session.records import SessionRow, TrajectoryRow
from service.session.slot_clock import MOST_SLOTS, longest_total
from service.session.trial import played_again
from service.transfer.import_records import check
from service.writer.unit_of_work import Spans

Record = dict[str, Any]


@dataclass(slots=True)
class FileTrajectory:
    """The records of one trajectory so far: its counters, and arrays over its rounds.

    The last three are arrays over its measurements: their positions, and their first and last
    rounds; a correction's first round is 0 there.
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
    first_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    last_rounds: "array[int]" = field(default_factory=lambda: array("q"))
    totals: Spans[None] = field(default_factory=Spans)  # the slots that have one, with a clock
    late: int = 0  # `MeasurementRow.late` of its last value that came late; 0: none did

    def add_decision(self, session: SessionRow, record: Record) -> None:
        """Check and count the trajectory's next decision."""
        n, at, event_id = self.row.n_rounds, record["at"], record["client_event_id"]
        check(record["round"] == n + 1, "round", f"after round {n} comes {n + 1}")
        in_order = not self.positions or self.positions[-1] < record["position"]
        check(in_order, "position", "out of order")
        if session.clock is None:
            check(self.row.last_at <= at, "at", "time goes back")
        else:
            slot = session.clock.slots.at(at)
            check(1 <= slot <= MOST_SLOTS, "at", "before the session's first slot")
            session.schedule.n_slots = max(session.schedule.n_slots, slot)
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
        session.count_decision(self.row, at)
        if session.names.repetition:
            context = array("d", record["context"]).tobytes()
            self.row.lately = after_choice(session.names, self.row.lately, context, session.dim)

    def add_value(self, session: SessionRow, record: Record) -> None:
        """Check and count the trajectory's next measurement."""
        first, last, position = record["first_round"], record["last_round"], record["position"]
        reward_id, replaces = record["reward_id"], record["replaces"]
        check(reward_id not in self.reward_ids, "reward_id", "it stands twice")
        in_order = not self.arrivals or self.arrivals[-1] < position
        check(in_order, "position", "out of order")
        if replaces is not None:
            said = Reward(record["value"], self.row.key, replaces="", reward_id=reward_id)
            refuse_corrections(session, said, "")
            i = bisect_left(self.arrivals, replaces)
            is_known = i < len(self.arrivals) and self.arrivals[i] == replaces
            is_known = is_known and (self.first_rounds[i], self.last_rounds[i]) == (first, last)
            check(is_known, "replaces", "no value of the same rounds has that position")
        elif session.clock is not None:
            self._add_total(session, record)
        else:
            self._add_rounds(session, record)
        if "late" in record:
            self._add_late(session, record)
        if reward_id is not None:
            self.reward_ids.add(reward_id)
        self.arrivals.append(position)
        self.first_rounds.append(0 if replaces is not None else first)
        self.last_rounds.append(last)
        session.count_value(self.row, last)

    def _add_late(self, session: SessionRow, record: Record) -> None:
        """Check where sums take in a value, by the rules of `late_place`, and take note of it."""
        first, last, late = record["first_round"], record["last_round"], record["late"]
        begun = self.positions[first - 1 - self.n_before] if first > self.n_before else 0
        fits = may_be_late(session, (first, last), record["covariates"], late - 1, begun)
        check(fits and self.late <= late, "late", "the value has its place elsewhere")
        self.late = late

    def _add_rounds(self, session: SessionRow, record: Record) -> None:
        """Check the rounds of a value by the rules of a reward, and take note of them."""
        first, last, closing = record["first_round"], record["last_round"], closing_of(session)
        check_span(self.row, first, last, "")
        alone = {} if first == last else {"first_round": first}
        closing.refuse(Reward(0.0, self.row.key, reward_id=record["reward_id"], **alone), "")
        places = slice(max(first - 1 - self.n_before, 0), max(last - self.n_before, 0))
        is_new = closing.adds_up or 1 not in self.is_measured[places]
        check(is_new, "first_round", "it overlaps another measurement")
        self.is_measured[places] = b"\1" * (places.stop - places.start)

    def _add_total(self, session: SessionRow, record: Record) -> None:
        """Check the slots of a total, and take note of them."""
        clock, first, last = session.clock, record["first_round"], record["last_round"]
        assert clock is not None
        check(first <= last, "last_round", "it is before first_round")
        is_over = last <= MOST_SLOTS and clock.slots.begin(last + 1) <= record["at"]
        check(is_over, "last_round", "that slot was not over")
        most = longest_total(session.dim)
        check(last - first < most, "last_round", f"a total is over at most {most} slots")
        is_whose = not clock.is_of_all or self.row.key == ""
        check(is_whose, "trajectory", "totals are of all trajectories together")
        check(self.totals.over(first, last) is None, "first_round", "it overlaps another total")
        self.totals.add(first, last, None)
        session.schedule.n_slots = max(session.schedule.n_slots, last + 1)


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
    if by not in (None, "caller"):
        _check_group(session, record)
    if record["contexts"] is not None:
        _check_contexts(session, record)


def _check_group(session: SessionRow, record: Record) -> None:
    """Check who played a round: its group, and what control draws, follow from the seed."""
    by, arm, n_arms = record["played_by"], record["arm"], len(record["scores"])
    check(by == "agent" or session.trial.share > 0, "played_by", "there is no holdout")
    place = record["trajectory"], record["round"], record["position"], record["at"]
    draw = timeline_of(session).draw(session, *place)
    play = played_again(session.trial, draw, session.horizon, n_arms, arm, by)
    check(play.by == by, "played_by", f"this round falls to {play.by}")
    if by != "agent":
        check(play.arm == arm, "arm", f"{by} draws {play.arm}")
        check(play.propensity == record["propensity"], "propensity", "not as it was drawn")


def _check_contexts(session: SessionRow, record: Record) -> None:
    """Check the contexts of all arms."""
    contexts, arm, dim = record["contexts"], record["arm"], session.dim
    kept = may_be_kept(session, len(contexts), record["position"])
    check(kept, "contexts", "the session does not keep them")
    check(arm is not None, "contexts", "a round without action has none")
    fits = len(contexts) == len(record["scores"]) and all(len(one) == dim for one in contexts)
    check(fits, "contexts", f"it is not one list of {dim} numbers for each arm")
    refuse_too_many(session, len(contexts))
    check(contexts[arm] == record["context"], "contexts", "that of the arm is another")
