"""Corrections: a value that replaces an earlier one of the same rounds. Both stay in the log.

The next fit uses the later one. A fit whose manifest ends before it is repeated with the earlier
one, because a manifest names rows by position.
"""

from lhb_engine.agents import ALGORITHMS
from service.base.problems import Problem, ProblemCode
from service.rounds.closing import closing_of
from service.rounds.reward import Reward
from service.rounds.reward_rounds import of_trajectory
from service.session.records import SessionRow
from service.session.rules import has_only_sums


def refuse_corrections(session: SessionRow, reward: Reward, prefix: str) -> None:
    """Check what a correction needs of the session, and of itself.

    Raises 409 no_corrections if the agent learns from each reward at once; 422 missing without what
    makes it unambiguous.
    """
    field = "replaces" if reward.replaces is not None else "correct"
    if not ALGORITHMS[session.algorithm].takes_corrections:
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


def refuse_used(session: SessionRow, root: int, field: str) -> None:
    """Raise 409 no_corrections if a fit used a value, and could not add up all rows again."""
    if has_only_sums(session) and root <= session.schedule.seen:
        detail = "a fit has learned from the value, and the session drops rows: it cannot forget it"
        raise Problem(ProblemCode.NO_CORRECTIONS, detail, field)


def no_such_reward(reward: Reward, prefix: str) -> Problem:
    """Make the problem of a correction of nothing."""
    where = of_trajectory(reward.trajectory)
    if reward.replaces is not None:
        detail = f"no reward{where} has the id {reward.replaces!r}"
        return Problem(ProblemCode.UNKNOWN_REWARD, detail, f"{prefix}replaces")
    detail = f"these rounds{where} have no value yet; send it without `correct`"
    return Problem(ProblemCode.UNKNOWN_REWARD, detail, f"{prefix}correct")
