"""JSON over HTTP, with retries after lost connections and refusals that pass."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx

from .wire import RETRY_STATUS, answer_of, authorization, backoff


class RetryingClient:
    """Connections to one service. `Client` has the parameters."""

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
        """Make one call, with retries.

        Returns
        -------
        object
            The parsed JSON answer; None where it is empty.

        Raises
        ------
        ApiError
            The service refused the request.
        httpx.TransportError
            The service was not reached by any attempt.
        """
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

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Iterate over every item of a listing, following its cursor."""
        cursor: str | None = None
        while True:
            query = params if cursor is None else {**params, "cursor": cursor}
            page = self.request("GET", path, params=query)
            yield from page["items"]
            cursor = page.get("next")
            if cursor is None:
                return
