"""Taking rewards. All of them are checked first, and written only if every one is valid."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from lhb_engine.agents import ALGORITHMS
from service.agent_cache import Agents
from service.commands.sessions import find_session, refuse_archived
from service.fits.schedule import after_measurement, is_between_boundaries
from service.problems import Problem, ProblemCode
from service.records import MeasurementRow, SessionKey, SessionRow, TrajectoryKey, TrajectoryRow
from service.storage.ports import Keys
from service.writer.command import Command
from service.writer.round_spans import Spans
from service.writer.unit_of_work import UnitOfWork

FEW = 32
# a reward to write: its trajectory, first round, last round, value, reward id
Planned = tuple[TrajectoryRow, int, int, float, str | None]
Known = tuple[int, int, float]  # first round, last round, value


@dataclass(frozen=True, slots=True)
class Reward:
    """A value, and when it was measured: by round, event id, span of rounds or time."""

    value: float
    trajectory: str
    round: int | None = None
    event_id: str | None = None
    first_round: int | None = None
    last_round: int | None = None
    at: datetime | None = None
    reward_id: str | None = None

    def asked(self) -> tuple[object, ...]:
        """Return every field, for comparison with a repeat."""
        return (
            *(self.value, self.trajectory, self.round, self.event_id),
            *(self.first_round, self.last_round, self.at and self.at.timestamp(), self.reward_id),
        )

    def keys(self, session: SessionKey, keys: Keys) -> None:
        """Add the rows that checking this reward reads."""
        trajectory = (*session, self.trajectory)
        keys.sessions.add(session)
        keys.trajectories.add(trajectory)
        if self.round is not None and self.round > 0:
            keys.rounds.add((trajectory, self.round))
        if self.event_id is not None:
            keys.add_event(trajectory, self.event_id)
        if self.reward_id is not None:
            keys.rewards.add((trajectory, self.reward_id))


@dataclass(frozen=True, slots=True)
class Accepted:
    """How many rewards were new, and how many had been received before."""

    accepted: int
    repeated: int


@dataclass(slots=True)
class Receive(Command[Accepted]):
    """Command: one or several rewards, all or nothing."""

    key: SessionKey
    rewards: list[Reward]
    agents: Agents
    field: str = ""

    def keys(self, keys: Keys) -> None:
        """Add the rows that this command reads."""
        for reward in self.rewards:
            reward.keys(self.key, keys)

    def is_brief(self, uow: UnitOfWork) -> bool:
        """Return whether the command reads and writes only a few rows."""
        session = uow.session(self.key)
        return session is None or (
            is_between_boundaries(session) and are_few(uow, session, self.rewards)
        )

    def __call__(self, uow: UnitOfWork) -> Accepted:
        """Check all rewards, then write them; a Problem leaves nothing written."""
        session = find_session(uow, self.key)
        planned = plan_rewards(uow, session, self.rewards, self.field)
        if planned:
            refuse_archived(session)
        apply_rewards(uow, session, planned, self.agents)
        return Accepted(len(planned), len(self.rewards) - len(planned))


def are_few(uow: UnitOfWork, session: SessionRow, rewards: list[Reward]) -> bool:
    """Return whether storing the rewards is cheap.

    An agent that learns within an epoch takes milliseconds per reward. With several trajectories
    every round of a span is looked up. A reward with a time always needs a read.
    """
    learns = ALGORITHMS[session.algorithm].learns_within_epoch
    if len(rewards) > FEW or learns or (not uow.can_read and any(reward.at for reward in rewards)):
        return False
    return session.n_trajectories == 1 or all(reward.last_round is None for reward in rewards)


def plan_rewards(
    uow: UnitOfWork, session: SessionRow, rewards: list[Reward], field: str
) -> list[Planned]:
    """Check rewards, and return those to write; repeats of earlier ones are left out.

    Raises
    ------
    Problem
        For the first invalid reward; the name of its field begins with `field`.
    """
    planned: list[Planned] = []
    spans: defaultdict[str, Spans[Known]] = defaultdict(Spans)
    ids: dict[tuple[str, str], Known] = {}
    for i, reward in enumerate(rewards):
        prefix = f"{field}[{i}]." if field else ""
        trajectory = uow.trajectory((*session.key, reward.trajectory))
        first, last = _span(uow, session, trajectory, reward, prefix)
        new = (first, last, reward.value)
        known = None
        if reward.reward_id is not None:
            name = (reward.trajectory, reward.reward_id)
            known = ids.get(name) or _received(uow, session, reward)
            if known is not None and known != new:
                raise _id_conflict(known, reward.reward_id, prefix)
            ids[name] = new
        if known is None and session.reward_mode == "single":
            known = spans[trajectory.key].over(first, last) or _measured(
                uow, trajectory, first, last
            )
            if known is not None and known != new:
                raise _conflict(known, first, last, reward, prefix)
        if known is None:
            planned.append((trajectory, *new, reward.reward_id))
            spans[trajectory.key].add(first, last, new)
    return planned


def apply_rewards(
    uow: UnitOfWork, session: SessionRow, planned: list[Planned], agents: Agents
) -> None:
    """Write the planned rewards; update the schedule, and an agent that learns within an epoch."""
    now = uow.now
    learns = ALGORITHMS[session.algorithm].learns_within_epoch
    positions: list[tuple[int, int]] = []
    for trajectory, first, last, value, reward_id in planned:
        trajectory.n_measurements += 1
        trajectory.measured_through = max(trajectory.measured_through, last)
        uow.add_measurement(
            MeasurementRow(
                *(session.tenant, session.id, trajectory.key, first, last),
                *(trajectory.n_measurements, value, reward_id, now),
            )
        )
        uow.save_trajectory(trajectory)
        if learns and first == last:
            agents.observe(uow, session, trajectory, first, value)
        now = max(now, trajectory.last_at)
        positions += _positions(uow, session, trajectory, first, last)
    if planned:
        after_measurement(uow, session, positions, now)


def _span(
    uow: UnitOfWork, session: SessionRow, trajectory: TrajectoryRow, reward: Reward, prefix: str
) -> tuple[int, int]:
    """Return the first and last round that a reward names."""
    key = (*session.key, reward.trajectory)
    if session.reward_mode == "sum":
        if reward.reward_id is None:
            detail = "in sum mode a reward needs a reward_id: without one a retry would add twice"
            raise Problem(ProblemCode.MISSING, detail, f"{prefix}reward_id")
        if reward.first_round is not None:
            detail = "in sum mode values belong to one round; spans need reward_mode single"
            raise Problem(ProblemCode.SPAN_IN_SUM_MODE, detail, f"{prefix}first_round")
    if reward.event_id is not None:
        decision = uow.decision_by_event(key, reward.event_id)
        if decision is None:
            detail = f"no decision has the event id {reward.event_id!r}"
            raise Problem(ProblemCode.UNKNOWN_EVENT, detail, f"{prefix}event_id")
        return decision.round, decision.round
    if reward.at is not None:
        return _round_at(uow, session, key, reward, prefix)
    if reward.round is not None:
        _check_round(trajectory, reward.round, f"{prefix}round")
        return reward.round, reward.round
    assert reward.first_round is not None
    assert reward.last_round is not None
    _check_round(trajectory, reward.first_round, f"{prefix}first_round")
    _check_round(trajectory, reward.last_round, f"{prefix}last_round")
    if reward.last_round < reward.first_round:
        detail = f"last_round {reward.last_round} is before first_round {reward.first_round}"
        raise Problem(ProblemCode.LAST_BEFORE_FIRST, detail, f"{prefix}last_round")
    return reward.first_round, reward.last_round


def _check_round(trajectory: TrajectoryRow, round: int, field: str) -> None:
    if round < 1:
        raise Problem(ProblemCode.UNKNOWN_ROUND, f"rounds count from 1, not {round}", field)
    if round > trajectory.n_rounds:
        detail = f"round {round} has not been decided; the last one is {trajectory.n_rounds}"
        raise Problem(ProblemCode.FUTURE_ROUND, detail, field)


def _round_at(
    uow: UnitOfWork, session: SessionRow, key: TrajectoryKey, reward: Reward, prefix: str
) -> tuple[int, int]:
    if session.reward_mode != "sum":
        detail = "at needs reward_mode sum: a single value belongs to a round or a span"
        raise Problem(ProblemCode.AT_IN_SINGLE_MODE, detail, f"{prefix}at")
    assert reward.at is not None
    at = reward.at.timestamp()
    if reward.reward_id is not None:
        known = uow.measurement_by_id(key, reward.reward_id)
        if known is not None and _was_under_way(uow, key, known, at):
            return known.first_round, known.last_round
    decision = uow.stored.decision_before(key, at)
    if decision is None or at > uow.now + 60:
        detail = "no round was under way at that time"
        raise Problem(ProblemCode.UNKNOWN_ROUND, detail, f"{prefix}at")
    return decision.round, decision.round


def _was_under_way(uow: UnitOfWork, key: TrajectoryKey, known: MeasurementRow, at: float) -> bool:
    """Return whether `at` named the round of `known` when `known` was received.

    A time ahead of the server's clock names the latest round at the moment of receipt. Decisions
    taken after that moment do not change which round it was.
    """
    began = uow.decision_by_round(key, known.first_round)
    ended = uow.decision_by_round(key, known.first_round + 1)
    in_time = began is not None and began.at <= at
    return in_time and (ended is None or ended.at > at or ended.at >= known.at)


def _measured(uow: UnitOfWork, trajectory: TrajectoryRow, first: int, last: int) -> Known | None:
    """Look up a measurement that covers any of these rounds."""
    known = uow.measurement_over(trajectory, first, last)
    return None if known is None else (known.first_round, known.last_round, known.value)


def _received(uow: UnitOfWork, session: SessionRow, reward: Reward) -> Known | None:
    """Look up the measurement of the same reward id."""
    assert reward.reward_id is not None
    known = uow.measurement_by_id((*session.key, reward.trajectory), reward.reward_id)
    return None if known is None else (known.first_round, known.last_round, known.value)


def _id_conflict(known: Known, reward_id: str, prefix: str) -> Problem:
    detail = f"reward {reward_id!r} has the value {known[2]!r} for {_rounds(known)}"
    return Problem(ProblemCode.REWARD_CONFLICT, detail, f"{prefix}reward_id")


def _conflict(known: Known, first: int, last: int, reward: Reward, prefix: str) -> Problem:
    rounds, value = _rounds(known), known[2]
    if known[:2] != (first, last):
        detail = f"there is a value for {rounds} already, {value!r}; it shares a round with this"
        return Problem(ProblemCode.REWARD_CONFLICT, detail, prefix + _span_field(reward))
    detail = f"{rounds} has the value {value!r} already, not {reward.value!r}"
    return Problem(ProblemCode.REWARD_CONFLICT, detail, f"{prefix}value")


def _rounds(known: Known) -> str:
    start, end, _ = known
    return f"round {start}" if start == end else f"rounds {start} to {end}"


def _span_field(reward: Reward) -> str:
    if reward.event_id is not None:
        return "event_id"
    return "round" if reward.round is not None else "first_round"


def _positions(
    uow: UnitOfWork, session: SessionRow, trajectory: TrajectoryRow, first: int, last: int
) -> list[tuple[int, int]]:
    """Return the rounds' positions in the session as ranges, both ends included."""
    if session.reward_mode == "sum" or not session.schedule.open:
        return []
    if session.n_trajectories == 1:
        return [(first, last)]
    key = (*session.key, trajectory.key)
    if first == last:
        decision = uow.decision_by_round(key, first)
        return [] if decision is None else [(decision.position, decision.position)]
    ranges: list[tuple[int, int]] = []
    for position in uow.stored.positions(key, first, last):
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], position)
        else:
            ranges.append((position, position))
    return ranges
