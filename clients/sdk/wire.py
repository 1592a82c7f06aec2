"""What goes over the wire between the Python client and the service: bodies, answers, errors."""

import base64
import os
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from .errors import error_of

RETRY_STATUS = frozenset({429, 502, 503, 504})


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
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Keys that this version does not know go to `extra`."""
        known = {name: data.get(name) for name in cls.__slots__ if name != "extra"}
        return cls(**known, extra={k: v for k, v in data.items() if k not in known})  # type: ignore[arg-type]


def authorization(api_key: str | None = None) -> dict[str, str]:
    """The header that a key goes in; none where there is no key, here or in LHB_API_KEY."""
    key = api_key or os.environ.get("LHB_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}


def answer_of(response: httpx.Response) -> Any:
    """What a response holds, parsed; `ApiError` where it is no success."""
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": response.text[:500]}
    raise error_of(response.status_code, problem if isinstance(problem, dict) else {})


def backoff(attempt: int, retry_after: str | None) -> float:
    """Seconds until the next attempt; what the service asks for, if it does."""
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), 30.0)
    # full jitter, so that clients which failed together do not come back together
    return random.uniform(0.0, min(0.1 * 2**attempt, 5.0))


def decision_body(
    *, contexts: Any = None, event_id: str | None = None, **body: Any
) -> dict[str, Any]:
    """What the route takes; with an id, so that a retry gets the first answer."""
    asked = {key: value for key, value in body.items() if value not in (None, "", [])}
    if contexts is not None:
        asked["contexts"] = encoded(contexts)
    return {**asked, "event_id": event_id or str(uuid.uuid4())}


def encoded(contexts: Any) -> Any:
    """A float64 array goes as base64 (exact, and cheap to read); anything else as lists."""
    try:
        view = memoryview(contexts)
    except TypeError:
        return contexts.tolist() if hasattr(contexts, "tolist") else contexts
    if view.format not in ("d", "<d"):
        return view.tolist()
    data = base64.b64encode(view.tobytes()).decode()
    return {"dtype": "float64", "shape": list(view.shape or ()), "data": data}
