"""Taking rewards. All of them are checked first, and written only if every one is valid.

A correction is a value that replaces an earlier one of the same rounds; both stay in the log. The
next fit uses the later one. A fit whose manifest ends before it is repeated with the earlier one,
because a manifest names rows by position.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from service.base.problems import Problem, ProblemCode
from service.commands.sessions import find_session, refuse_archived
from service.fits.when_due import after_measurement, begin_rounds, fit_unread, is_between_boundaries
from service.rounds.closing import closing_of
from service.rounds.events import apply
from service.rounds.reward import Reward
from service.rounds.reward_rounds import field_of_rounds, late_place, of_trajectory
from service.rounds.timeline import timeline_of
from service.session.covariates import covariates_text
from service.session.records import MeasurementRow, SessionKey, SessionRow, TrajectoryRow
from service.session.rules import has_only_sums
from service.storage.ports import Keys
from service.writer.agent_cache import Agents
from service.writer.command import SessionCommand
from service.writer.large_writes import refuse_erasing
from service.writer.unit_of_work import Spans, UnitOfWork

MAX_BRIEF_REWARDS = 32
Planned = list[tuple[TrajectoryRow, MeasurementRow]]  # rewards to write, in order


class Accepted(NamedTuple):
    """How many rewards were new, and how many had been received before."""

    accepted: int
    repeated: int


@dataclass(slots=True)
class ReceiveRewards(SessionCommand[Accepted]):
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
            is_between_boundaries(session) and are_brief(uow, session, self.rewards)
        )

    def __call__(self, uow: UnitOfWork) -> Accepted:
        """Check all rewards, then write them; a Problem leaves nothing written."""
        session = find_session(uow, self.key)
        planned = plan_rewards(uow, session, self.rewards, self.field)
        if planned:
            refuse_archived(session)
        apply_rewards(uow, session, planned, self.agents)
        return Accepted(len(planned), len(self.rewards) - len(planned))


def are_brief(uow: UnitOfWork, session: SessionRow, rewards: list[Reward]) -> bool:
    """Return whether storing the rewards is cheap.

    An agent that learns within an epoch takes milliseconds per reward. With several trajectories
    every round of a span is looked up. A reward with a time or an interval always needs a read.
    """
    if len(rewards) > MAX_BRIEF_REWARDS or session.kind.learns_within_epoch:
        return False
    if not uow.can_read and any(one.is_correction or one.at or one.since for one in rewards):
        return False
    return session.is_one_sequence or all(
        reward.last_round is None and reward.since is None for reward in rewards
    )


def plan_rewards(
    uow: UnitOfWork, session: SessionRow, rewards: list[Reward], field: str, first: int = 0
) -> Planned:
    """Check rewards, and return those to write; repeats of earlier ones are left out.

    Raises what is wrong with the first invalid reward; the name of its field begins with `field`,
    and the number of the reward, from `first` on.
    """
    planned: Planned = []
    timeline, closing, owner = timeline_of(session), closing_of(session), session.key
    spans: defaultdict[str, Spans[MeasurementRow]] = defaultdict(Spans)
    ids: dict[tuple[str, str], MeasurementRow] = {}
    n_planned: defaultdict[str, int] = defaultdict(int)  # of each trajectory
    for i, reward in enumerate(rewards, first):
        prefix = f"{field}[{i}]." if field else ""
        refuse_erasing(session, reward.trajectory)
        key, reward_id = (*owner, reward.trajectory), reward.reward_id
        trajectory, own = uow.trajectory(key), spans[reward.trajectory]
        number = trajectory.n_measurements + n_planned[reward.trajectory] + 1
        place, corrects = (number, session.n_measurements + len(planned) + 1), reward.is_correction
        if corrects:
            new = _corrected(uow, session, reward, place, own, ids, prefix)
            rounds = new.rounds
        else:
            closing.refuse(reward, prefix)
            rounds = timeline.rounds_of(uow, session, trajectory, reward, prefix)
            text = covariates_text(session, reward.covariates, prefix)
            row = *key, *rounds, *place, reward.value, reward_id, uow.now, None, text, None
            new = MeasurementRow._make(row)  # by its fields it takes twice as long
        earlier = None
        if reward_id is not None:
            name = (reward.trajectory, reward_id)
            earlier = ids.get(name) or uow.measurement_by_id(key, reward_id)
            if earlier is not None and corrects and reward.covariates is None:
                new = new._replace(covariates=earlier.covariates)  # those that it kept
            if earlier is not None and not earlier.is_repeated_by(new):
                raise _id_conflict(earlier, reward, prefix)
            ids[name] = earlier or new
        if earlier is None and not closing.adds_up and not corrects:
            earlier = own.over(*rounds) or _measured(uow, trajectory, new)
            if earlier is not None and not earlier.is_repeated_by(new):
                raise _conflict(earlier, reward, rounds, prefix)
        if earlier is None:
            at = prefix + ("replaces" if reward.replaces else field_of_rounds(reward))
            timeline_of(session).refuse_given_up(
                uow, session, reward.trajectory, new.first_round, at
            )
            if corrects and has_only_sums(session) and new.root <= session.schedule.seen:
                detail = "a fit has learned from the value, and the session drops rows: "
                raise Problem(ProblemCode.NO_CORRECTIONS, f"{detail}it cannot forget it", at)
            late = late_place(uow, session, new)
            planned.append((trajectory, new if late is None else new._replace(late=late)))
            n_planned[reward.trajectory] += 1
            own.add(*rounds, new)
    return planned


def apply_rewards(uow: UnitOfWork, session: SessionRow, planned: Planned, agents: Agents) -> None:
    """Write the planned rewards; update the schedule, and an agent that learns within an epoch."""
    now, timeline = uow.now, timeline_of(session)
    learns = session.kind.learns_within_epoch
    positions: list[tuple[int, int]] = []
    begun = 0
    for trajectory, new in planned:
        first, last = new.rounds
        begun = max(begun, apply(session, trajectory, new))
        uow.effects.counts["rewards", session.tenant] += 1
        if new.replaces is None and timeline.is_late(trajectory, last):
            uow.effects.counts["late_rewards", session.tenant] += 1
        uow.add_measurement(new)
        uow.save_trajectory(trajectory)
        if learns and first == last:
            agents.observe(uow, session, trajectory.key, first, new.value)
        now = max(now, trajectory.last_at)
        if new.replaces is None:  # else the rounds were complete before
            positions += _positions(uow, session, trajectory, first, last)
    if planned:
        uow.count(session)
        after_measurement(uow, session, positions, now)
        if begun:
            begin_rounds(uow, session, timeline, agents.get(uow, session), begun, uow.now)
        fit_unread(uow, session, agents, now)


def _measured(
    uow: UnitOfWork, trajectory: TrajectoryRow, new: MeasurementRow
) -> MeasurementRow | None:
    """Look up a measurement that covers any of a value's rounds.

    Of corrected values it is the one in force; but a retry of an earlier one gets that.
    """
    stored = uow.measurement_over(trajectory, *new.rounds)
    if stored is not None and stored.replaces is not None and not stored.is_repeated_by(new):
        rows = uow.stored.measurements(stored[:3], stored.first_round, stored.first_round)
        return next((row for row in rows if row.is_repeated_by(new)), stored)
    return stored


def _corrected(
    uow: UnitOfWork,
    session: SessionRow,
    reward: Reward,
    place: tuple[int, int],
    spans: Spans[MeasurementRow],
    ids: dict[tuple[str, str], MeasurementRow],
    prefix: str,
) -> MeasurementRow:
    """Return the row of a correction, which replaces one that is stored or comes before it.

    `place` is its number in the trajectory, and its position.
    """
    refuse_corrections(session, reward, prefix)
    text = covariates_text(session, reward.covariates, prefix)
    if reward.replaces is not None:
        name = reward.trajectory, reward.replaces
        target = ids.get(name) or uow.measurement_by_id((*session.key, name[0]), name[1])
    else:
        trajectory = uow.trajectory((*session.key, reward.trajectory))
        closing_of(session).refuse(reward, prefix)
        rounds = timeline_of(session).rounds_of(uow, session, trajectory, reward, prefix)
        target = spans.over(*rounds) or uow.measurement_over(trajectory, *rounds)
        if target is not None and target.rounds != rounds:
            raise _conflict(target, reward, rounds, prefix)
    if target is None:
        if reward.replaces is None:
            field = prefix + field_of_rounds(reward)
            timeline_of(session).refuse_given_up(uow, session, reward.trajectory, rounds[0], field)
        raise no_such_reward(reward, prefix)
    text = target.covariates if reward.covariates is None else text
    places = (*target[:5], *place)
    return MeasurementRow(*places, reward.value, reward.reward_id, uow.now, target.root, text)


def _id_conflict(earlier: MeasurementRow, reward: Reward, prefix: str) -> Problem:
    detail = (
        f"reward {reward.reward_id!r} already has the value {earlier.value!r}, "
        f"for {_rounds(earlier, reward)}"
    )
    if earlier.value == reward.value and earlier.covariates is not None:
        detail += f", with {earlier.covariates}"
    return Problem(ProblemCode.REWARD_CONFLICT, detail, f"{prefix}reward_id")


def _conflict(
    earlier: MeasurementRow, reward: Reward, rounds: tuple[int, int], prefix: str
) -> Problem:
    stored = f"{_rounds(earlier, reward)} {'has' if len({*earlier.rounds}) == 1 else 'have'}"
    if earlier.rounds == rounds and earlier.value == reward.value:
        detail = f"{stored} the value {earlier.value!r} already, with other covariates"
        return Problem(ProblemCode.REWARD_CONFLICT, detail, f"{prefix}covariates")
    if earlier.rounds != rounds:
        detail = f"{stored} the value {earlier.value!r} already, which overlaps this reward"
        return Problem(ProblemCode.REWARD_CONFLICT, detail, prefix + field_of_rounds(reward))
    detail = f"{stored} the value {earlier.value!r} already, not {reward.value!r}"
    return Problem(ProblemCode.REWARD_CONFLICT, detail, f"{prefix}value")


def _rounds(row: MeasurementRow, reward: Reward) -> str:
    start, end = row.rounds
    rounds = f"round {start}" if start == end else f"rounds {start} to {end}"
    return rounds + of_trajectory(reward.trajectory)


def _positions(
    uow: UnitOfWork, session: SessionRow, trajectory: TrajectoryRow, first: int, last: int
) -> list[tuple[int, int]]:
    """Return the rounds' positions in the session as ranges, both ends included."""
    if not closing_of(session).is_counted or not session.schedule.open:
        return []
    if session.is_one_sequence:
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


def refuse_corrections(session: SessionRow, reward: Reward, prefix: str) -> None:
    """Check what a correction needs of the session, and of itself.

    Raises 409 no_corrections if the agent learns from each reward at once; 422 missing without what
    makes it unambiguous.
    """
    field = "replaces" if reward.replaces is not None else "correct"
    if not session.kind.takes_corrections:
        detail = f"{session.algorithm} has learned from the value already, and keeps no past"
        raise Problem(ProblemCode.NO_CORRECTIONS, detail, prefix + field)
    if reward.reward_id is None:
        detail = "a correction needs a reward_id of its own: a retry could undo a later one"
        raise Problem(ProblemCode.MISSING, detail, f"{prefix}reward_id")
    if reward.replaces is None and closing_of(session).adds_up:
        detail = (
            'in reward_mode "sum" a round may have several values; '
            "say by `replaces` which one is corrected: it is a reward_id"
        )
        raise Problem(ProblemCode.MISSING, detail, f"{prefix}replaces")


def no_such_reward(reward: Reward, prefix: str) -> Problem:
    """Make the problem of a correction of nothing."""
    where = of_trajectory(reward.trajectory)
    if reward.replaces is not None:
        detail = f"no reward{where} has the id {reward.replaces!r}"
        return Problem(ProblemCode.UNKNOWN_REWARD, detail, f"{prefix}replaces")
    detail = f"these rounds{where} have no value yet; send it without `correct`"
    return Problem(ProblemCode.UNKNOWN_REWARD, detail, f"{prefix}correct")
