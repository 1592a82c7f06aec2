"""What goes over the wire between the Python client and the service: bodies, answers, errors."""

import base64
import json
import os
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan
from typing import Any, Protocol, Self, TypedDict
from urllib.parse import quote

import httpx

from .errors import error_of

RETRY_STATUS = frozenset({429, 502, 503, 504})


class Array(Protocol):
    """An array, such as numpy's. One that lends its memory as float64 is sent exactly and fast."""

    def tolist(self) -> Any:
        """Return nested lists."""


Contexts = Sequence[Sequence[float]] | Sequence[Mapping[str, float | str]] | Array


# written as a call, because `from` is a word of Python
Interval = TypedDict(
    "Interval", {"from": datetime | str | None, "to": datetime | str | None}, total=False
)


class RewardFields(TypedDict, total=False):
    """What a reward has beside its value."""

    trajectory: str | None
    round: int | None
    event_id: str | None
    first_round: int | None
    last_round: int | None
    at: datetime | str | None
    replaces: str | None
    covariates: Mapping[str, float] | None
    reward_id: str | None


class RewardOptions(RewardFields, total=False):
    """The same, as options of a call."""

    interval: tuple[datetime | str, datetime | str] | None


class RewardItem(RewardFields, Interval, total=False):
    """A value, and exactly one way to say when it was measured, or what it replaces.

    The ways are: round, event_id, first_round with last_round, from with to, at, replaces.
    """

    value: float
    correct: bool | None


class DecisionOptions(TypedDict, total=False):
    """What a round has beside its contexts."""

    trajectory: str | None
    event_id: str | None
    arm_ids: Sequence[str] | None
    rewards: Iterable[RewardItem | Mapping[str, Any]]
    forced_arm: int | str | None
    default_arm: int | str | None
    covariates: Mapping[str, float] | None
    at: datetime | str | None


class DecisionBody(DecisionOptions, total=False):
    """A round to decide, as an item of a batch."""

    contexts: Contexts
    skip: bool


class BatchItem(TypedDict, total=False):
    """A decision or a reward of one session, which is named by its id or its name."""

    session_id: str
    decision: DecisionBody
    reward: RewardItem


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one context set; `arm` is the row to show."""

    event_id: str
    round: int
    arm: int
    arm_id: str | None
    scores: list[float] | None
    propensity: float | None
    epoch: int
    model_version: int
    next_fit_round: int | None
    explored: bool
    played_by: str | None = None
    agent_arm: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read an answer; keys that this version does not know go to `extra`."""
        members = {name: data.get(name) for name in cls.__slots__ if name != "extra"}
        return cls(**members, extra={k: v for k, v in data.items() if k not in members})  # type: ignore[arg-type]


def reaching(url: str, api_key: str | None = None) -> dict[str, Any]:
    """Return a server's options of httpx's clients; without a key LHB_API_KEY is sent, if any."""
    key = api_key or os.environ.get("LHB_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # certificates are read for https alone: all take 30 ms of CPU
    return {"base_url": url, "headers": headers, "verify": url.startswith("https")}


def path_of(session: str) -> str:
    """Return the path of a session, by its id or its name."""
    return f"/v1/sessions/{in_path(session)}"


def in_path(text: str) -> str:
    """Quote a text as one part of a path, of which httpx would take out "." and ".."."""
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


def answer_of(response: httpx.Response) -> Any:
    """Parse a response; raise the `ApiError` of a refusal."""
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": response.text[:500]}
    raise error_of(response.status_code, problem if isinstance(problem, dict) else {})


def backoff(attempt: int, retry_after: str | None) -> float:
    """Return the seconds until the next attempt: a random delay, after what Retry-After says."""
    # full jitter, so that clients which failed together do not come back together
    delay = random.uniform(0.0, min(0.1 * 2**attempt, 5.0))
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), 30.0) + delay
    return delay


def decision_body(
    *,
    contexts: Contexts | None = None,
    event_id: str | None = None,
    rewards: Iterable[Mapping[str, Any]] = (),
    **body: Any,
) -> dict[str, Any]:
    """Build a decision's body, with an idempotency key: a retry gets the first answer."""
    if body.get("arm_ids") is not None:
        body["arm_ids"] = list(body["arm_ids"])
    filled = without_none(body).items()
    members = {key: one for key, one in filled if not isinstance(one, str | list) or one}
    if contexts is not None:
        members["contexts"] = encoded(contexts)
    if riding := [reward_body(reward) for reward in rewards]:
        members["rewards"] = riding
    return {**members, "event_id": event_id or str(uuid.uuid4())}


def without_none(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that are not None."""
    return {key: value for key, value in members.items() if value is not None}


def as_object(covariates: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return covariates as an object of a body; None where there are none."""
    return dict(covariates) if covariates else None


def reward_of(value: float, options: RewardOptions) -> dict[str, Any]:
    """Return a reward of the options of a call."""
    reward: dict[str, Any] = {"value": value, **options}
    reward["from"], reward["to"] = reward.pop("interval", None) or (None, None)
    named = {"trajectory": options.get("trajectory") or None}
    return {**reward, **named, "covariates": as_object(options.get("covariates"))}


def reward_body(reward: Mapping[str, Any], *, with_id: bool = False) -> dict[str, Any]:
    """Build a reward's body; `with_id`: give it an idempotency key if it has none."""
    body = without_none(reward)
    if with_id:
        body.setdefault("reward_id", str(uuid.uuid4()))
    return body


def without_nan(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers with None for NaN."""
    return [None if value is None or isnan(value) else value for value in values]


def dumps(body: Any) -> str:
    """Encode a body, in which numbers and times may be numpy's or pandas'."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":  # numpy's times are of UTC
        return f"{value.astype('datetime64[us]')}Z"
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is nothing that JSON has: {value!r}")


def encoded(contexts: Contexts) -> Any:
    """Encode a float64 array as base64 (exact, and cheap to parse), anything else as lists.

    A DataFrame is a row an arm; its columns are features by name where they are texts.
    """
    if hasattr(contexts, "to_numpy"):
        frame: Any = contexts
        if all(isinstance(name, str) for name in frame.columns):
            return frame.to_dict("records")
        contexts = frame.to_numpy()
    try:
        view = memoryview(contexts)  # type: ignore[arg-type]
    except TypeError:
        return contexts.tolist() if hasattr(contexts, "tolist") else contexts
    if view.format not in ("d", "<d"):
        return view.tolist()
    data = base64.b64encode(view.tobytes()).decode()
    return {"dtype": "float64", "shape": list(view.shape or ()), "data": data}
