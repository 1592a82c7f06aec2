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
        """Read an answer; keys that this version does not know go to `extra`."""
        known = {name: data.get(name) for name in cls.__slots__ if name != "extra"}
        return cls(**known, extra={k: v for k, v in data.items() if k not in known})  # type: ignore[arg-type]


def authorization(api_key: str | None = None) -> dict[str, str]:
    """Return the header for `api_key`, or for LHB_API_KEY; empty where neither is given."""
    key = api_key or os.environ.get("LHB_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}


def answer_of(response: httpx.Response) -> Any:
    """Parse a response.

    Raises
    ------
    ApiError
        The service refused the request.
    """
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": response.text[:500]}
    raise error_of(response.status_code, problem if isinstance(problem, dict) else {})


def backoff(attempt: int, retry_after: str | None) -> float:
    """Return the seconds until the next attempt: what Retry-After says, else a random delay."""
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), 30.0)
    # full jitter, so that clients which failed together do not come back together
    return random.uniform(0.0, min(0.1 * 2**attempt, 5.0))


def decision_body(
    *, contexts: Any = None, event_id: str | None = None, **body: Any
) -> dict[str, Any]:
    """Build a decision's body, with an idempotency key: a retry gets the first answer."""
    asked = {key: value for key, value in body.items() if value not in (None, "", [])}
    if contexts is not None:
        asked["contexts"] = encoded(contexts)
    return {**asked, "event_id": event_id or str(uuid.uuid4())}


def encoded(contexts: Any) -> Any:
    """Encode a float64 array as base64 (exact, and cheap to parse), anything else as lists."""
    try:
        view = memoryview(contexts)
    except TypeError:
        return contexts.tolist() if hasattr(contexts, "tolist") else contexts
    if view.format not in ("d", "<d"):
        return view.tolist()
    data = base64.b64encode(view.tobytes()).decode()
    return {"dtype": "float64", "shape": list(view.shape or ()), "data": data}
