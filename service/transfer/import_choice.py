"""Check what an imported decision says of its choice."""

from typing import Any

from lhb_engine.randomness import Draw
from service.session.kept_contexts import MOST_NUMBERS
from service.session.records import SessionRow
from service.session.trial import played_again, trial_of
from service.transfer.import_records import check


def check_choice(session: SessionRow, record: dict[str, Any]) -> None:
    """Check the fields of a decision that say what was chosen, how and by whom.

    Raises
    ------
    InvalidRecord
        Names the field.
    """
    arm, dim, n_arms = record["arm"], len(record["context"]), len(record["scores"])
    acted, is_chosen = arm is not None, arm is not None and not record["forced"]
    check(dim == (session.dim if acted else 0), "context", f"it has {dim} numbers")
    check(arm < n_arms if acted else n_arms == 0, "arm" if acted else "scores", "no such arm")
    check(acted or record["arm_id"] is None, "arm_id", "a round without action has none")
    check(acted or not record["forced"], "forced", "a round without action is not forced")
    by, agent_arm = record["played_by"], record["agent_arm"]
    is_drawn = acted and by in ("control", "guard")
    fits = is_drawn or (record["propensity"] is not None) == is_chosen
    check(fits, "propensity", "there is one exactly where the agent chose")
    check(by is None or session.trial is not None, "played_by", "there is no trial")
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


def _check_group(session: SessionRow, record: dict[str, Any]) -> None:
    """Check who played a round: its group, and what control draws, follow from the seed."""
    by, arm, n_arms = record["played_by"], record["arm"], len(record["scores"])
    check(by == "agent" or trial_of(session.trial).share > 0, "played_by", "there is no holdout")
    draw = Draw(session.seed, record["trajectory"], record["round"], record["position"])
    play = played_again(session.trial, draw, session.horizon, n_arms, arm, by)
    check(play.by == by, "played_by", f"this round falls to {play.by}")
    if by != "agent":
        check(play.arm == arm, "arm", f"{by} draws {play.arm}")
        check(play.propensity == record["propensity"], "propensity", "not as it was drawn")


def _check_contexts(session: SessionRow, record: dict[str, Any]) -> None:
    """Check the contexts of all arms."""
    contexts, arm, dim = record["contexts"], record["arm"], session.dim
    check(session.keep_contexts, "contexts", "the session keeps none")
    check(arm is not None, "contexts", "a round without action has none")
    fits = len(contexts) == len(record["scores"]) and all(len(one) == dim for one in contexts)
    check(fits, "contexts", f"it is not one list of {dim} numbers for each arm")
    check(len(contexts) * dim <= MOST_NUMBERS, "contexts", "these are too many numbers")
    check(contexts[arm] == record["context"], "contexts", "that of the arm is another")
