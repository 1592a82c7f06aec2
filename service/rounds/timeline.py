"""The timeline of a session: what its rounds are, as lags and fits count them.

It says which round a decision begins, which rounds a value belongs to, and what has begun. Its two
kinds answer the same calls. This module alone reads which kind a session has.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from typing import Any, ClassVar, TypeAlias

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.context_sets import latest_kept
from lhb_engine.history import FitWindow, Floats, Ints
from lhb_engine.randomness import Draw
from service.base.problems import Problem, ProblemCode
from service.rounds.closing import closing_of
from service.rounds.history import PastByDecision, PastByTime
from service.rounds.retention import Plan, are_in_sums, rounds_in_sums
from service.rounds.reward import Reward
from service.rounds.reward_rounds import (
    check_span,
    decided_rounds,
    field_of_rounds,
    interval_of,
    of_trajectory,
    refuse_given_up,
)
from service.rounds.slot_history import PastBySlot, PastBySlotOfAll
from service.rounds.slot_sums import without_part
from service.session.covariates import covariates_text
from service.session.fit_schedule import Watermark
from service.session.records import (
    DecisionRow,
    MeasurementRow,
    PlayedRound,
    SessionKey,
    SessionRow,
    SlotSumsRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.session.slot_clock import MOST_SLOTS, SlotClock, longest_total
from service.session.trial import Begun
from service.storage.ports import Changes
from service.storage.reader import FOR_EVER, Range, Reader
from service.writer.unit_of_work import UnitOfWork

NAMES = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 604_800: "week"}
AHEAD_SECONDS = 60.0  # by which a client's clock may be ahead of the server's


class ByDecision:
    """Rounds are decisions: a session counts them by position, a trajectory by number."""

    slot_seconds = None
    called = "round"  # in texts

    def time_of(self, at: float | None, now: float, n_begun: int, last_at: float = 0.0) -> float:
        """Return when a decision is taken: now, but times never go back within a trajectory.

        `at` is what the client says, or its log, in Unix seconds; `last_at` that of the
        trajectory's last decision. Raises 422 where the session takes no decision of that time.
        """
        return max(now if at is None else at, last_at)

    def refuse_time(self, asked: float | None, now: float, n_begun: int) -> None:
        """Raise a 422 if a request cannot take a decision of the time that it says."""
        detail = "a decision names its time only in a session with a clock, or in a log"
        raise Problem(ProblemCode.INVALID, detail, "at")

    def n_begun(self, session: SessionRow) -> int:
        """Return how many rounds have begun, as lags and fits count them."""
        return session.n_rounds

    def n_begun_of(self, session: SessionRow, n_rounds: int) -> int:
        """Return how many rounds have begun, as a trajectory with `n_rounds` decisions has them."""
        return n_rounds

    def begin(self, session: SessionRow, n: int) -> None:
        """Note in a session's state that `n` rounds have begun."""

    def save_begun(self, uow: UnitOfWork, session: SessionRow) -> None:
        """Save a session's row where its schedule has the number of rounds that have begun."""

    def begun(self, session: SessionRow) -> Begun:
        """Return what a comparison that begins now leaves out."""
        return Begun(session.n_rounds, session.n_measurements)

    def begun_by(self, position: int, at: float) -> int:
        """Return the number of the round that a decision begins: its position in the session."""
        return position

    def begun_with(self, session: SessionRow, last: int) -> int:
        """Return how many rounds have begun once a value of rounds up to `last` is in."""
        return session.n_rounds

    def begun_next(self, session: SessionRow) -> float:
        """Return how many rounds may have begun after one more decision or reward, at most."""
        return session.n_rounds + 1

    def begins(self, round: int) -> float | None:
        """Return when a round begins, in Unix seconds; None where a decision begins it."""
        return None

    def widths(self, widths: Sequence[int]) -> Sequence[int]:
        """Return those of some widths of bins, in seconds, that cut no round in two."""
        return widths

    def days(self, n: float, n_measured: int, n_rounds: int) -> tuple[str, float | None]:
        """Return in how many days `n` blocks come, in words, and how many measured rounds a day.

        A block has `n_measured` of `n_rounds` rounds. Without a clock nobody knows.
        """
        return "", None

    def passed(self, due: int, n_begun: int) -> int:
        """Return after which round the fit that follows the one due after `due` is looked for."""
        return due

    def visited(
        self, session: SessionRow, after: int, times: Floats, received: Floats, lasts: Ints
    ) -> tuple[int, list[int]]:
        """Return after which round windows that are not done are due, and what `n_begun` was since.

        All are, of those due after `after`, where there are no numbers. `times` are of decisions,
        `received` those of values, `lasts` their last rounds.
        """
        return after, []

    def epoch(self, session: SessionRow, agent: Agent, begun: int) -> tuple[int, int | None]:
        """Return a round's epoch, and after which round its fit is due; None in the last epoch."""
        windows = session.schedule.open
        if not windows:
            return 1, None
        window = windows[-1].window
        return (window.epoch, window.due) if window.due >= begun else (window.epoch + 1, None)

    def draw(self, seed: int, trajectory: str, round: int, position: int, at: float) -> Draw:
        """Return the randomness of a decision."""
        return Draw(seed, trajectory, round, position, round)

    def covariates_of_decision(
        self, session: SessionRow, values: Mapping[str, float] | None
    ) -> str | None:
        """Return what a decision's row stores of given covariates; None if there are none.

        Raises 422: the session has no such covariate, or its decisions have none.
        """
        return covariates_text(session, values)

    def refuse_log(self, *, has_times: bool) -> None:
        """Raise a 422 if a log of rounds cannot be appended."""

    def logged(self, reward: Reward, at: float, told: dict[str, float]) -> tuple[Reward, float]:
        """Return the reward of a log's decision at a time, and when it came.

        `told` are the covariates of the log's round.
        """
        return reward, at

    def logged_covariates(self, told: dict[str, float]) -> dict[str, float]:
        """Return those covariates of a log's round that its decision has."""
        return told

    rounds_of = staticmethod(decided_rounds)
    refuse_given_up = staticmethod(refuse_given_up)

    def n_before(self, session: SessionRow) -> int:
        """Return how many rounds of a trajectory stay before one whose reward may come."""
        n, stretch = 2 * session.horizon, session.kind.sizes.stretch(session.horizon)
        return n + stretch if session.options.get("levels") else n

    to_give_up, still_given_up = staticmethod(rounds_in_sums), staticmethod(are_in_sums)

    def check_rounds(
        self, dim: int, trajectory: TrajectoryRow, rounds: tuple[int, int], at: float, to: str
    ) -> None:
        """Raise a 409 or 422 if a value that came `at` a time cannot be of these rounds."""
        check_span(trajectory, *rounds, "")

    def is_late(self, trajectory: TrajectoryRow, last: int) -> bool:
        """Return whether a value of rounds up to `last` comes after its trajectory's next round."""
        return last < trajectory.n_rounds

    def last_round(self, trajectory: TrajectoryRow) -> int:
        """Return a trajectory's last round."""
        return trajectory.n_rounds

    def is_measured(self, trajectory: TrajectoryRow, begun: int) -> bool:
        """Return False: a decision begins its round."""
        return False

    def n_missing(self, n_rounds: int, n_measured: int) -> int | None:
        """Return how many of a trajectory's rounds lack a value; None where they never have one."""
        return n_rounds - n_measured

    def refuse_erasing(self, trajectory: str) -> None:
        """Raise a 422 if a trajectory cannot be erased."""

    def erased(self, session: SessionRow, n_rounds: int, n_left: int) -> int:
        """Return how many rounds of a trajectory an erasure takes; `n_left` of them have rows."""
        return n_left

    def without(self, reader: Reader, session: SessionRow, trajectory: str) -> Changes:
        """Return what erasing a trajectory changes of the session's summed rounds."""
        return Changes()

    def without_decision(
        self, reader: Reader, session: SessionRow, decision: DecisionRow
    ) -> Changes:
        """Return what voiding a decision changes of the session's summed rounds.

        Raises 409 round_dropped where these can never be summed anew.
        """
        return Changes()

    def past(
        self,
        reader: Reader,
        session: SessionRow,
        window: FitWindow,
        mark: Watermark | None,
        *,
        takes_kept: bool,
    ) -> PastByDecision:
        """Return what a fit reads, given what it may know; `takes_kept`: sums of rounds, too."""
        if mark is not None and closing_of(session).is_by_time:
            return PastByTime(reader, session, window, mark)
        return PastByDecision(reader, session, window, mark)

    def positions_of(self, window: FitWindow, mark: Watermark) -> tuple[int, int]:
        """Return the first and the last position whose decision a fit may know."""
        return window.first, window.last

    def n_unread(self, n_rounds: int) -> int | None:
        """Return how many rounds a trajectory has of which a file has values and no decision.

        It says that it has `n_rounds`. None: there is no such trajectory.
        """
        return None

    def has_slots(self, session: SessionRow) -> bool:
        """Return whether sums of slots stand for dropped decisions."""
        return False

    def has_sums(self, session: SessionRow, place: tuple[int, int], *, of_estimate: bool) -> bool:
        """Return whether a file has the sums of what is dropped: `of_estimate`, the one in use.

        `place` is the last slot of its sums of slots, and the position of the last decision there.
        """
        return of_estimate

    def overdue_said(self, windows: Sequence[Any], *, is_whole: bool) -> Sequence[Any]:
        """Return what a file says of open windows, unless rows, if the file `is_whole`, say it."""
        return () if is_whole else windows

    def n_gone(self, gaps: Ints, window: FitWindow) -> int:
        """Return how many positions of missing decisions may be in a window."""
        return int(np.ptp(np.searchsorted(gaps, (window.first, window.last + 1))))

    def n_earlier(self, session: SessionRow, n_lags: int, n_rounds: int) -> int:
        """Return how many earlier decisions the last `n_rounds` rounds have as lags, at most."""
        n_before = min(n_lags - 1, session.n_rounds - n_rounds)
        return min(n_before * min(session.n_trajectories, n_rounds), session.n_rounds - n_rounds)

    def is_one(self, session: SessionRow) -> bool:
        """Return whether all rounds are of one sequence, so that only blocks compare."""
        return session.n_trajectories == 1

    def played(
        self, reader: Reader, session: SessionRow, ranges: list[Range]
    ) -> Iterable[PlayedRound]:
        """Return what a comparison reads of ranges of rounds, which rewards are of."""
        return reader.played_in(session.key, ranges, session.n_rounds)

    def taken(
        self, reader: Reader, session: SessionKey, first: int, last: int
    ) -> list[tuple[int, float, bool | None]]:
        """Return number and time of each round, and whether it explored."""
        return reader.taken(session, first, last)

    def arrivals(
        self, reader: Reader, session: SessionKey, first: int, last: int
    ) -> list[tuple[float, bool]]:
        """Return how many seconds after its round each value came, and whether it was late."""
        return reader.arrivals(session, first, last)

    def lags_passed(self, session: SessionRow, rounds: Ints, times: Floats, last: int) -> Ints:
        """Return how many lags have passed since decisions of a trajectory up to its `last` round.

        `rounds` and `times` are those of the decisions; a decision's own round counts.
        """
        return last - rounds + 1

    def values_of(
        self, reader: Reader, key: TrajectoryKey, first: int, last: int
    ) -> Iterable[MeasurementRow]:
        """Return the values of a trajectory's decisions from round `first` to round `last`."""
        return reader.measurements(key, first, last)


@dataclass(frozen=True, slots=True)
class BySlot:
    """Rounds are slots of time (docs/model.md (9.1)); a reward is a total of some that are over.

    Its methods are those of `ByDecision`. Decisions are stored as on the other timeline, each with
    its own `round` and position; their slot follows from their time. Measurements are over slots.
    Fits, and the schedule of fits, count slots.
    """

    clock: SlotClock
    kind_of_past: ClassVar[type[PastBySlot]] = PastBySlot

    @property
    def slot_seconds(self) -> int:
        """The length of a slot."""
        return self.clock.slots.seconds

    @property
    def called(self) -> str:
        """What texts call a slot."""
        return NAMES.get(self.slot_seconds, f"slot of {self.slot_seconds} s")

    def time_of(self, at: float | None, now: float, n_begun: int, last_at: float = 0.0) -> float:
        """Return when the client says, or now; where slots are settled then, the end of these."""
        slots, settled = self.clock.slots, self.clock.settled(n_begun)
        if at is None:
            return max(now, slots.begin(settled + 1))
        slot = slots.at(at)
        if not 1 <= slot <= MOST_SLOTS:
            which = "before the session's first" if slot < 1 else "after its last"
            raise Problem(ProblemCode.OUT_OF_RANGE, f"it is {which} slot", "at")
        if at > now + AHEAD_SECONDS:
            raise Problem(ProblemCode.OUT_OF_RANGE, "it is ahead of the server's clock", "at")
        if slot <= settled:
            detail = f"it is too late: slot {n_begun} has begun, and clock.late_slots is"
            raise Problem(ProblemCode.OUT_OF_RANGE, f"{detail} {self.clock.late_slots}", "at")
        return max(min(at, now), slots.begin(settled + 1))

    refuse_time = time_of

    def n_begun(self, session: SessionRow) -> int:
        """Return how many slots have begun, those of erased decisions and totals included."""
        return session.schedule.n_slots

    def n_begun_of(self, session: SessionRow, n_rounds: int) -> int:
        """Return how many slots have begun: all trajectories have the same."""
        return session.schedule.n_slots

    def begin(self, session: SessionRow, n: int) -> None:
        """Note how many slots have begun in the schedule."""
        session.schedule.n_slots = n

    def save_begun(self, uow: UnitOfWork, session: SessionRow) -> None:
        """Save the row: its schedule has the number of slots."""
        uow.save(session)

    def begun(self, session: SessionRow) -> Begun:
        """Return what is left out, with the slots that have begun: the last is not over."""
        n = session.schedule.n_slots
        return Begun(
            session.n_rounds, session.n_measurements, n, max(n - 1, 0), ("live",), ("shadow",)
        )

    def begun_by(self, position: int, at: float) -> int:
        """Return the slot of a time."""
        return self.clock.slots.at(at)

    def begun_with(self, session: SessionRow, last: int) -> int:
        """Return the slot after the value's: a total is of slots that are over."""
        return max(session.schedule.n_slots, last + 1)

    def begun_next(self, session: SessionRow) -> float:
        """Return infinity: any number of slots may have passed."""
        return inf

    def begins(self, round: int) -> float | None:
        """Return when a slot begins."""
        return self.clock.slots.begin(round)

    def widths(self, widths: Sequence[int]) -> Sequence[int]:
        """Return that of a slot, and those of whole slots."""
        slot = self.slot_seconds
        return [slot, *(width for width in widths if width > slot and width % slot == 0)]

    def days(self, n: float, n_measured: int, n_rounds: int) -> tuple[str, float | None]:
        """Return both by the length of a slot."""
        a_day = n_measured / (n_rounds * self.slot_seconds / 86_400.0)
        return f", in {n * n_measured / a_day:.3g} days", a_day

    def passed(self, due: int, n_begun: int) -> int:
        """Return the slot before the latest: of boundaries passed in silence there is one fit."""
        return max(due, n_begun - 1)

    def visited(
        self, session: SessionRow, after: int, times: Floats, received: Floats, lasts: Ints
    ) -> tuple[int, list[int]]:
        """Return the slots of decisions, and those after totals, as long as windows wait."""
        at = np.concatenate([[0.0], times, received])
        begun = np.concatenate([[0], self.clock.slots.at_each(times), lasts + 1])
        order = np.argsort(at, kind="stable")
        at, begun = at[order], np.maximum.accumulate(begun[order])
        n = self.n_begun(session)
        if begun[-1] < n:  # who began the latest slot is erased
            return n - 1, []
        latest = at[np.argmax(begun)] - session.reward_wait_seconds
        before = np.searchsorted(at, latest, "right") - 1
        rounds: list[int] = np.unique(begun[max(0, before) :]).tolist()
        return rounds[0] - 1, rounds

    def epoch(self, session: SessionRow, agent: Agent, begun: int) -> tuple[int, int | None]:
        """Return those of the agent's next window from the decision's slot on."""
        window = agent.next_fit(begun - 1)
        return (1, None) if window is None else (window.epoch, window.due)

    def draw(self, seed: int, trajectory: str, round: int, position: int, at: float) -> Draw:
        """Return the randomness of a decision in its slot."""
        slot = self.clock.slots.at(at)
        return Draw(seed, trajectory, round, slot, slot)

    def covariates_of_decision(
        self, session: SessionRow, values: Mapping[str, float] | None
    ) -> str | None:
        """Refuse known covariates, too: a slot has many decisions."""
        text = covariates_text(session, values)
        if text is None:
            return None
        detail = "with a clock, covariates come with rewards: sums over the rounds of each"
        raise Problem(ProblemCode.INVALID, detail, "covariates")

    def refuse_log(self, *, has_times: bool) -> None:
        """Refuse a log that does not say into which slots its decisions fall."""
        if not has_times:
            raise Problem(ProblemCode.INVALID, "with a clock a log says when: give at", "at")

    def logged(self, reward: Reward, at: float, told: dict[str, float]) -> tuple[Reward, float]:
        """Return the total of the decision's slot, which came at its end."""
        slots = self.clock.slots
        ends = [slots.begin(slot) for slot in (slots.at(at), slots.at(at) + 1)]
        since, until = (datetime.fromtimestamp(end, UTC) for end in ends)
        total = replace(reward, round=None, since=since, until=until, covariates=told)
        return total, float(ends[1])

    def logged_covariates(self, told: dict[str, float]) -> dict[str, float]:
        """Return none: covariates come with totals."""
        return {}

    def rounds_of(
        self,
        uow: UnitOfWork,
        session: SessionRow,
        trajectory: TrajectoryRow,
        reward: Reward,
        prefix: str,
    ) -> tuple[int, int]:
        """Return the slots of a total."""
        if reward.since is None:
            detail = "in a session with a clock a reward is a total of slots: give from and to"
            field = "at" if reward.at is not None else field_of_rounds(reward)
            raise Problem(ProblemCode.INVALID, detail, prefix + field)
        self._refuse_trajectory(trajectory, prefix)
        rounds = self._between(*interval_of(reward, uow.now, prefix), prefix)
        self.check_rounds(session.dim, trajectory, rounds, uow.now, f"{prefix}to")
        return rounds

    def refuse_given_up(
        self, uow: UnitOfWork, session: SessionRow, trajectory: str, first: int, field: str
    ) -> None:
        """Refuse none: totals may come for slots long past."""

    def n_before(self, session: SessionRow) -> int:
        """Return 0: rewards are of slots, whose sums stay."""
        return 0

    def to_give_up(
        self, reader: Reader, session: SessionRow, to: int, until: float, now: float
    ) -> Plan | None:
        """Return the decisions of slots whose sums are kept: slots and their totals stay."""
        fit = reader.installed(session)  # coming ones read no earlier context sets
        decided = 0 if fit is None else fit.inputs["decided"]
        sets = latest_kept(decided, session.kind.sizes.latest)
        place = self.clock.slots.at(until) - 1, min(to, sets[0] - 1 if sets else 0)
        row = reader.last_slot_sums(session.key, *place)
        return None if row is None else Plan(row.decided, 0, 0)

    def still_given_up(self, reader: Reader, session: SessionRow, found: Plan, now: float) -> bool:
        """Return whether the sums are still there: a void, or an erasure, takes some away."""
        row = reader.last_slot_sums(session.key, FOR_EVER, found.dropped_to)
        return row is not None and row.decided == found.dropped_to

    def check_rounds(
        self, dim: int, trajectory: TrajectoryRow, rounds: tuple[int, int], at: float, to: str
    ) -> None:
        """Check whose total it is, that its slots are over, and that they are not too many."""
        (first, last), most = rounds, longest_total(dim)
        self._refuse_trajectory(trajectory, "")
        if not first <= last <= MOST_SLOTS or self.clock.slots.begin(last + 1) > at:
            detail = f"no total is of slots {first} to {last}: they are not over"
            raise Problem(ProblemCode.INTERVAL_OPEN, detail, to)
        if last - first >= most:
            detail = f"a total of this session is over at most {most} slots: a fit has them all"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, to)

    def _refuse_trajectory(self, trajectory: TrajectoryRow, prefix: str) -> None:
        if trajectory.n_decisions == 0:
            detail = f"no decision was taken{of_trajectory(trajectory.key) or ' yet'}"
            raise Problem(ProblemCode.FUTURE_ROUND, detail, f"{prefix}trajectory")

    def _between(self, since: float, until: float, prefix: str) -> tuple[int, int]:
        start, seconds = self.clock.slots.start, self.clock.slots.seconds
        bounds = self.clock.slots.between(since, until)
        if bounds is None:
            ends = zip(("from", "to"), (since, until), strict=True)
            cut = (name for name, end in ends if (end - start) % seconds)
            detail = f"an interval begins and ends with a slot, of {seconds} s"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, prefix + next(cut))
        if bounds[0] < 1:
            detail = "it is before the session's first slot"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, f"{prefix}from")
        return bounds

    def is_late(self, trajectory: TrajectoryRow, last: int) -> bool:
        """Return False: every total comes when its slots are over."""
        return False

    def last_round(self, trajectory: TrajectoryRow) -> int:
        """Return the last slot that is measured."""
        return trajectory.measured_through

    def is_measured(self, trajectory: TrajectoryRow, begun: int) -> bool:
        """Return whether a decision falls into a slot whose total came."""
        return begun <= trajectory.measured_through

    def n_missing(self, n_rounds: int, n_measured: int) -> int | None:
        """Return None: values are of slots, not of a trajectory's decisions."""
        return None

    def refuse_erasing(self, trajectory: str) -> None:
        """Refuse none."""

    def erased(self, session: SessionRow, n_rounds: int, n_left: int) -> int:
        """Count dropped rounds as dropped no more, as they leave the sums of slots; return all."""
        session.n_dropped_rounds -= n_rounds - n_left
        return n_rounds

    def without(self, reader: Reader, session: SessionRow, trajectory: str) -> Changes:
        """Return the changes: the trajectory's summed slots go.

        The default trajectory's rows say where stretches end: of these the sums go.
        """
        if trajectory:
            return Changes(erased_slots=[(*session.key, trajectory)])
        rows, changes = self._summed(reader, session, trajectory)
        changes.slot_sums = [row._replace(sums=b"") for row in rows.values()]
        return changes

    def _summed(
        self, reader: Reader, session: SessionRow, trajectory: str
    ) -> tuple[dict[int, SlotSumsRow], Changes]:
        """Return a trajectory's summed slots whose decisions are dropped, by their last slot.

        And the changes by which all that are not go, and those of the trajectory.
        """
        key, dropped = session.key, reader.summed_for_good(session)
        rows = reader.slot_sums_in(key, [(trajectory, 1, dropped)], dropped)
        gone = Changes(dropped_slots=[(key, dropped + 1)], erased_slots=[(*key, trajectory)])
        return {row.last_slot: row for row in rows}, gone

    def without_decision(
        self, reader: Reader, session: SessionRow, decision: DecisionRow
    ) -> Changes:
        """Return that summed slots from the decision's on go."""
        slot = self.clock.slots.at(decision.at)
        if slot <= reader.summed_for_good(session):
            detail = f"decisions of its slot, {slot}, are dropped, and what they add up to stays"
            raise Problem(ProblemCode.ROUND_DROPPED, detail, "event_id")
        return Changes(dropped_slots=[(session.key, slot)])

    def past(
        self,
        reader: Reader,
        session: SessionRow,
        window: FitWindow,
        mark: Watermark | None,
        *,
        takes_kept: bool,
    ) -> PastBySlot:
        """Return what a fit reads of slots."""
        return self.kind_of_past(reader, session, self.clock, window, mark, takes_kept)

    def positions_of(self, window: FitWindow, mark: Watermark) -> tuple[int, int]:
        """Return the first and the last position of decisions up to the watermark."""
        return 1, mark.decided

    def n_unread(self, n_rounds: int) -> int | None:
        """Return what the trajectory says: all its decisions may be dropped."""
        return n_rounds or None

    def has_slots(self, session: SessionRow) -> bool:
        """Return whether decisions are dropped."""
        return session.dropped_to > 0

    def has_sums(self, session: SessionRow, place: tuple[int, int], *, of_estimate: bool) -> bool:
        """Return whether there are sums of all slots whose decisions are dropped."""
        last, decided = place
        settled = self.clock.settled(session.schedule.n_slots)
        return decided == session.dropped_to and last <= settled

    def overdue_said(self, windows: Sequence[Any], *, is_whole: bool) -> Sequence[Any]:
        """Return all windows: no row says when those of late decisions were overdue."""
        return windows

    def n_gone(self, gaps: Ints, window: FitWindow) -> int:
        """Return all: they were decisions of whatever slot."""
        return len(gaps)

    def n_earlier(self, session: SessionRow, n_lags: int, n_rounds: int) -> int:
        """Return all: any decision may have been in these slots, or in their lags."""
        return session.n_rounds

    def is_one(self, session: SessionRow) -> bool:
        """Return whether there is one trajectory."""
        return session.n_trajectories == 1

    def played(
        self, reader: Reader, session: SessionRow, ranges: list[Range]
    ) -> Iterable[PlayedRound]:
        """Return the slots that one group played, which no decision says.

        Everybody's decisions of a slot fall to its group, so a total needs no decision to be read.
        """
        trial, horizon = session.trial, session.horizon
        slots = ((name, at) for name, first, last in ranges for at in range(first, last + 1))
        return (
            PlayedRound(*slot, FOR_EVER, "agent", 0, 0, None, None, None, None)
            for slot in slots
            if trial.counts(slot[1], horizon)
        )

    def taken(
        self, reader: Reader, session: SessionKey, first: int, last: int
    ) -> list[tuple[int, float, bool | None]]:
        """Return number and time of each slot; none explored."""
        begin = self.clock.slots.begin
        return [(slot, float(begin(slot)), None) for slot in range(first, last + 1)]

    def arrivals(
        self, reader: Reader, session: SessionKey, first: int, last: int
    ) -> list[tuple[float, bool]]:
        """Return none: totals are asked for, and do not come."""
        return []

    def lags_passed(self, session: SessionRow, rounds: Ints, times: Floats, last: int) -> Ints:
        """Return how many slots have begun from each decision's on."""
        return self.n_begun(session) - self.clock.slots.at_each(times) + 1

    def values_of(
        self, reader: Reader, key: TrajectoryKey, first: int, last: int
    ) -> Iterable[MeasurementRow]:
        """Return none: values are of slots (GET .../series has them)."""
        return ()


class BySlotOfAll(BySlot):
    """Slots whose rewards are totals over all trajectories together.

    These are one for the agent: they explore in step, as their contexts add up.
    """

    __slots__ = ()
    kind_of_past = PastBySlotOfAll

    def draw(self, seed: int, trajectory: str, round: int, position: int, at: float) -> Draw:
        """Return the same randomness for all trajectories."""
        slot = self.clock.slots.at(at)
        return Draw(seed, "", position, slot, slot)

    def is_one(self, session: SessionRow) -> bool:
        """Return True: totals are of all trajectories."""
        return True

    def n_unread(self, n_rounds: int) -> int | None:
        """Return what is said of the trajectory: totals need no decision in it."""
        return n_rounds

    def _refuse_trajectory(self, trajectory: TrajectoryRow, prefix: str) -> None:
        if trajectory.key:
            detail = 'its rewards are totals over all trajectories (clock.totals is "all")'
            raise Problem(ProblemCode.INVALID, detail, f"{prefix}trajectory")

    def refuse_erasing(self, trajectory: str) -> None:
        """Refuse the default trajectory, which has the totals of all."""
        if not trajectory:
            detail = "the totals of all trajectories are stored under this key"
            raise Problem(ProblemCode.INVALID, detail, "key")

    def without(self, reader: Reader, session: SessionRow, trajectory: str) -> Changes:
        """Return the changes: the summed slots of all go.

        The trajectory is taken out of those whose decisions are dropped.
        """
        parts, found = self._summed(reader, session, trajectory)
        ranges = [("", last, last) for last in parts]
        rows = reader.slot_sums_in(session.key, ranges, reader.summed_for_good(session))
        found.slot_sums = [without_part(row, parts[row.last_slot], session) for row in rows]
        return found


Timeline: TypeAlias = ByDecision | BySlot
Past: TypeAlias = PastByDecision | PastBySlot
BY_DECISION = ByDecision()


@lru_cache(maxsize=256)
def _by_slot(clock: SlotClock) -> BySlot:
    return BySlotOfAll(clock) if clock.is_of_all else BySlot(clock)


def timeline_of(session: SessionRow) -> Timeline:
    """Return the timeline of a session."""
    return BY_DECISION if session.clock is None else _by_slot(session.clock)


def in_rounds(session: SessionRow, text: str) -> str:
    """Return a text in which rounds are called what they are: hours where a slot is an hour."""
    called = timeline_of(session).called
    several, one = (
        re.sub(r"^\w+", r"\g<0>s", called),
        f"{'an' if called == 'hour' else 'a'} {called}",
    )
    words = {"rounds": several, "a round": one, "round": called}
    return re.sub(r"\b(a round|rounds?)\b", lambda match: words[match[0]], text)
