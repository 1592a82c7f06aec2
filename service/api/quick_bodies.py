"""The bodies that come all the time, read by msgspec: half of pydantic's time, a third with base64.

What is read here is what pydantic would have read, to the bit; a body that msgspec does not take,
or whose colons are not its keys (an unknown or a duplicate one, a colon in a text, an `at`), is
left to pydantic, which also says what is wrong. A test compares the two.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta, MsgspecError
from msgspec.json import Decoder
from pydantic import TypeAdapter

from service.api.request_bodies import (
    DECISION,
    MOST_ARMS,
    REWARDS,
    BatchBody,
    BatchItem,
    DecisionBody,
    RewardsBody,
    parse,
    refuse_duplicates,
)
from service.field_types import LARGEST, NO_ZERO_BYTE

_Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
_Key = Annotated[str, Meta(max_length=256, pattern=NO_ZERO_BYTE)]
_Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=NO_ZERO_BYTE)]
_Size = Annotated[int, Meta(ge=0, le=2**31)]


class _Place(TypedDict, total=False):
    trajectory: _Key | None
    round: int | None
    event_id: _Name | None
    first_round: int | None
    last_round: int | None
    reward_id: _Name | None


class _Reward(_Place):
    value: _Number


class _Rewards(_Place, total=False):
    value: _Number
    rewards: Annotated[list[_Reward], Meta(min_length=1, max_length=100_000)]


class _Encoded(TypedDict):
    dtype: Literal["float64"]
    shape: Annotated[list[_Size], Meta(min_length=2, max_length=2)]
    data: bytes  # msgspec decodes base64 itself


class _Decision(TypedDict, total=False):
    contexts: Annotated[list[list[float]], Meta(max_length=MOST_ARMS)] | _Encoded | None
    trajectory: _Key | None
    event_id: _Name | None
    arm_ids: list[_Key] | None
    rewards: Annotated[list[_Reward], Meta(max_length=100_000)]
    forced_arm: int | None
    skip: bool


class _Item(TypedDict, total=False):
    session_id: Required[_Key]
    decision: _Decision
    reward: _Rewards


class _Batch(TypedDict):
    items: Annotated[list[_Item], Meta(min_length=1, max_length=1000)]


_DECISION, _REWARDS, _BATCH = Decoder(_Decision), Decoder(_Rewards), Decoder(_Batch)


def read_decision_body(body: bytes) -> DecisionBody:
    """A decision's body; raises what `parse` and `refuse_duplicates` raise."""
    asked: DecisionBody = _read(_DECISION, DECISION, count_decision_keys, body)
    return asked


def read_rewards_body(body: bytes) -> RewardsBody:
    """The body of one or several rewards; raises what `parse` and `refuse_duplicates` raise."""
    asked: RewardsBody = _read(_REWARDS, REWARDS, count_reward_keys, body)
    return asked


def read_batch_body(body: bytes) -> BatchBody | None:
    """A batch, or None where it has to be looked at item by item."""
    asked: BatchBody | None = _quick(_BATCH, count_batch_keys, body)
    return asked


def _read(
    quick: Decoder[Any], adapter: TypeAdapter[Any], count: Callable[[Any], int], body: bytes
) -> Any:
    asked = _quick(quick, count, body)
    if asked is None:
        asked = parse(adapter, body)
        refuse_duplicates(body, count(asked))
    return asked


def _quick(decoder: Decoder[Any], count: Callable[[Any], int], body: bytes) -> Any:
    try:
        asked = decoder.decode(body)
    except (MsgspecError, UnicodeError, RecursionError):
        return None
    return asked if body.count(b":") == count(asked) else None


def count_decision_keys(asked: DecisionBody) -> int:
    """Keys of all objects in a decision body."""
    contexts, n_keys = asked.get("contexts"), len(asked)
    if "rewards" in asked:
        n_keys += sum(map(len, asked["rewards"]))
    return n_keys + len(contexts) if isinstance(contexts, dict) else n_keys


def count_reward_keys(asked: RewardsBody) -> int:
    """Keys of all objects in a rewards body."""
    return len(asked) + sum(map(len, asked.get("rewards") or ()))


def count_batch_keys(asked: BatchBody) -> int:
    """Keys of all objects in a batch."""
    return 1 + sum(map(_count_item_keys, asked["items"]))


def _count_item_keys(item: BatchItem) -> int:
    n_keys = len(item)
    if "decision" in item:
        n_keys += count_decision_keys(item["decision"])
    if "reward" in item:
        n_keys += count_reward_keys(item["reward"])
    return n_keys
