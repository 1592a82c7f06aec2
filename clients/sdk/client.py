"""The Python client of the service. Needs httpx only.

    with Client("http://127.0.0.1:8080") as client:
        session = client.create_session("shop", algorithm="ad_lasso", dim=5, horizon=100)
        decision = session.decide(contexts)
        session.reward(1.5, round=decision.round)

Every write carries an id made on this side (a session's name, a decision's event_id), so a retry
after a lost answer gets the first answer and never acts twice.
"""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx

from .wire import (
    RETRY_STATUS,
    Decision,
    answer_of,
    authorization,
    backoff,
    decision_body,
    encoded,
)


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
                time.sleep(backoff(attempt, None))
                continue
            if response.status_code in RETRY_STATUS and not last:
                time.sleep(backoff(attempt, response.headers.get("Retry-After")))
                continue
            return answer_of(response)
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

    def batch(self, items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Decisions and rewards of many sessions in one transaction, at most 1000.

        An item is {"session_id": ..., "decision": {...}} or {"session_id": ..., "reward": {...}},
        as the routes take them; contexts may be an array. Each has an answer of its own, in order:
        `status`, and `decision`, `reward` or `problem`.
        """
        asked = [dict(item) for item in items]
        for item in asked:
            if "decision" in item:
                item["decision"] = decision_body(**item["decision"])
        return list(self.request("POST", "/v1/batch", json={"items": asked})["items"])

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
        body |= {"rewards": list(rewards), "trajectory": trajectory, "arm_ids": arm_ids}
        asked = decision_body(contexts=contexts, event_id=event_id, **body)
        return Decision.from_json(self._post("decisions", asked))

    def skip(self, **body: Any) -> dict[str, Any]:
        """A round without action; takes what `decide` takes, without contexts and arms."""
        return dict(self._post("decisions", decision_body(skip=True, **body)))

    def reward(
        self,
        value: float,
        *,
        round: int | None = None,
        event_id: str | None = None,
        first_round: int | None = None,
        last_round: int | None = None,
        at: datetime | str | None = None,
        reward_id: str | None = None,
        trajectory: str = "",
    ) -> dict[str, Any]:
        """Store one reward: measured during a round, an event's round, or a span of rounds.

        In sum mode `reward_id` is required, and the round may be the one under way `at` a time: a
        datetime that knows its offset, or RFC 3339.
        """
        where = {
            "round": round,
            "event_id": event_id,
            "first_round": first_round,
            "last_round": last_round,
            "at": at.isoformat() if isinstance(at, datetime) else at,
            "reward_id": reward_id,
            "trajectory": trajectory or None,
        }
        body = {"value": value, **{k: v for k, v in where.items() if v is not None}}
        return dict(self._post("rewards", body))

    def rewards(self, rewards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Store several rewards, all or nothing."""
        return dict(self._post("rewards", {"rewards": list(rewards)}))

    def history(
        self,
        contexts: Any,
        rewards: Sequence[float | None] | None = None,
        *,
        trajectory: str = "",
        import_id: str | None = None,
    ) -> dict[str, Any]:
        """Append logged rounds, at most 10 000 a call, to start warm.

        `contexts`: n x dim, those selected; `rewards`: n, None where not known. By an `import_id`
        of yours another process, too, can repeat the call without appending twice.
        """
        body = {"contexts": encoded(contexts), "import_id": import_id or str(uuid.uuid4())}
        optional = {"rewards": rewards, "trajectory": trajectory or None}
        body |= {key: value for key, value in optional.items() if value is not None}
        return dict(self._post("history", body))

    def credit(self, **params: Any) -> Iterator[dict[str, Any]]:
        """What each past decision has earned so far, and is expected to earn still."""
        return self._client.pages(f"{self._path}/credit", **params)

    def rank(self, contexts: Any) -> dict[str, Any]:
        """Scores of a context set, without taking a decision."""
        return dict(self._post("rank", {"contexts": encoded(contexts)}))

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
