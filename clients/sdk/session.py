"""One session on the service: its decisions and rewards, what was learned from them, its log."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, Unpack

from .answers import (
    AskedFitAnswer,
    By,
    CreditAnswer,
    CreditByArmAnswer,
    CreditByFeatureAnswer,
    DecisionAnswer,
    EpochAnswer,
    EstimateAnswer,
    FitAnswer,
    HistoryAnswer,
    LiftAnswer,
    NoEstimateAnswer,
    OneTrajectoryAnswer,
    RankAnswer,
    RoundAnswer,
    SeriesAnswer,
    SessionAnswer,
    ShadowAnswer,
    TrajectoryAnswer,
    VoidAnswer,
)
from .connection import AsyncConnection, C, Call, Connected, Listing, SyncConnection, operation
from .delivery import Received
from .settings import CopySettings, SettingChanges
from .wire import (
    Contexts,
    Decision,
    DecisionOptions,
    RewardItem,
    RewardOptions,
    as_object,
    decision_body,
    encoded,
    in_path,
    path_of,
    reward_body,
    reward_of,
    without_nan,
    without_none,
)


class SessionOperations(Connected[C]):
    """What `Session` and `AsyncSession` do. With the latter, operations are awaited.

    Attributes
    ----------
    id : str
        Its id; of `Client.session_handle`, what was given there.
    """

    def __init__(self, connection: Any, session: str, info: SessionAnswer | None = None) -> None:
        self._connection = connection
        self._info = info
        self.id = session
        self._path = path_of(session)

    def __repr__(self) -> str:
        kind, info = type(self).__name__, self._info
        if info is None:
            return f"<{kind} {self.id!r}>"
        about = f"{info['algorithm']}, {info['n_rounds']} rounds"
        return f"<{kind} {info['name'] or self.id!r}, {about}>"

    @property
    def info(self) -> SessionAnswer:
        """The session as last read.

        Raises
        ------
        LookupError
            The session was not read yet: `read` reads the session.
        """
        if self._info is None:
            raise LookupError(f"session {self.id!r} was not read yet; `read` does that")
        return self._info

    @operation
    async def decide(self, /, contexts: Contexts, **options: Unpack[DecisionOptions]) -> Decision:
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
        at : datetime or str, optional
            When it was taken, in a session with a clock.

        Raises
        ------
        ApiError
            The service refused; no decision was made. No reward was stored either, but by 503
            `fit_pending` (all were) and 503 `outcome_unknown` (repeat with the same `event_id`).
        """
        return Decision.from_json(await self._decision(options, contexts=contexts))

    @operation
    def skip(self, /, **options: Unpack[DecisionOptions]) -> Call[DecisionAnswer]:
        """Record a round without action. Takes what `decide` takes, without contexts and arms."""
        return self._decision(options, skip=True)

    @operation
    def reward(self, value: float, **options: Unpack[RewardOptions]) -> Call[Received]:
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
            Covariates measured with the value, by name: sums over its rounds. These values
            replace the covariates of the decisions.

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
        return self._send_rewards(self._reward(reward_of(value, options)))

    @operation
    def correct(self, value: float, **options: Unpack[RewardOptions]) -> Call[Received]:
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
        reward = reward_of(value, options)
        reward["correct"] = True if reward.get("replaces") is None else None
        return self._send_rewards(reward_body(reward, with_id=True))

    @operation
    def void(self, event_id: str, *, trajectory: str = "") -> Call[VoidAnswer]:
        """Say that a decision was never shown: for the next fits its round has no action.

        Its round and the rewards of it stay. This cannot be undone.
        """
        path = f"{self._path}/decisions/{in_path(event_id)}/void"
        return self._connection.call("POST", path, params={"trajectory": trajectory})

    @operation
    def rewards(self, rewards: Iterable[RewardItem | Mapping[str, Any]]) -> Call[Received]:
        """Store several rewards, all or nothing."""
        return self._send_rewards({"rewards": [self._reward(one) for one in rewards]})

    @operation
    def ask_fit(self) -> Call[AskedFitAnswer]:
        """Have a fit of all rounds so far begun now; a repeat while it is due begins no other."""
        return self._connection.call("POST", f"{self._path}/fits")

    @operation
    def history(
        self,
        contexts: Contexts,
        rewards: Sequence[float | None] | None = None,
        *,
        trajectory: str = "",
        import_id: str | None = None,
        covariates: Mapping[str, Sequence[float | None]] | None = None,
        arm_ids: Sequence[str | None] | None = None,
        at: Sequence[datetime | str] | None = None,
    ) -> Call[HistoryAnswer]:
        """Append logged rounds, to start warm.

        Parameters
        ----------
        contexts : (n_rounds, dim) nested lists or float64 array
            The selected contexts; at most 10 000 rounds a call.
        rewards : sequence of (float or None), optional
            One a round; None, or NaN, where it is not known.
        trajectory : str
        import_id : str, optional
            Idempotency key: the call can be repeated, by another process too, without appending
            twice. By default a random one.
        covariates : mapping, optional
            Covariates of the session by name, each with one number, or None, a round.
        arm_ids : sequence of (str or None), optional
            Which arm was played, one a round.
        at : sequence of (datetime or str), optional
            When each round was, none before the one before it; by default now.
        """
        body = {"contexts": encoded(contexts), "import_id": import_id or str(uuid.uuid4())}
        arms = None if arm_ids is None else list(arm_ids)
        times = None if at is None else list(at)
        body |= without_none({"trajectory": trajectory or None, "arm_ids": arms, "at": times})
        if rewards is not None:
            body["rewards"] = without_nan(rewards)
        if covariates:
            body["covariates"] = {name: without_nan(values) for name, values in covariates.items()}
        return self._post("history", body)

    @operation
    def rank(
        self, contexts: Contexts, *, trajectory: str = "", arm_ids: Sequence[str] | None = None
    ) -> Call[RankAnswer]:
        """Score a context set without making a decision."""
        arms = None if arm_ids is None else list(arm_ids)
        body = {"contexts": encoded(contexts), "trajectory": trajectory or None, "arm_ids": arms}
        return self._post("rank", without_none(body))

    @operation
    async def read(self) -> SessionAnswer:
        """Read the session as it is now; `info` keeps it."""
        info: SessionAnswer = await self._connection.call("GET", self._path)
        self._info = info
        return info

    @operation
    def estimate(self) -> Call[EstimateAnswer | NoEstimateAnswer]:
        """Return theta and the lag weights in use; {"status": "none"} before the first fit."""
        return self._get("estimate")

    @operation
    def series(
        self,
        *,
        rounds: int | None = None,
        bins: int | None = None,
        by: By | None = None,
        trajectory: str | None = None,
    ) -> Call[SeriesAnswer]:
        """Return the last rounds in bins: mean reward, and what the estimate makes it of.

        Parameters
        ----------
        rounds, bins : int, optional
            How many rounds are looked at, and how many bins they make at most.
        by : "position", "round" or "time", optional
            Bins of rounds of the session, of each trajectory's own rounds, or of equal times.
        trajectory : str, optional
            This one alone.
        """
        return self._get("series", rounds=rounds, bins=bins, by=by, trajectory=trajectory)

    @operation
    def credit_by_feature(self, *, rounds: int | None = None) -> Call[CreditByFeatureAnswer]:
        """Return what each feature earned at once, and later, in the session's last decisions."""
        return self._get("credit/features", rounds=rounds)

    @operation
    def credit_by_arm(
        self, *, rounds: int | None = None, bins: int | None = None, by: By | None = None
    ) -> Call[CreditByArmAnswer]:
        """Return how often each arm was chosen in the last decisions, and what it earned.

        `bins` and `by` cut the decisions for the arms' `shares`, as in `series`.
        """
        return self._get("credit/arms", rounds=rounds, bins=bins, by=by)

    @operation
    def lift(self, *, effect: float | None = None, adjust: bool | None = None) -> Call[LiftAnswer]:
        """Return what the agent earns beside its control group, a round.

        Parameters
        ----------
        effect : float, optional
            A difference: the answer says how many more rounds would show it.
        adjust : bool, optional
            False leaves the model's prediction out, by default it takes variance away.
        """
        return self._get("lift", effect=effect, adjust=adjust)

    @operation
    def shadow(self) -> Call[ShadowAnswer]:
        """Return how the agent's choices agree with those that its caller played."""
        return self._get("shadow")

    @operation
    def estimates(self, *, limit: int | None = None) -> Listing[FitAnswer]:
        """Iterate over the fits, oldest first. `limit`: items of a page."""
        return self._list("estimates", limit=limit)

    @operation
    def epochs(self, *, limit: int | None = None) -> Listing[EpochAnswer]:
        """Iterate over the schedule: what was fitted, what is due and why, what is next."""
        return self._list("epochs", limit=limit)

    @operation
    def trajectories(self, *, limit: int | None = None) -> Listing[TrajectoryAnswer]:
        """Iterate over the trajectories, in order of their keys."""
        return self._list("trajectories", limit=limit)

    @operation
    def trajectory(self, key: str) -> Call[OneTrajectoryAnswer]:
        """Return what is known of one trajectory: its own theta and level, beside everybody's.

        Raises
        ------
        NotFound
            404 unknown_trajectory: there is none, or it was erased.
        """
        return self._get(f"trajectories/{in_path(key)}")

    @operation
    def rounds(
        self, *, trajectory: str | None = None, limit: int | None = None
    ) -> Listing[RoundAnswer]:
        """Iterate over a trajectory's log: one item a round, oldest first."""
        return self._list("rounds", trajectory=trajectory, limit=limit)

    @operation
    def credit(
        self, *, trajectory: str | None = None, limit: int | None = None
    ) -> Listing[CreditAnswer]:
        """Iterate over past decisions: what each has earned, and is still expected to earn."""
        return self._list("credit", trajectory=trajectory, limit=limit)

    @operation
    async def change(
        self,
        *,
        name: str | None = None,
        archived: bool | None = None,
        **settings: Unpack[SettingChanges],
    ) -> SessionAnswer:
        """Rename or archive the session, change its mode, options or retention, or arm its guard.

        Options may change that mean no new model, such as `memory`; what was learned stays. Those
        that findings advise, such as `levels`, may, too: all rounds are fitted anew.
        `keep_rounds` and `keep_days` drop the rows of earlier rounds; None: no more go.
        """
        changes = {**without_none({"name": name, "archived": archived}), **settings}
        info: SessionAnswer = await self._connection.call("PATCH", self._path, json=changes)
        self._info = info
        return info

    @operation
    async def delete(self) -> None:
        """Delete the session and all its data."""
        await self._connection.call("DELETE", self._path)

    @operation
    async def erase_trajectory(self, key: str) -> None:
        """Erase all rounds and rewards of a trajectory. Erasing it again does nothing."""
        await self._connection.call("DELETE", f"{self._path}/trajectories/{in_path(key)}")

    @operation
    async def erase_feature(self, name: str) -> None:
        """Erase what a category is called, like ``user=bob``; its column stays.

        Raises
        ------
        NotFound
            404 unknown_feature: no column has the name, or not any more.
        """
        await self._connection.call("DELETE", f"{self._path}/features/{in_path(name)}")

    @operation
    async def copy(self, /, name: str | None = None, **settings: Unpack[CopySettings]) -> Self:
        """Make a session with the same rounds and rewards, and other settings.

        A fit of all its rounds is due at once; it has no estimates before.

        Parameters
        ----------
        name : str, optional
            Unique for each tenant; with it, a retry makes no second copy.
        **settings
            Where they differ from this session's.
        """
        body = {**settings, **without_none({"name": name})}
        info: SessionAnswer = await self._connection.call("POST", f"{self._path}/copy", json=body)
        return type(self)(self._connection, info["id"], info)

    def _get(self, resource: str, **params: Any) -> Call[Any]:
        members = without_none(params)
        return self._connection.call("GET", f"{self._path}/{resource}", params=members)

    def _list(self, resource: str, **params: Any) -> Listing[Any]:
        return Listing(f"{self._path}/{resource}", without_none(params), lambda item: item)

    def _decision(self, options: DecisionOptions, **more: Any) -> Call[Any]:
        members: dict[str, Any] = {**options, **more}
        members["rewards"] = [self._reward(one) for one in options.get("rewards", ())]
        members["covariates"] = as_object(options.get("covariates"))
        body = decision_body(**members)
        return self._connection.delivery.decision(self.id, self._path, body)

    def _send_rewards(self, body: dict[str, Any]) -> Call[Received]:
        return self._connection.delivery.rewards(self.id, self._path, body)

    def _post(self, resource: str, body: dict[str, Any]) -> Call[Any]:
        return self._connection.call("POST", f"{self._path}/{resource}", json=body)

    def _reward(self, reward: Mapping[str, Any]) -> dict[str, Any]:
        is_sum = self._info is None or self._info["reward_mode"] == "sum"
        return reward_body(reward, with_id=is_sum)


class Session(SessionOperations[SyncConnection]):
    """One durable agent on the service."""


class AsyncSession(SessionOperations[AsyncConnection]):
    """One durable agent on the service; its operations are awaited."""
