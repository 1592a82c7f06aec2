"""The Python client of the service. Needs httpx only.

    with Client("http://127.0.0.1:8080") as client:
        session = client.create_session("shop", algorithm="ad_lasso", dim=5, horizon=100)
        decision = session.decide(contexts)
        session.reward(1.5, round=decision.round)

Every write carries an id made on this side (a session's name, a decision's event_id), so a retry
after a lost answer gets the first answer and never acts twice.
"""

import base64
import os
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

RETRY_STATUS = frozenset({429, 502, 503, 504})


class ApiError(Exception):
    """The service refused a request (RFC 9457): `status`, `code`, `detail`, `field`."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(problem.get("code", "http_error"))
        self.detail = str(problem.get("detail", ""))
        self.field = problem.get("field")
        where = f" ({self.field})" if self.field else ""
        super().__init__(f"{status} {self.code}{where}: {self.detail}")


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


class Client:
    """A connection to one service.

    Parameters
    ----------
    url : str
        Where the service listens.
    api_key : str, optional
        Sent as a bearer token; by default LHB_API_KEY of the environment, if it is there.
    timeout : float
        Seconds for one attempt; above the service's 30 s wait for a blocking refit.
    n_retries : int
        Further attempts after a lost connection or a 429, 502, 503 or 504.
    transport : httpx.BaseTransport, optional
        For tests.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        timeout: float = 45.0,
        n_retries: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(
            base_url=url, headers=authorization(api_key), timeout=timeout, transport=transport
        )
        self._n_retries = n_retries

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(self, method: str, path: str, **kwargs: Any) -> Any:
        """One call, retried where that is safe; the parsed answer, or `ApiError`."""
        for attempt in range(self._n_retries + 1):
            last = attempt == self._n_retries
            try:
                response = self._http.request(method, path, **kwargs)
            except httpx.TransportError:
                if last:
                    raise
                time.sleep(_backoff(attempt, None))
                continue
            if response.status_code in RETRY_STATUS and not last:
                time.sleep(_backoff(attempt, response.headers.get("Retry-After")))
                continue
            return _answer(response)
        raise AssertionError("unreachable")

    def create_session(
        self,
        name: str | None = None,
        *,
        dim: int,
        horizon: int,
        algorithm: str | None = None,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> "Session":
        """A new session, or the one that already has this name and these settings.

        `settings`: reward_mode, reward_wait_seconds, default_reward, refit.
        """
        chosen = {"algorithm": algorithm, "seed": seed, **settings}
        body = {
            "name": name or f"session-{uuid.uuid4()}",
            "dim": dim,
            "horizon": horizon,
            "options": dict(options or {}),
            **{key: value for key, value in chosen.items() if value is not None},
        }
        return Session(self, self.request("POST", "/v1/sessions", json=body))

    def session(self, session_id: str) -> "Session":
        """An existing session."""
        return Session(self, self.request("GET", f"/v1/sessions/{session_id}"))

    def sessions(self, **filters: Any) -> Iterator["Session"]:
        """All sessions, page by page."""
        return (Session(self, info) for info in self.pages("/v1/sessions", **filters))

    def algorithms(self) -> list[dict[str, Any]]:
        """The algorithms there are, with their options' schema."""
        return list(self.request("GET", "/v1/algorithms")["items"])

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Every item of a listing, following its cursor."""
        cursor: str | None = None
        while True:
            query = params if cursor is None else {**params, "cursor": cursor}
            page = self.request("GET", path, params=query)
            yield from page["items"]
            cursor = page.get("next")
            if cursor is None:
                return


class Session:
    """One durable agent on the service. `info` is the session as last read."""

    def __init__(self, client: Client, info: dict[str, Any]) -> None:
        self._client = client
        self.info = info
        self.id: str = info["id"]
        self._path = f"/v1/sessions/{self.id}"

    def decide(
        self,
        contexts: Any,
        *,
        rewards: Iterable[Mapping[str, Any]] = (),
        trajectory: str = "",
        event_id: str | None = None,
        arm_ids: Sequence[str] | None = None,
        **body: Any,
    ) -> Decision:
        """Choose one row of `contexts` (K x dim: nested lists, or a float64 array).

        `rewards`: earlier rounds' rewards to store first, such as {"round": 3, "value": 0.5}.
        """
        body |= {"contexts": _encode(contexts), "event_id": event_id or str(uuid.uuid4())}
        optional = {"rewards": list(rewards), "trajectory": trajectory, "arm_ids": arm_ids}
        body |= {key: value for key, value in optional.items() if value}
        return Decision.from_json(self._post("decisions", body))

    def reward(
        self,
        value: float,
        *,
        round: int | None = None,
        event_id: str | None = None,
        first_round: int | None = None,
        last_round: int | None = None,
        reward_id: str | None = None,
        trajectory: str = "",
    ) -> dict[str, Any]:
        """Store one reward: measured during a round, an event's round, or a span of rounds."""
        where = {
            "round": round,
            "event_id": event_id,
            "first_round": first_round,
            "last_round": last_round,
            "reward_id": reward_id,
            "trajectory": trajectory or None,
        }
        body = {"value": value, **{k: v for k, v in where.items() if v is not None}}
        return dict(self._post("rewards", body))

    def rewards(self, rewards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Store several rewards, all or nothing."""
        return dict(self._post("rewards", {"rewards": list(rewards)}))

    def rank(self, contexts: Any) -> dict[str, Any]:
        """Scores of a context set, without taking a decision."""
        return dict(self._post("rank", {"contexts": _encode(contexts)}))

    def estimate(self) -> dict[str, Any]:
        """theta and the lag weights now; {"status": "none"} before the first fit."""
        return dict(self._client.request("GET", f"{self._path}/estimate"))

    def estimates(self) -> Iterator[dict[str, Any]]:
        """Every fit so far, oldest first."""
        return self._client.pages(f"{self._path}/estimates")

    def rounds(self, **params: Any) -> Iterator[dict[str, Any]]:
        """The log: one item a round, oldest first."""
        return self._client.pages(f"{self._path}/rounds", **params)

    def epochs(self) -> Iterator[dict[str, Any]]:
        """The schedule: what was fitted, what is due and why, what is to come."""
        return self._client.pages(f"{self._path}/epochs")

    def delete(self) -> None:
        """Delete the session and all its data."""
        self._client.request("DELETE", self._path)

    def _post(self, resource: str, body: dict[str, Any]) -> Any:
        return self._client.request("POST", f"{self._path}/{resource}", json=body)


def authorization(api_key: str | None = None) -> dict[str, str]:
    """The header that a key goes in; none where there is no key, here or in LHB_API_KEY."""
    key = api_key or os.environ.get("LHB_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _answer(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": response.text[:500]}
    raise ApiError(response.status_code, problem if isinstance(problem, dict) else {})


def _backoff(attempt: int, retry_after: str | None) -> float:
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), 30.0)
    # full jitter, so that clients which failed together do not come back together
    return random.uniform(0.0, min(0.1 * 2**attempt, 5.0))


def _encode(contexts: Any) -> Any:
    """A float64 array goes as base64 (exact, and cheap to read); anything else as lists."""
    try:
        view = memoryview(contexts)
    except TypeError:
        return contexts.tolist() if hasattr(contexts, "tolist") else contexts
    if view.format not in ("d", "<d"):
        return view.tolist()
    data = base64.b64encode(view.tobytes()).decode()
    return {"dtype": "float64", "shape": list(view.shape or ()), "data": data}
