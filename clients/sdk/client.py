"""The Python client of the service.

    with Client("http://127.0.0.1:8080") as client:
        session = client.create_session("shop", algorithm="ad_lasso", dim=5, horizon=100)
        decision = session.decide(contexts)
        session.reward(1.5, round=decision.round)

Every write carries an idempotency key that the client makes (a session's name, a decision's
event_id), so a retry after a lost answer gets the first answer and never acts twice.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from .retries import RetryingClient
from .session import Session
from .wire import decision_body


class Client(RetryingClient):
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
    ) -> Session:
        """Create a session, or find the one that has this name and these settings.

        Parameters
        ----------
        name : str, optional
            Unique for each tenant; by default a random one.
        dim : int
            Numbers in a context.
        horizon : int
            Number of lags.
        algorithm, seed, options : optional
            By default those of the service. `algorithms` lists what there is.
        **settings
            reward_mode, reward_wait_seconds, default_reward, refit.

        Raises
        ------
        Conflict
            A session of this name has other settings.
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

    def session(self, session_id: str) -> Session:
        """Return an existing session, by its id or its name."""
        return Session(self, self.request("GET", f"/v1/sessions/{quote(session_id, safe='')}"))

    def sessions(self, **filters: Any) -> Iterator[Session]:
        """Iterate over all sessions, page by page."""
        return (Session(self, info) for info in self.pages("/v1/sessions", **filters))

    def algorithms(self) -> list[dict[str, Any]]:
        """List the algorithms, each with the schema of its options."""
        return list(self.request("GET", "/v1/algorithms")["items"])

    def batch(self, items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Make decisions and store rewards of many sessions in one transaction.

        Parameters
        ----------
        items : iterable of mappings
            At most 1000, each {"session_id": ..., "decision": {...}} or
            {"session_id": ..., "reward": {...}}, as the routes take them; contexts may be an array.

        Returns
        -------
        list of dict
            An answer an item, in order: `status`, and `decision`, `reward` or `problem`.
        """
        asked = [dict(item) for item in items]
        for item in asked:
            if "decision" in item:
                item["decision"] = decision_body(**item["decision"])
        return list(self.request("POST", "/v1/batch", json={"items": asked})["items"])
