"""POST /v1/sessions/{id}/rewards, and parsing of the rewards in a decision body."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import to_json

from clients.sdk.answers import AcceptedAnswer
from service.api.body_parsing import REWARDS
from service.api.request_bodies import RewardItem, RewardsBody
from service.api.routes import SESSION, Routes
from service.api.runtime import Service
from service.base.problems import Problem, ProblemCode
from service.commands.rewards import ReceiveRewards
from service.rounds.reward import Reward

router = Routes(SESSION, tags=["rewards"])


def read_reward(item: Mapping[str, Any], trajectory: str, prefix: str) -> Reward:
    """Make a reward from a parsed item, whose path in the body is `prefix`, like ``rewards[3].``.

    Raises 422 unless exactly one of round, event_id, first_round with last_round, from with to, at
    and replaces is given.
    """
    value = item["value"] + 0.0  # -0.0 becomes 0.0: databases do not keep the sign
    first, last = _both(item, "first_round", "last_round", "a span", prefix)
    since, until = _both(item, "from", "to", "an interval", prefix)
    round, event_id = item.get("round"), item.get("event_id")
    at, replaces = item.get("at"), item.get("replaces")
    ways = round, event_id, at, replaces, first, since
    n_ways = len(ways) - ways.count(None)
    if n_ways != 1:
        detail = (
            "a reward has exactly one of round, event_id, first_round with last_round, from with "
            "to, at, replaces"
        )
        code = ProblemCode.MISSING if n_ways == 0 else ProblemCode.AMBIGUOUS
        raise Problem(code, detail, f"{prefix}round")
    own = item.get("trajectory")
    return Reward(
        value=value,
        trajectory=trajectory if own is None else own,
        round=round,
        event_id=event_id,
        first_round=first,
        last_round=last,
        at=at,
        reward_id=item.get("reward_id"),
        correct=item.get("correct") is True,
        replaces=replaces,
        since=since,
        until=until,
        covariates=item.get("covariates") or None,
    )


def _both(item: Mapping[str, Any], start: str, end: str, what: str, prefix: str) -> tuple[Any, Any]:
    """Return two members that come together, or None for both."""
    first, last = item.get(start), item.get(end)
    if (first is None) != (last is None):
        missing = end if last is None else start
        detail = f"{what} has both {start} and {end}"
        raise Problem(ProblemCode.MISSING, detail, f"{prefix}{missing}")
    return first, last


def read_rewards(items: list[RewardItem], trajectory: str) -> list[Reward]:
    """Make rewards from the items of a list called `rewards`; raises what `read_reward` does."""
    return [read_reward(item, trajectory, f"rewards[{i}].") for i, item in enumerate(items)]


class ReceiveParts(NamedTuple):
    """What a rewards body says: the rewards, and the field of the list that they are in."""

    rewards: list[Reward]
    field: str = ""


def receive_parts(fields: RewardsBody) -> ReceiveParts:
    """Check a parsed rewards body; checks that need the session are made by the command."""
    items = fields.get("rewards")
    trajectory = fields.get("trajectory") or ""
    if items is not None:
        if others := [name for name in fields if name not in ("rewards", "trajectory")]:
            detail = "give one reward, or a list of rewards, not both"
            raise Problem(ProblemCode.AMBIGUOUS, detail, others[0])
        return ReceiveParts(read_rewards(items, trajectory), "rewards")
    if "value" not in fields:
        raise Problem(ProblemCode.MISSING, "a reward has a value", "value")
    return ReceiveParts([read_reward(dict(fields), trajectory, "")])


def made_receive(
    service: Service, tenant: str, session_id: str, parts: ReceiveParts
) -> ReceiveRewards:
    """Make the command of a rewards body from what `receive_parts` returned."""
    return ReceiveRewards((tenant, session_id), parts.rewards, service.agents, parts.field)


@router.hot("POST /rewards", "Send rewards", AcceptedAnswer, 409, body=REWARDS)
async def post_rewards(
    service: Service, tenant: str, session_id: str, body: bytes
) -> tuple[int, bytes]:
    """Store one reward or several, all or nothing.

    A reward names the round during which it was measured, which need not be the round that caused
    it. A correction has a `reward_id` of its own. A correction names the value that it replaces by
    that value's id (`replaces`), or by the value's rounds, with `correct: true`. The next fit uses
    the later value; both stay in the log. A correction without covariates keeps the old value's.
    """
    command = made_receive(service, tenant, session_id, receive_parts(REWARDS.read(body)))
    return 200, to_json((await service.writer.submit(command))._asdict())
