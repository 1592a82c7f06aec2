"""GET /v1/sessions/{id}/lift and /shadow: the agent beside a control group, and beside its caller.

Both answers are made of sums, which a constant number of statements bring up to date. Where a
session has grown much since the last look, `n_behind` says how much is not in the sums yet, and the
background adds the rest.
"""

from itertools import takewhile
from math import ceil, inf, isfinite
from typing import Any

from fastapi import Query

from clients.sdk.answers import ComparedAnswer, LiftAnswer, ShadowAnswer
from lhb_engine.evaluation.batch_ratio import Refusal
from lhb_engine.evaluation.lift import MIN_TRAJECTORIES, Lift, are_drawn_otherwise
from service.api.answer_models import members_of, timestamp
from service.api.routes import SESSION, Routes
from service.lift.add_to_sums import sums_so_far
from service.lift.exact import nearest
from service.lift.sums import GROUPS, LiftSums
from service.lift.units import TRAJECTORIES, units_in_words
from service.lift.watch import sum_up
from service.rounds.timeline import in_rounds, timeline_of
from service.session.records import SessionRow
from service.session.trial import block_rounds
from service.storage.reader import Reader

router = Routes(SESSION, tags=["estimates"])
NO_PAST = (
    "What they differ by is taken away by what each earned before the trial: append that log "
    "before the first decision (history), or begin as a shadow."
)
IN_WORDS = {"lift": "a round", "in_all": "a trajectory in all"}  # what is compared of the groups
LARGE = 0.4  # share of control, beyond which a larger one adds little


@router.read("/lift", "What the agent earns beside its control group", LiftAnswer, before=sum_up)
def get_lift(
    reader: Reader,
    session: SessionRow,
    effect: float | None = Query(
        None,
        description="a difference a round, or a unit in all where that decides, to say how many "
        "more rounds would show it; by default that of now",
    ),
    adjust: bool = Query(
        True,
        description="take away variance that the model predicts; false if contexts depend on "
        "what was chosen before",
    ),
) -> dict[str, Any]:
    """Compare the mean reward a round of the agent's trajectories with that of control.

    Trajectories are the units, of the default trajectory blocks of rounds, and blocks of slots
    where totals are of all. `in_all` compares what a unit brings in all; this decides where units
    of the groups have unlike numbers of rounds, as choices change how often people come. An
    interval may be looked at whenever one likes: it holds the truth at all looks together with
    probability 0.95.
    `rounds_to_go` is how many more measured rounds show an `effect` in 80 of 100 cases, if units
    come as of late; null where that is never, or not seen yet.
    """
    row = sums_so_far(reader, session)
    sums, trial = LiftSums.loads(row.sums), session.trial
    units = units_in_words(session)
    differences = {
        name: sums.lift(trial, in_all=name == "in_all", adjusts=adjust, units=units)
        for name in IN_WORDS
    }
    groups: dict[str, Any] = {}
    for name in GROUPS:
        n, rewards = (nearest(total) for total in sums.groups[name].totals[:2])
        n_units, reward = sums.groups[name].n_trajectories, rewards / n if n else None
        groups[name] = {"n_units": n_units, "n_rounds": round(n), "reward": reward}
    decides = "in_all" if sums.is_in_all else "lift"
    outcome, reason, a_day = differences[decides], None, sums.rounds_a_day()
    if isinstance(outcome, Refusal):
        reason, to_go, a_day = _refused(session, sums, str(outcome), units)
        verdict = f"Not known yet: {reason}."
    else:
        effect = outcome.difference if effect is None else effect
        to_go = outcome.rounds_to_go(effect, sums.rounds, sums.narrowing(trial))
        verdict = _said(outcome, IN_WORDS[decides], sums, units, session)
    return {
        **groups,
        **{
            name: None if isinstance(one, Refusal) else members_of(ComparedAnswer, one)
            for name, one in differences.items()
        },
        "decides": decides,
        "verdict": in_rounds(session, verdict),
        "groups_differ": _differ(sums, trial.share, decides),
        "reason": reason and in_rounds(session, reason),
        "units": units,
        "rounds_to_go": to_go if isfinite(to_go) else None,
        "days_to_go": to_go / a_day if a_day and isfinite(to_go) else None,
        "planned_rounds": trial.planned_rounds,
        "n_left_out": sums.n_left_out,
        "n_behind": session.n_rounds - row.decided + session.n_measurements - row.measured,
        "points": [
            {"n_rounds": round(n), "difference": difference, "low": low, "high": high}
            | {"at": timestamp(at)}
            for n, difference, low, high, at, *_ in sums.points
        ],
    }


@router.read("/shadow", "How the agent agrees with its caller", ShadowAnswer, before=sum_up)
def get_shadow(reader: Reader, session: SessionRow) -> dict[str, Any]:
    """Compare what the agent chose with what the caller played, in rounds that the caller played.

    An action pays the sum of the lag weights times its score, all lags together.
    """
    row = sums_so_far(reader, session)
    shadow = LiftSums.loads(row.sums).shadow
    n, record = shadow.n_scored, reader.installed(session)
    expected: list[float | None] = [None, None]
    if n and record is not None:
        weight = float(sum(record.values["lag_weights"]))
        expected = [weight * shadow.score / n, weight * shadow.agent_score / n]
    return {
        **members_of(ShadowAnswer, shadow),
        "agreement": shadow.n_agree / shadow.n_rounds if shadow.n_rounds else None,
        "expected_caller": expected[0],
        "expected_agent": expected[1],
        "n_behind": session.n_rounds - row.decided + session.n_measurements - row.measured,
    }


def _refused(
    session: SessionRow, sums: LiftSums, reason: str, units: str
) -> tuple[str, float, float | None]:
    """Return why there is no lift, and after how many measured rounds there is, of how many a day.

    A block's first rounds are mixed. Whether trajectories come nobody knows.
    """
    if not session.trial.share:
        return "the session has no holdout: every trajectory is the agent's", inf, None
    share = session.trial.share  # more units, until both groups have enough, on average
    shares = zip(GROUPS, (1.0 - share, share), strict=True)
    lack = [(MIN_TRAJECTORIES - sums.groups[name].n_trajectories) / of for name, of in shares]
    to_go = max(0.0, *lack)
    if to_go == 0.0:
        return reason, inf, None
    if units == TRAJECTORIES:
        n = sums.n_units + ceil(to_go)
        reason += f", which takes about {n} in all with this share in control, and {sums.n_units} "
        return f"{reason}have rewards: more rounds of the same {units} do not help", inf, None
    reason += f", which come with about {ceil(to_go)} more of both groups together"
    rounds, n_rounds = session.horizon + 1, block_rounds(session.horizon)
    days, a_day = timeline_of(session).days(to_go, rounds, n_rounds)
    return reason + days, to_go * rounds, a_day


def _said(lift: Lift, of: str, sums: LiftSums, units: str, session: SessionRow) -> str:
    """Return the verdict of a lift: what is decided, from how much, and what would decide it."""
    is_open = lift.low <= 0.0 <= lift.high
    verdict = f"The agent earns {'more' if lift.low > 0.0 else 'less'} than control"
    if is_open:
        verdict = "It is not decided whether the agent earns more than control"
    n_control = sums.groups["control"].n_trajectories
    earned = f"{lift.difference:+.3g} {session.reward_unit or ''}".strip()
    between = f"{earned} {of}, between {lift.low:+.3g} and {lift.high:+.3g}"
    words = [
        f"{verdict}: {between}, at all looks together with probability {lift.level:.0%}, from "
        f"{sums.rounds:,.0f} rounds of {sums.n_units:,} {units}, {n_control:,} of these "
        "in control."
    ]
    if lift.narrowed_by_past >= 0.01:
        words += [f"Units' own past narrows the interval by {lift.narrowed_by_past:.0%}."]
    if not is_open:
        clear = [*takewhile(lambda one: one[2] * one[3] > 0.0, reversed(sums.points))]
        if of == IN_WORDS["lift"] and len(clear) > 1:
            words += [f"Each look since {str(timestamp(clear[-1][4]))[:10]} said so."]
        return " ".join(words)
    narrowing, a_day = sums.narrowing(session.trial), sums.rounds_a_day()
    to_go = lift.rounds_to_go(lift.difference, sums.rounds, narrowing)
    if isfinite(to_go):
        days = f", about {to_go / a_day:,.0f} days as of late" if a_day else ""
        words += [f"If it stays so, about {float(f'{to_go:.1e}'):,.0f} more rounds decide{days}."]
    elif narrowing.lasting is None:
        words += ["How many more rounds decide is not seen yet."]
    else:
        larger = ", or a larger holdout." if session.trial.share < LARGE else "."
        words += [f"More rounds of the same {units} do not decide it: more {units} would{larger}"]
        if units == TRAJECTORIES and lift.narrowed_by_past < 0.01:
            words += [NO_PAST]
    return " ".join(words)


def _differ(sums: LiftSums, share: float, decides: str) -> str | None:
    agent, control = (sums.groups[name] for name in GROUPS)
    units = agent.n_trajectories + control.n_trajectories
    if are_drawn_otherwise(agent.n_trajectories, control.n_trajectories, share):
        return (
            f"Of {units} measured units {control.n_trajectories} are control's, where a share of "
            f"{share:g} was drawn: about {share * units:.0f}. Something other than the draw "
            "decides who is measured, so lift may not be the agent's doing."
        )
    if decides == "lift":
        return None
    (ours, brought), (theirs, by_theirs) = (
        [nearest(total) / one.n_trajectories for total in one.totals[:2]]
        for one in (agent, control)
    )
    return (
        f"A unit of the agent has {ours:.3g} measured rounds, one of control {theirs:.3g}: choices "
        "change how often people come. So what a unit brings in all decides, and not a difference "
        f"a round: {brought:.4g} with the agent, and {by_theirs:.4g} with control."
    )
