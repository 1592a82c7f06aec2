"""One session on the service: its decisions, rewards and what was learned from them."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from .answers import AskedFitAnswer, DecisionAnswer, HistoryAnswer, RankAnswer, VoidAnswer
from .connection import AsyncConnection, SyncConnection
from .delivery import Received
from .session_changes import SessionChanges
from .steps import Async, Steps, Sync, operation
from .wire import Contexts, Decision, RewardItem, decision_body, encoded, given, reward_body, told


class SessionOperations(SessionChanges):
    """What `Session` and `AsyncSession` do. With the latter, operations are awaited."""

    @operation
    def decide(
        self,
        /,
        contexts: Contexts,
        *,
        rewards: Iterable[RewardItem | Mapping[str, Any]] = (),
        trajectory: str = "",
        event_id: str | None = None,
        arm_ids: Sequence[str] | None = None,
        forced_arm: int | str | None = None,
        default_arm: int | str | None = None,
        covariates: Mapping[str, float] | None = None,
        **body: Any,
    ) -> Steps[Decision]:
        """Choose one row of `contexts`.

        Parameters
        ----------
        contexts : (n_arms, dim) nested lists or float64 array, or a mapping for each arm
        rewards : iterable of mappings
            Rewards of earlier rounds to store first, such as {"round": 3, "value": 0.5}.
        trajectory : str
            Whose round this is.
        event_id : str, optional
            Idempotency key; by default a random one.
        arm_ids : sequence of str, optional
            A name for each arm, echoed in the answer.
        forced_arm : int or str, optional
            The arm that was shown, where something else decided: its index or its id.
        default_arm : int or str, optional
            The arm that control plays, in a session with a holdout.
        covariates : mapping, optional
            Covariates of the session in this round, by name.
        **body
            Further members of the body, such as `at` in a session with a clock.

        Raises
        ------
        ApiError
            The service refused; no decision was made. No reward was stored either, but by 503
            `fit_pending` (all were) and 503 `outcome_unknown` (repeat with the same `event_id`).
        """
        asked = decision_body(
            contexts=contexts,
            event_id=event_id,
            rewards=[self._reward(one) for one in rewards],
            trajectory=trajectory,
            arm_ids=None if arm_ids is None else list(arm_ids),
            forced_arm=forced_arm,
            default_arm=default_arm,
            covariates=told(covariates),
            **body,
        )
        return Decision.from_json((yield from self._decision(asked)))

    @operation
    def skip(
        self,
        /,
        *,
        rewards: Iterable[RewardItem | Mapping[str, Any]] = (),
        trajectory: str = "",
        event_id: str | None = None,
        **body: Any,
    ) -> Steps[DecisionAnswer]:
        """Record a round without action. Takes what `decide` takes, without contexts and arms."""
        riding = [self._reward(one) for one in rewards]
        asked = decision_body(
            skip=True, rewards=riding, trajectory=trajectory, event_id=event_id, **body
        )
        answer: DecisionAnswer = yield from self._decision(asked)
        return answer

    @operation
    def reward(
        self,
        value: float,
        *,
        round: int | None = None,
        event_id: str | None = None,
        first_round: int | None = None,
        last_round: int | None = None,
        interval: tuple[datetime | str, datetime | str] | None = None,
        at: datetime | str | None = None,
        reward_id: str | None = None,
        trajectory: str = "",
        covariates: Mapping[str, float] | None = None,
    ) -> Steps[Received]:
        """Store one reward, measured over a round, a span of rounds or an interval of time.

        Parameters
        ----------
        value : float
        round, event_id, first_round with last_round, interval, at
            Exactly one of these says when it was measured: a round, a decision's round, a span, the
            rounds that began in an interval (its end not included), or (in sum mode) the round
            under way at a time. A time is a datetime with an offset, or RFC 3339. With a clock, it
            is an interval of whole slots.
        reward_id : str, optional
            Idempotency key; in sum mode by default a random one.
        trajectory : str
        covariates : mapping, optional
            Covariates measured with the value, by name: sums over its rounds. They take the place
            of what the decisions said.

        Returns
        -------
        Received
            With a buffer, `kept` is 1 if the reward waits on disk: the service is away.

        Raises
        ------
        Conflict
            The round has another value already.
        BufferFull
            The service is away, and the buffer has no room.
        """
        reward = {
            "value": value,
            "round": round,
            "event_id": event_id,
            "first_round": first_round,
            "last_round": last_round,
            "from": interval and interval[0],
            "to": interval and interval[1],
            "at": at,
            "reward_id": reward_id,
            "trajectory": trajectory or None,
            "covariates": told(covariates),
        }
        return self._send_rewards(self._reward(reward))

    @operation
    def correct(
        self,
        value: float,
        *,
        replaces: str | None = None,
        round: int | None = None,
        event_id: str | None = None,
        first_round: int | None = None,
        last_round: int | None = None,
        interval: tuple[datetime | str, datetime | str] | None = None,
        reward_id: str | None = None,
        trajectory: str = "",
        covariates: Mapping[str, float] | None = None,
    ) -> Steps[Received]:
        """Replace a value that the service has: the next fit uses this one; both stay in the log.

        Parameters
        ----------
        value : float
            What the value should have been.
        replaces, round, event_id, first_round with last_round, interval
            Exactly one of these says what is corrected: a reward by its id (in sum mode always),
            or the value of these rounds.
        reward_id : str, optional
            Idempotency key of the correction; by default a random one.
        trajectory : str
        covariates : mapping, optional
            As of `reward`; by default those of the value that it replaces.

        Raises
        ------
        NotFound
            There is no such value.
        Conflict
            The algorithm takes no corrections (`no_corrections`), or the rounds are not those of
            one value.
        """
        reward = {
            "value": value,
            "replaces": replaces,
            "correct": True if replaces is None else None,
            "round": round,
            "event_id": event_id,
            "first_round": first_round,
            "last_round": last_round,
            "from": interval and interval[0],
            "to": interval and interval[1],
            "reward_id": reward_id,
            "trajectory": trajectory or None,
            "covariates": told(covariates),
        }
        return self._send_rewards(reward_body(reward, with_id=True))

    @operation
    def void(self, event_id: str, *, trajectory: str = "") -> Steps[VoidAnswer]:
        """Say that a decision was never shown: for the next fits its round has no action.

        Its round and the rewards of it stay. This cannot be undone.
        """
        path = f"{self._path}/decisions/{quote(event_id, safe='')}/void"
        answer: VoidAnswer
        answer = yield from self._connection.call("POST", path, params={"trajectory": trajectory})
        return answer

    @operation
    def rewards(self, rewards: Iterable[RewardItem | Mapping[str, Any]]) -> Steps[Received]:
        """Store several rewards, all or nothing."""
        return self._send_rewards({"rewards": [self._reward(one) for one in rewards]})

    @operation
    def ask_fit(self) -> Steps[AskedFitAnswer]:
        """Have a fit of all rounds so far begun now; a repeat while it is due begins no other."""
        answer: AskedFitAnswer
        answer = yield from self._connection.call("POST", f"{self._path}/fits")
        return answer

    @operation
    def history(
        self,
        contexts: Contexts,
        rewards: Sequence[float | None] | None = None,
        *,
        trajectory: str = "",
        import_id: str | None = None,
        covariates: Mapping[str, Sequence[float | None]] | None = None,
    ) -> Steps[HistoryAnswer]:
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
        covariates : mapping, optional
            Covariates of the session by name, each with one number, or None, a round.
        """
        body = {"contexts": encoded(contexts), "import_id": import_id or str(uuid.uuid4())}
        body |= given({"rewards": rewards, "trajectory": trajectory or None})
        if covariates:
            body["covariates"] = {name: list(values) for name, values in covariates.items()}
        answer: HistoryAnswer = yield from self._post("history", body)
        return answer

    @operation
    def rank(
        self, contexts: Contexts, *, trajectory: str = "", arm_ids: Sequence[str] | None = None
    ) -> Steps[RankAnswer]:
        """Score a context set without making a decision."""
        body: dict[str, Any] = {"contexts": encoded(contexts)}
        if trajectory:
            body["trajectory"] = trajectory
        if arm_ids is not None:
            body["arm_ids"] = list(arm_ids)
        answer: RankAnswer = yield from self._post("rank", body)
        return answer

    def _decision(self, body: dict[str, Any]) -> Steps[Any]:
        return self._connection.delivery.decision(self.id, self._path, body)

    def _send_rewards(self, body: dict[str, Any]) -> Steps[Received]:
        return self._connection.delivery.rewards(self.id, self._path, body)

    def _post(self, resource: str, body: dict[str, Any]) -> Steps[Any]:
        return self._connection.call("POST", f"{self._path}/{resource}", json=body)

    def _reward(self, reward: Mapping[str, Any]) -> dict[str, Any]:
        is_sum = self._info is None or self._info["reward_mode"] == "sum"
        return reward_body(reward, with_id=is_sum)


class Session(Sync, SessionOperations):
    """One durable agent on the service."""

    _connection: SyncConnection


class AsyncSession(Async, SessionOperations):
    """One durable agent on the service; its operations are awaited."""

    _connection: AsyncConnection
