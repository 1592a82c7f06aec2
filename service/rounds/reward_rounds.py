"""Which decisions a reward belongs to: its round, span, event id, time or interval, checked."""

from math import inf, nextafter

from service.base.problems import Problem, ProblemCode
from service.rounds.closing import closing_of
from service.rounds.retention import is_in_sums, is_latest, refuse_dropped
from service.rounds.reward import Reward
from service.session.records import (
    DecisionRow,
    MeasurementRow,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
    number_in,
)
from service.writer.unit_of_work import UnitOfWork


def decided_rounds(
    uow: UnitOfWork, session: SessionRow, trajectory: TrajectoryRow, reward: Reward, prefix: str
) -> tuple[int, int]:
    """Check which rounds a reward names, and return the first and the last of them.

    Raises 409 or 422 if there are no such rounds, or if the session takes no such reward. The name
    of the field begins with `prefix`.
    """
    if reward.round is not None:
        check_round(trajectory, reward.round, f"{prefix}round")
        return reward.round, reward.round
    key = (*session.key, reward.trajectory)
    if reward.event_id is not None:
        decision = decision_of(uow, session, key, reward.event_id, f"{prefix}event_id")
        return decision.round, decision.round
    if reward.at is not None:
        return _round_at(uow, key, reward, prefix)
    if reward.since is not None:
        return _rounds_within(uow, key, reward, prefix)
    assert reward.first_round is not None
    assert reward.last_round is not None
    check_span(trajectory, reward.first_round, reward.last_round, prefix)
    return reward.first_round, reward.last_round


def check_span(trajectory: TrajectoryRow, first: int, last: int, prefix: str) -> None:
    """Raise a 409 or 422 if a trajectory has no such rounds."""
    check_round(trajectory, first, f"{prefix}first_round")
    check_round(trajectory, last, f"{prefix}last_round")
    if last < first:
        detail = f"last_round {last} is before first_round {first}"
        raise Problem(ProblemCode.LAST_BEFORE_FIRST, detail, f"{prefix}last_round")


def check_round(trajectory: TrajectoryRow, round: int, field: str) -> None:
    """Raise a 409 or 422 if a trajectory has no such round."""
    if round < 1:
        raise Problem(ProblemCode.UNKNOWN_ROUND, f"rounds count from 1, not {round}", field)
    if trajectory.n_rounds == 0 and trajectory.key:
        detail = f"trajectory {trajectory.key!r} has no rounds: it never began, or was erased"
        raise Problem(ProblemCode.FUTURE_ROUND, detail, field)
    if round > trajectory.n_rounds:
        last = f"the last one{of_trajectory(trajectory.key)} is {trajectory.n_rounds}"
        detail = f"round {round} has not been decided; {last}"
        raise Problem(ProblemCode.FUTURE_ROUND, detail, field)


def _round_at(uow: UnitOfWork, key: TrajectoryKey, reward: Reward, prefix: str) -> tuple[int, int]:
    assert reward.at is not None
    at = reward.at.timestamp()
    if reward.reward_id is not None:
        row = uow.measurement_by_id(key, reward.reward_id)
        if row is not None and _was_under_way(uow, key, row, at):
            return row.first_round, row.last_round
    decision = uow.stored.decision_before(key, at)
    if decision is None or at > uow.now + 60:
        detail = "no round was under way at that time"
        raise Problem(ProblemCode.UNKNOWN_ROUND, detail, f"{prefix}at")
    return decision.round, decision.round


def interval_of(reward: Reward, now: float, prefix: str) -> tuple[float, float]:
    """Check a reward's interval, and return its two ends in Unix seconds.

    Raises 422 where it ends before it begins, or is not over, so that more may fall into it.
    """
    assert reward.since is not None
    assert reward.until is not None
    since, until = reward.since.timestamp(), reward.until.timestamp()
    if until <= since:
        detail = "the interval ends before it begins, or is empty"
        raise Problem(ProblemCode.LAST_BEFORE_FIRST, detail, f"{prefix}to")
    if until > now:
        detail = "the interval is not over; send its total afterwards"
        raise Problem(ProblemCode.INTERVAL_OPEN, detail, f"{prefix}to")
    return since, until


def _rounds_within(
    uow: UnitOfWork, key: TrajectoryKey, reward: Reward, prefix: str
) -> tuple[int, int]:
    """Return the first and the last round whose decision was taken in the reward's interval.

    Times never go back within a trajectory, and the interval is over. So it keeps its rounds.
    """
    ends = interval_of(reward, uow.now, prefix)
    before, last = (uow.stored.decision_before(key, nextafter(end, -inf)) for end in ends)
    first_round = 1 if before is None else before.round + 1
    if last is None or last.round < first_round:
        detail = f"no round{of_trajectory(reward.trajectory)} began in this interval"
        raise Problem(ProblemCode.UNKNOWN_ROUND, detail, f"{prefix}from")
    return first_round, last.round


def _was_under_way(uow: UnitOfWork, key: TrajectoryKey, row: MeasurementRow, at: float) -> bool:
    """Return whether `at` named the round of `row` when `row` was received.

    A time ahead of the server's clock names the latest round at the moment of receipt. Decisions
    taken after that moment do not change which round it was.
    """
    began = uow.decision_by_round(key, row.first_round)
    ended = uow.decision_by_round(key, row.first_round + 1)
    in_time = began is not None and began.at <= at
    return in_time and (ended is None or ended.at > at or ended.at >= row.at)


def of_trajectory(key: str) -> str:
    """Return the words that name a trajectory in a message; none for the one without a key."""
    return f" of trajectory {key!r}" if key else ""


def decision_of(
    uow: UnitOfWork, session: SessionRow, key: TrajectoryKey, event_id: str, field: str
) -> DecisionRow:
    """Return a decision; 404 unknown_event if none has this id, 409 round_dropped."""
    decision = uow.decision_by_event(key, event_id)
    if decision is not None:
        return decision
    number = number_in(event_id)
    if number is not None and 1 <= number <= uow.trajectory(key).n_decisions:
        refuse_dropped(session, None, f"round {number}", field)
    detail = f"no decision{of_trajectory(key[2])} has event id {event_id!r}"
    if not key[2] and session.n_trajectories > 1:
        detail += " without a trajectory: name the decision's trajectory"
    detail += ", of those that are not dropped" if session.dropped_to else ""
    raise Problem(ProblemCode.UNKNOWN_EVENT, detail, field)


def refuse_given_up(
    uow: UnitOfWork, session: SessionRow, trajectory: str, first: int, field: str
) -> None:
    """Raise 409 round_dropped if a value's first round is one that the session has given up.

    Or one that time closed, of which sums have what no row can give again.
    """
    if not session.dropped_to:
        return
    key, rounds = (*session.key, trajectory), f"round {first}{of_trajectory(trajectory)}"
    decision = uow.decision_by_round(key, first)
    refuse_dropped(session, None if decision is None else decision.position, rounds, field)
    stands_at = uow.decision_by_round(key, first + closing_of(session).n_later)
    if is_in_sums(session, stands_at, uow.now):
        detail = f"{rounds} is closed: fits have learned from it, and the session drops rows"
        raise Problem(ProblemCode.ROUND_DROPPED, detail, field)


def late_place(uow: UnitOfWork, session: SessionRow, new: MeasurementRow) -> int | None:
    """Return the position at which sums take in a value of a round that time closes, or None."""
    n, position = session.n_rounds, new.first_round
    may_be = may_be_late(session, new.rounds, new.covariates, n, 0)
    if may_be and not session.is_one_sequence:
        begun = uow.decision_by_round(new[:3], position)
        position = n if begun is None else begun.position
    return n + 1 if may_be and not is_latest(session, n, position) else None


def may_be_late(
    session: SessionRow, rounds: tuple[int, int], covariates: object, n_rounds: int, begun: int
) -> bool:
    """Return whether sums take in a value that came when there were `n_rounds` rounds.

    They take in no value of several rounds, or with covariates. A value of a round whose position
    `begun` is one of the latest stands in its row.
    """
    is_alone = rounds[0] == rounds[1] and covariates is None
    return closing_of(session).is_by_time and is_alone and not is_latest(session, n_rounds, begun)


def field_of_rounds(reward: Reward) -> str:
    """Return the field that names the first of a reward's rounds."""
    if reward.event_id is not None:
        return "event_id"
    if reward.since is not None:
        return "from"
    return "round" if reward.round is not None else "first_round"
