"""Sending rewards: straight to the service, or by way of a buffer on disk.

With a buffer, a reward is on disk before it is sent, and leaves it when the service has answered.
What is sent again after a lost answer, or after a crash of this program, counts once: the service
knows it by its `reward_id`, or by its rounds and value. Retries of one request are those of
`connection.Connection.call`.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

import httpx

from .answers import ItemAnswer, ProblemAnswer
from .errors import ApiError, BufferFull, error_of
from .reward_buffer import Kept, RewardBuffer
from .steps import Steps, Work
from .wire import RETRY_STATUS, backoff

PAGE = 500  # bodies of one request
BESIDE = 4  # requests at most, with what was kept before, that a new reward waits for
log = logging.getLogger("lhb")


class Received(TypedDict):
    """How many rewards were new, how many were known already, how many wait on this disk."""

    accepted: int
    repeated: int
    kept: int


class Delivery:
    """The way of rewards to the service.

    Parameters
    ----------
    call : callable
        `Connection.call`.
    buffer : RewardBuffer or None
        None: an error says that a reward was not stored.
    """

    def __init__(self, call: Callable[..., Steps[Any]], buffer: RewardBuffer | None) -> None:
        self._call = call
        self.buffer = buffer
        self._n_failures = 0  # in a row
        self._again_at = 0.0  # while the service is away, it is not asked for each reward

    def rewards(self, session: str, path: str, body: dict[str, Any]) -> Steps[Received]:
        """Send a body of one reward or several; raise the service's refusal of it."""
        n = len(body["rewards"]) if "rewards" in body else 1
        if self.buffer is None:
            answer = yield from self._call("POST", f"{path}/rewards", json=body)
            return {"accepted": answer["accepted"], "repeated": answer["repeated"], "kept": 0}
        number = yield from self._keep(self.buffer, session, body)
        answered = yield from self._send(self.buffer, BESIDE, own=number)
        if number not in answered:
            return {"accepted": 0, "repeated": 0, "kept": n}
        item = answered[number]
        if "problem" in item:
            raise error_of(item["status"], item["problem"])
        return {**item["reward"], "kept": 0}

    def decision(self, session: str, path: str, body: dict[str, Any]) -> Steps[Any]:
        """Send a decision's body. The rewards in it are kept until it is answered."""
        numbers = []
        if self.buffer is not None and "rewards" in body:
            rewards: dict[str, Any] = {
                name: body[name] for name in ("rewards", "trajectory") if name in body
            }
            numbers.append((yield from self._keep(self.buffer, session, rewards)))
        try:
            answer = yield from self._call("POST", f"{path}/decisions", json=body)
        except ApiError as error:
            if self.buffer is not None and not _passes(error):
                yield Work(partial(self.buffer.settle, numbers, {}))
            raise
        if self.buffer is not None:
            yield Work(partial(self.buffer.settle, numbers, {}))
            yield from self.send_once()  # the decision is made, whatever becomes of old rewards
        return answer

    def flush(self) -> Steps[int]:
        """Send all that waits; return how many rewards still do."""
        if self.buffer is None:
            return 0
        self._again_at = 0.0
        yield from self._send(self.buffer)
        n: int = yield Work(self.buffer.n_waiting)
        return n

    def send_once(self) -> Steps[None]:
        """Send what waits, unless the service was away a moment ago; no error is raised."""
        if self.buffer is None:
            return
        try:
            yield from self._send(self.buffer, BESIDE)
        except ApiError as error:
            log.warning("rewards are kept on disk: %s", error)

    def _keep(self, buffer: RewardBuffer, session: str, body: dict[str, Any]) -> Steps[int]:
        keep = Work(partial(buffer.keep, session, body))
        number: int
        try:
            number = yield keep
        except BufferFull:
            yield from self._send(buffer, BESIDE)
            number = yield keep
        return number

    def _send(
        self, buffer: RewardBuffer, n_pages: int | None = None, own: int | None = None
    ) -> Steps[dict[int, ItemAnswer]]:
        """Send what waits, oldest first, unless the service was away a moment ago.

        Parameters
        ----------
        buffer : RewardBuffer
        n_pages : int, optional
            Requests at most.
        own : int, optional
            Number of a body whose refusal the caller is told: it is not noted.

        Returns
        -------
        dict of ItemAnswer
            The service's answer to each body that it stored or refused, by number.
        """
        answered: dict[int, ItemAnswer] = {}
        if time.monotonic() < self._again_at:
            return answered
        number, size = 0, PAGE
        while n_pages is None or n_pages > 0:
            page: list[Kept] = yield Work(partial(buffer.after, number, size))
            if not page:
                break
            asked = {"items": [{"session_id": one.session, "reward": one.body} for one in page]}
            items: list[ItemAnswer]
            try:
                items = (yield from self._call("POST", "/v1/batch", json=asked, n_retries=1))[
                    "items"
                ]
            except (ApiError, httpx.TransportError) as error:
                if isinstance(error, ApiError) and error.code == "body_too_large":
                    if size > 1:
                        size = 1
                        continue
                    items = [{"status": error.status, "problem": _problem(error)}]
                elif isinstance(error, ApiError) and not _passes(error):
                    raise
                else:
                    self._again_at = time.monotonic() + backoff(self._n_failures, None)
                    self._n_failures += 1
                    break
            self._n_failures = 0
            number = page[-1].number
            n_pages = None if n_pages is None else n_pages - 1
            found = {
                one.number: item
                for one, item in zip(page, items, strict=True)
                if not _passes_by(item["status"])
            }
            yield Work(partial(_settle, buffer, page, found, own))
            answered |= found
        return answered


def _settle(
    buffer: RewardBuffer, page: list[Kept], found: dict[int, ItemAnswer], own: int | None
) -> None:
    refused: dict[int, ProblemAnswer] = {}
    for one in page:
        item = found.get(one.number)
        if item is not None and "problem" in item and one.number != own:
            refused[one.number] = item["problem"]
            detail = item["problem"]["detail"]
            log.warning("the service refused a kept reward of session %s: %s", one.session, detail)
    buffer.settle(found.keys() - refused.keys(), refused)


def _passes(error: ApiError) -> bool:
    return _passes_by(error.status)


def _passes_by(status: int) -> bool:
    """Whether a refusal passes by itself: what is sent again later may be stored."""
    return status in RETRY_STATUS or status >= 500


def _problem(error: ApiError) -> ProblemAnswer:
    return {
        "type": "about:blank",
        "title": error.code,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "field": error.field,
    }
