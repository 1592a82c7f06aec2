"""One session on the service: its decisions, rewards and what was learned from them."""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from .retries import RetryingClient
from .wire import Decision, decision_body, encoded


class Session:
    """One durable agent on the service. `info` is the session as last read."""

    def __init__(self, client: RetryingClient, info: dict[str, Any]) -> None:
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
        """Choose one row of `contexts`.

        Parameters
        ----------
        contexts : (n_arms, dim) nested lists or float64 array
        rewards : iterable of mappings
            Rewards of earlier rounds to store first, such as {"round": 3, "value": 0.5}.
        trajectory : str
            Whose round this is.
        event_id : str, optional
            Idempotency key; by default a random one.
        arm_ids : sequence of str, optional
            A name for each arm, echoed in the answer.
        **body
            forced_arm: the arm that was shown, where something else decided.

        Raises
        ------
        ApiError
            The service refused; no decision was made. No reward was stored either, but by 503
            `fit_pending` (all were) and 503 `outcome_unknown` (repeat with the same `event_id`).
        """
        body |= {"rewards": list(rewards), "trajectory": trajectory, "arm_ids": arm_ids}
        asked = decision_body(contexts=contexts, event_id=event_id, **body)
        return Decision.from_json(self._post("decisions", asked))

    def skip(self, **body: Any) -> dict[str, Any]:
        """Record a round without action. Takes what `decide` takes, without contexts and arms."""
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
        """Store one reward, measured over a round or a span of rounds.

        Parameters
        ----------
        value : float
        round, event_id, first_round with last_round, at
            Exactly one of these says when it was measured: a round, a decision's round, a span, or
            (in sum mode) the round under way at a time: a datetime with an offset, or RFC 3339.
        reward_id : str, optional
            Idempotency key; required in sum mode.
        trajectory : str

        Raises
        ------
        Conflict
            The round has another value already.
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
        """Append logged rounds, to start warm.

        Parameters
        ----------
        contexts : (n_rounds, dim) nested lists or float64 array
            The selected contexts; at most 10 000 rounds a call.
        rewards : sequence of (float or None), optional
            One a round; None where it is not known.
        trajectory : str
        import_id : str, optional
            Idempotency key: the call can be repeated, by another process too, without appending
            twice. By default a random one.
        """
        body = {"contexts": encoded(contexts), "import_id": import_id or str(uuid.uuid4())}
        optional = {"rewards": rewards, "trajectory": trajectory or None}
        body |= {key: value for key, value in optional.items() if value is not None}
        return dict(self._post("history", body))

    def credit(self, **params: Any) -> Iterator[dict[str, Any]]:
        """Iterate over past decisions: what each has earned, and is still expected to earn."""
        return self._client.pages(f"{self._path}/credit", **params)

    def rank(self, contexts: Any) -> dict[str, Any]:
        """Score a context set without making a decision."""
        return dict(self._post("rank", {"contexts": encoded(contexts)}))

    def estimate(self) -> dict[str, Any]:
        """Return theta and the lag weights in use; {"status": "none"} before the first fit."""
        return dict(self._client.request("GET", f"{self._path}/estimate"))

    def estimates(self) -> Iterator[dict[str, Any]]:
        """Iterate over the fits, oldest first."""
        return self._client.pages(f"{self._path}/estimates")

    def trajectories(self, **params: Any) -> Iterator[dict[str, Any]]:
        """Iterate over trajectories: how many rounds each has, and how many lack a reward."""
        return self._client.pages(f"{self._path}/trajectories", **params)

    def rounds(self, **params: Any) -> Iterator[dict[str, Any]]:
        """Iterate over the log: one item a round, oldest first.

        `trajectory` says whose log it is, where the session has more than the one without a key.
        """
        return self._client.pages(f"{self._path}/rounds", **params)

    def epochs(self) -> Iterator[dict[str, Any]]:
        """Iterate over the schedule: what was fitted, what is due and why, what is next."""
        return self._client.pages(f"{self._path}/epochs")

    def delete(self) -> None:
        """Delete the session and all its data."""
        self._client.request("DELETE", self._path)

    def _post(self, resource: str, body: dict[str, Any]) -> Any:
        return self._client.request("POST", f"{self._path}/{resource}", json=body)
