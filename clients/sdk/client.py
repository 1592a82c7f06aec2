"""The Python client of the service.

    with Client("http://127.0.0.1:8080") as client:
        session = client.create_session("shop", algorithm="ad_lasso", dim=5, horizon=100)
        decision = session.decide(contexts)
        session.reward(1.5, round=decision.round)

`AsyncClient` does the same with `await`. Every write carries an idempotency key that the client
makes (a session's name, a decision's event_id), so a retry after a lost answer gets the first
answer and never acts twice.
"""

import uuid
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack

from .answers import AlgorithmAnswer, ItemAnswer, NewWebhookAnswer, SessionAnswer, WebhookAnswer
from .connection import AsyncConnection, C, Call, Connected, Listing, SyncConnection, operation
from .delivery import RefusedReward, RewardBuffer
from .errors import Conflict, NotFound
from .session import AsyncSession, Session
from .settings import SessionSettings
from .wire import BatchItem, decision_body, path_of, reaching, reward_body, without_none

S = TypeVar("S", Session, AsyncSession)
URL = "http://127.0.0.1:8080"


class ClientOperations(Connected[C], Generic[C, S]):
    """What `Client` and `AsyncClient` do. With the latter, operations are awaited.

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
    buffer : path, optional
        A file that keeps rewards until the service has answered (`docs/how-to.md`). A missing
        file is made; what an earlier program has left in it is sent.
    buffer_limit : int
        Rewards that the file holds. Beyond it a reward is refused with `BufferFull`; none that is
        kept is given up.
    transport : httpx transport, optional
        For tests.
    """

    _connect: ClassVar[type[Any]]
    _make: type[S]

    def __init__(
        self,
        url: str = URL,
        *,
        api_key: str | None = None,
        timeout: float = 45.0,
        n_retries: int = 5,
        buffer: str | PathLike[str] | None = None,
        buffer_limit: int = 100_000,
        transport: Any = None,
    ) -> None:
        file = None if buffer is None else RewardBuffer(Path(buffer), buffer_limit)
        how = {**reaching(url, api_key), "timeout": timeout, "transport": transport}
        self._connection = self._connect(how, n_retries, file)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.url!r})"

    @operation
    def request(self, /, method: str, path: str, **options: Any) -> Call[Any]:
        """Make one call, with retries.

        Parameters
        ----------
        method, path : str
        **options
            Arguments of httpx: json, params.

        Raises
        ------
        ApiError
            The service refused the request.
        Unavailable
            The service was not reached by any attempt.
        """
        return self._connection.call(method, path, **options)

    @operation
    def create_session(
        self, /, name: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Call[S]:
        """Create a session, or find the one that has this name and these settings.

        Parameters
        ----------
        name : str, optional
            Unique for each tenant; by default a random one.
        **settings
            `dim` (numbers in a context) and `horizon` (number of lags), and what shall not be as
            by default. `algorithms` lists the algorithms and their options.

        Raises
        ------
        Conflict
            A session of this name has other settings.
        """
        return self._create(name, settings)

    @operation
    async def get_or_create(self, /, name: str, **settings: Unpack[SessionSettings]) -> S:
        """Return the session of this name, whatever its settings; create it if there is none.

        Takes what `create_session` takes. An archived session is found too.
        """
        try:
            info: SessionAnswer = await self._connection.call("GET", path_of(name))
        except NotFound:
            try:
                return await self._create(name, settings)
            except Conflict:  # another program has just made it
                info = await self._connection.call("GET", path_of(name))
        return self._session(info)

    @operation
    async def session(self, session: str) -> S:
        """Return an existing session, by its id or its name."""
        return self._session(await self._connection.call("GET", path_of(session)))

    def session_handle(self, session: str) -> S:
        """Return a session by its id or its name, without asking the service for it.

        For a program that has rewards to give while the service is away.
        """
        return self._make(self._connection, session)

    @operation
    def sessions(
        self, *, name: str | None = None, archived: bool = False, limit: int | None = None
    ) -> Listing[S]:
        """Iterate over sessions.

        Parameters
        ----------
        name : str, optional
            Only the session of this name.
        archived : bool
            Archived ones too.
        limit : int, optional
            Sessions of a page.
        """
        params = without_none({"name": name, "archived": archived, "limit": limit})
        return Listing("/v1/sessions", params, self._session)

    @operation
    async def algorithms(self) -> list[AlgorithmAnswer]:
        """List the algorithms, each with the schema of its options."""
        listed = await self._connection.call("GET", "/v1/algorithms")
        return list(listed["items"])

    @operation
    async def batch(self, items: Iterable[BatchItem | Mapping[str, Any]]) -> list[ItemAnswer]:
        """Make decisions and store rewards of many sessions in one transaction.

        Parameters
        ----------
        items : iterable of mappings
            At most 1000, each {"session_id": ..., "decision": {...}} or
            {"session_id": ..., "reward": {...}}, as the routes take them; contexts may be an array.
            The buffer does not keep these rewards.

        Returns
        -------
        list of dict
            An answer an item, in order: `status`, and `decision`, `reward` or `problem`.
        """
        bodies: list[dict[str, Any]] = [dict(item) for item in items]
        for item in bodies:
            if "decision" in item:
                item["decision"] = decision_body(**item["decision"])
            if "reward" in item:
                item["reward"] = reward_body(item["reward"])
        answer = await self._connection.call("POST", "/v1/batch", json={"items": bodies})
        return list(answer["items"])

    @operation
    def create_webhook(
        self, /, url: str, events: Iterable[str] | None = None
    ) -> Call[NewWebhookAnswer]:
        """Have a URL told of events, by default of all; the answer alone has the secret.

        Webhooks need an admin's key.
        """
        body = without_none({"url": url, "events": None if events is None else list(events)})
        return self._connection.call("POST", "/v1/webhooks", json=body)

    @operation
    async def webhooks(self) -> list[WebhookAnswer]:
        """List the webhooks, with what waits for each and why its last attempt failed."""
        return list((await self._connection.call("GET", "/v1/webhooks"))["items"])

    @operation
    def try_webhook(self, /, webhook: str) -> Call[None]:
        """Send a webhook a message of the type "test"."""
        return self._connection.call("POST", f"/v1/webhooks/{webhook}/test")

    @operation
    def remove_webhook(self, /, webhook: str) -> Call[None]:
        """Remove a webhook, with the messages that wait for it."""
        return self._connection.call("DELETE", f"/v1/webhooks/{webhook}")

    @operation
    def flush(self) -> Call[int]:
        """Send the rewards that the buffer keeps; return how many still wait."""
        return self._connection.delivery.flush()

    @operation
    def close(self) -> Call[None]:
        """Close the connections; what the buffer keeps is sent once more before."""
        return self._connection.close()

    def refused_rewards(self, *, forget: bool = False) -> list[RefusedReward]:
        """Return kept rewards that the service refused; `forget` makes room of them."""
        buffer = self._connection.delivery.buffer
        return [] if buffer is None else buffer.refused(forget=forget)

    async def _create(self, name: str | None, settings: SessionSettings) -> S:
        body = {"name": name or f"session-{uuid.uuid4()}", **without_none(settings)}
        return self._session(await self._connection.call("POST", "/v1/sessions", json=body))

    def _session(self, info: SessionAnswer) -> S:
        return self._make(self._connection, info["id"], info)


class Client(ClientOperations[SyncConnection, Session]):
    """A connection to one service. `ClientOperations` says what it takes and does."""

    _connect = SyncConnection
    _make = Session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(ClientOperations[AsyncConnection, AsyncSession]):
    """A connection to one service whose operations are awaited; else like `Client`."""

    _connect = AsyncConnection
    _make = AsyncSession

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
