"""The timeline on which each slot of time is a round (docs/model.md (9.1)).

Decisions are stored as on the other timeline, each with its own `round` and position; their slot
follows from their time. Measurements are over slots. Fits, and the schedule of fits, count slots.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow, Floats, Ints
from lhb_engine.randomness import Draw
from service.base.problems import Problem, ProblemCode
from service.rounds.reward import Reward
from service.rounds.reward_rounds import (
    field_of_rounds,
    interval_of,
    of_trajectory,
)
from service.rounds.slot_history import PastBySlot
from service.session.covariates import covariates_text
from service.session.records import (
    DecisionRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.session.schedule_records import Watermark
from service.session.slot_clock import SlotClock, longest_total
from service.storage.ports import Changes
from service.storage.reader import Reader
from service.writer.unit_of_work import UnitOfWork

NAMES = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 604_800: "week"}
AHEAD_SECONDS = 60.0  # by which a client's clock may be ahead of the server's


@dataclass(frozen=True, slots=True)
class BySlot:
    """Rounds are slots of time, and a reward is a total of some that are over.

    Its methods are those of `ByDecision`.
    """

    clock: SlotClock

    @property
    def seconds(self) -> int:
        """Of a slot."""
        return self.clock.slots.seconds

    @property
    def called(self) -> str:
        """What texts call a slot."""
        return NAMES.get(self.seconds, f"slot of {self.seconds} s")

    @property
    def is_of_all(self) -> bool:
        """Whether a reward is a total over all trajectories together, not one of its trajectory."""
        return self.clock.is_of_all

    def time_of(self, asked: float | None, now: float, n_begun: int, last_at: float = 0.0) -> float:
        """Return when the client says, or now; where slots are settled then, the end of these."""
        slots, settled = self.clock.slots, self.clock.settled(n_begun)
        if asked is None:
            return max(now, slots.begin(settled + 1))
        slot = slots.at(asked)
        if slot < 1:
            raise Problem(ProblemCode.OUT_OF_RANGE, "it is before the session's first slot", "at")
        if asked > now + AHEAD_SECONDS:
            raise Problem(ProblemCode.OUT_OF_RANGE, "it is ahead of the server's clock", "at")
        if slot <= settled:
            detail = f"it is too late: slot {n_begun} has begun, and clock.late_slots is"
            raise Problem(ProblemCode.OUT_OF_RANGE, f"{detail} {self.clock.late_slots}", "at")
        return max(min(asked, now), slots.begin(settled + 1))

    def n_begun(self, session: SessionRow) -> int:
        """Return how many slots have begun, those of erased decisions and totals included."""
        return session.schedule.n_slots

    def n_slots(self, session: SessionRow) -> int | None:
        """Return how many slots have begun."""
        return session.schedule.n_slots

    def begun_by(self, position: int, at: float) -> int:
        """Return the slot of a time."""
        return self.clock.slots.at(at)

    def begun_with(self, session: SessionRow, last: int) -> int:
        """Return the slot after the value's: a total is of slots that are over."""
        return max(session.schedule.n_slots, last + 1)

    def begun_next(self, session: SessionRow) -> float:
        """Return infinity: any number of slots may have passed."""
        return inf

    def begin(self, uow: UnitOfWork, session: SessionRow, n: int) -> bool:
        """Raise the session's number of slots, unless as many had begun before."""
        if n <= session.schedule.n_slots:
            return False
        session.schedule.n_slots = n
        uow.save(session)
        return True

    def begins(self, round: int) -> float | None:
        """Return when a slot begins."""
        return self.clock.slots.begin(round)

    def passed(self, due: int, n_begun: int) -> int:
        """Return the slot before the latest: of boundaries passed in silence there is one fit."""
        return max(due, n_begun - 1)

    def opened_after(self, installed: int, ended: set[int], changed: int) -> int:
        """Return the last slot after which a fit has ended: windows that it passed are gone."""
        return max({installed, *ended})

    def epoch(self, session: SessionRow, agent: Agent, begun: int) -> tuple[int, int | None]:
        """Return those of the agent's next window from the decision's slot on."""
        window = agent.next_fit(begun - 1)
        return (1, None) if window is None else (window.epoch, window.due)

    def draw(
        self, session: SessionRow, trajectory: str, round: int, position: int, at: float
    ) -> Draw:
        """Return the randomness of a decision in its slot.

        Where a reward is a total over all trajectories, they are one for the agent: they explore in
        step, as their contexts add up.
        """
        slot = self.clock.slots.at(at)
        if self.is_of_all:
            return Draw(session.seed, "", position, position, slot)
        return Draw(session.seed, trajectory, round, position, slot)

    def covariates_of_decision(
        self, session: SessionRow, given: Mapping[str, float] | None
    ) -> str | None:
        """Refuse known covariates, too: a slot has many decisions."""
        if covariates_text(session, given) is None:
            return None
        detail = "with a clock, covariates come with rewards: sums over the rounds of each"
        raise Problem(ProblemCode.INVALID, detail, "covariates")

    def has_values_alone(self, trajectory: str) -> bool:
        """Return whether the trajectory is the default one: totals of all are stored there."""
        return trajectory == ""

    def refuse_log(self) -> None:
        """Refuse every log."""
        detail = "a log is of rounds, not of slots; send its decisions with forced_arm and at"
        raise Problem(ProblemCode.INVALID, detail, "contexts")

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
        if self.is_of_all and reward.trajectory:
            detail = 'its rewards are totals over all trajectories (clock.totals is "all")'
            raise Problem(ProblemCode.INVALID, detail, f"{prefix}trajectory")
        if not self.is_of_all and trajectory.n_decisions == 0:
            detail = f"no decision was taken{of_trajectory(reward.trajectory) or ' yet'}"
            raise Problem(ProblemCode.FUTURE_ROUND, detail, f"{prefix}trajectory")
        first, last = self._between(*interval_of(reward, uow.now, prefix), prefix)
        most = longest_total(session.dim)
        if last - first >= most:
            detail = f"a total of this session is over at most {most} slots: a fit has them all"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, f"{prefix}to")
        return first, last

    def _between(self, since: float, until: float, prefix: str) -> tuple[int, int]:
        start, seconds = self.clock.slots.start, self.clock.slots.seconds
        found = self.clock.slots.between(since, until)
        if found is None:
            ends = zip(("from", "to"), (since, until), strict=True)
            cut = (name for name, end in ends if (end - start) % seconds)
            detail = f"an interval begins and ends with a slot, of {seconds} s"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, prefix + next(cut))
        if found[0] < 1:
            detail = "it is before the session's first slot"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, f"{prefix}from")
        return found

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
        """Refuse the default trajectory where it has the totals of all."""
        if self.is_of_all and not trajectory:
            detail = "the totals of all trajectories are stored under this key"
            raise Problem(ProblemCode.INVALID, detail, "key")

    def without(self, reader: Reader, session: SessionRow, trajectory: str) -> Changes:
        """Return the changes: the trajectory's summed slots go, or the summed slots of all.

        Those whose decisions are dropped stay, where they are sums over all trajectories.
        """
        if trajectory and not self.is_of_all:
            return Changes(erased_slots=[(*session.key, trajectory)])
        dropped = reader.summed_for_good(session)
        found = Changes(dropped_slots=[(session.key, dropped + 1)])
        if not self.is_of_all:  # its rows say where stretches end
            rows = reader.slot_sums_in(session.key, [(trajectory, 1, dropped)], dropped)
            found.slot_sums = [row._replace(sums=b"") for row in rows]
        return found

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
        known: Watermark | None,
        *,
        takes_kept: bool,
    ) -> PastBySlot:
        """Return what a fit reads of slots."""
        return PastBySlot(reader, session, self.clock, window, known, takes_kept)

    def positions_of(self, window: FitWindow, known: Watermark) -> tuple[int, int]:
        """Return the first and the last position of decisions up to the watermark."""
        return 1, known.decided

    def n_gone(self, gaps: Ints, window: FitWindow) -> int:
        """Return all: they were decisions of whatever slot."""
        return len(gaps)

    def n_earlier(self, session: SessionRow, n_lags: int, n_rounds: int) -> int:
        """Return all: any decision may have been in these slots, or in their lags."""
        return session.n_rounds

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
