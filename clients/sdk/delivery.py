"""Sending rewards: straight to the service, or by way of a buffer on disk.

With a buffer, a reward is on disk before it is sent, and leaves it when the service has answered.
What is sent again after a lost answer, or after a crash of this program, counts once: the service
knows it by its `reward_id`, or by its rounds and value. Retries of one request are those of
`connection.Connection.call`.
"""

import json
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypedDict

from .answers import ItemAnswer, ProblemAnswer
from .errors import ApiError, BufferFull, error_of
from .wire import RETRY_STATUS, backoff, dumps

SCHEMA = """
create table if not exists kept (
    number integer primary key autoincrement,
    session text not null,
    body text not null,
    n_rewards integer not null,
    problem text -- why the service refused it; null: not sent yet
)
"""
WAIT_SECONDS = 30.0  # for another process that writes the file
PAGE = 500  # bodies of one request
BESIDE = 4  # requests at most, with what was kept before, that a new reward waits for
log = logging.getLogger("lhb")


@dataclass(frozen=True, slots=True)
class Kept:
    """A body of one reward, or of several that are stored all or nothing."""

    number: int
    session: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RefusedReward:
    """What the service refused of what was kept, and why."""

    session: str
    body: dict[str, Any]
    problem: ProblemAnswer


class RewardBuffer:
    """A file of SQLite, synced before a reward counts as kept; threads and processes may share it.

    A file a service: session names and ids say nothing of the server. `limit` counts rewards that
    the file holds, refused ones too.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        # autocommit, except in a block of the connection that says begin
        self._file = sqlite3.connect(
            path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._file.execute("pragma journal_mode = wal")
        self._file.execute("pragma synchronous = full")
        self._file.execute(SCHEMA)

    def keep(self, session: str, body: dict[str, Any]) -> int:
        """Keep a body; on return it is on the disk. Return its number.

        Raises BufferFull where there is no room. Nothing that is kept is given up for it.
        """
        n = len(body["rewards"]) if "rewards" in body else 1
        with self._lock, self._file:
            self._file.execute("begin immediate")
            held = self._file.execute("select coalesce(sum(n_rewards), 0) from kept")
            if held.fetchone()[0] + n > self._limit:
                raise BufferFull(self._limit)
            row = self._file.execute(
                "insert into kept (session, body, n_rewards) values (?, ?, ?)",
                (session, dumps(body), n),
            )
        assert row.lastrowid is not None
        return row.lastrowid

    def after(self, number: int, limit: int) -> list[Kept]:
        """Return what is not sent yet, in the order of its coming, after a number."""
        with self._lock:
            rows = self._file.execute(
                "select number, session, body from kept where number > ? and problem is null"
                " order by number limit ?",
                (number, limit),
            ).fetchall()
        return [Kept(number, session, json.loads(body)) for number, session, body in rows]

    def settle(self, sent: Iterable[int], refused: Mapping[int, ProblemAnswer]) -> None:
        """Forget what the service has stored; note what it refused."""
        with self._lock, self._file:
            self._file.execute("begin immediate")
            self._file.executemany("delete from kept where number = ?", [(n,) for n in sent])
            self._file.executemany(
                "update kept set problem = ? where number = ?",
                [(json.dumps(problem), number) for number, problem in refused.items()],
            )

    def n_waiting(self) -> int:
        """Return how many rewards are not sent yet."""
        with self._lock:
            rows = self._file.execute(
                "select coalesce(sum(n_rewards), 0) from kept where problem is null"
            )
            n: int = rows.fetchone()[0]
        return n

    def refused(self, *, forget: bool = False) -> list[RefusedReward]:
        """Return what the service refused, oldest first; `forget` deletes them."""
        with self._lock, self._file:
            self._file.execute("begin immediate")
            rows = self._file.execute(
                "select number, session, body, problem from kept where problem is not null"
                " order by number"
            ).fetchall()
            if forget:
                numbers = [(row[0],) for row in rows]
                self._file.executemany("delete from kept where number = ?", numbers)
        return [
            RefusedReward(session, json.loads(body), json.loads(problem))
            for _, session, body, problem in rows
        ]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


class Received(TypedDict):
    """How many rewards were new, how many were known already, how many wait on this disk."""

    accepted: int
    repeated: int
    kept: int


class Delivery:
    """The way of rewards to the service; without a buffer an error says that one was not stored."""

    def __init__(
        self,
        call: Callable[..., Awaitable[Any]],
        work: Callable[..., Awaitable[Any]],
        buffer: RewardBuffer | None,
    ) -> None:
        self._call, self._work = call, work
        self.buffer = buffer
        self._n_failures = 0  # in a row
        self._again_at = 0.0  # while the service is away, it is not asked for each reward

    async def rewards(self, session: str, path: str, body: dict[str, Any]) -> Received:
        """Send a body of one reward or several; raise the service's refusal of it."""
        n = len(body["rewards"]) if "rewards" in body else 1
        if self.buffer is None:
            answer = await self._call("POST", f"{path}/rewards", json=body)
            return {"accepted": answer["accepted"], "repeated": answer["repeated"], "kept": 0}
        number = await self._keep(self.buffer, session, body)
        answered = await self._send(self.buffer, BESIDE, own=number)
        if number not in answered:
            return {"accepted": 0, "repeated": 0, "kept": n}
        item = answered[number]
        if "problem" in item:
            raise error_of(item["status"], item["problem"])
        return {**item["reward"], "kept": 0}

    async def decision(self, session: str, path: str, body: dict[str, Any]) -> Any:
        """Send a decision's body. The rewards in it are kept until it is answered."""
        numbers = []
        if self.buffer is not None and "rewards" in body:
            rewards: dict[str, Any] = {
                name: body[name] for name in ("rewards", "trajectory") if name in body
            }
            numbers.append(await self._keep(self.buffer, session, rewards))
        try:
            answer = await self._call("POST", f"{path}/decisions", json=body)
        except ApiError as error:
            if self.buffer is not None and not _passes(error.status):
                await self._work(self.buffer.settle, numbers, {})
            raise
        if self.buffer is not None:
            await self._work(self.buffer.settle, numbers, {})
            await self.send_once()  # the decision is made, whatever becomes of old rewards
        return answer

    async def flush(self) -> int:
        """Send all that waits; return how many rewards still do."""
        if self.buffer is None:
            return 0
        self._again_at = 0.0
        await self._send(self.buffer)
        n: int = await self._work(self.buffer.n_waiting)
        return n

    async def send_once(self) -> None:
        """Send what waits, unless the service was away a moment ago; no error is raised."""
        if self.buffer is None:
            return
        try:
            await self._send(self.buffer, BESIDE)
        except ApiError as error:
            log.warning("rewards are kept on disk: %s", error)

    async def _keep(self, buffer: RewardBuffer, session: str, body: dict[str, Any]) -> int:
        number: int
        try:
            number = await self._work(buffer.keep, session, body)
        except BufferFull:
            await self._send(buffer, BESIDE)
            number = await self._work(buffer.keep, session, body)
        return number

    async def _send(
        self, buffer: RewardBuffer, n_pages: int | None = None, own: int | None = None
    ) -> dict[int, ItemAnswer]:
        """Send what waits, oldest first, unless the service was away a moment ago.

        At most `n_pages` requests. Returns the service's answer to each body that it stored or
        refused, by number; a refusal of the body `own` is for the caller, and is not noted.
        """
        answered: dict[int, ItemAnswer] = {}
        if time.monotonic() < self._again_at:
            return answered
        number, size = 0, PAGE
        while n_pages is None or n_pages > 0:
            page: list[Kept] = await self._work(buffer.after, number, size)
            if not page:
                break
            batch = {"items": [{"session_id": one.session, "reward": one.body} for one in page]}
            items: list[Any]
            try:
                items = (await self._call("POST", "/v1/batch", json=batch, n_retries=1))["items"]
            except ApiError as error:
                if error.code == "body_too_large":
                    if size > 1:
                        size = 1
                        continue
                    items = [{"status": error.status, "problem": error.problem}]
                elif not _passes(error.status):
                    raise
                else:
                    self._again_at = time.monotonic() + backoff(self._n_failures, None)
                    self._n_failures += 1
                    break
            self._n_failures = 0
            number = page[-1].number
            n_pages = None if n_pages is None else n_pages - 1
            answers = {
                one.number: item
                for one, item in zip(page, items, strict=True)
                if not _passes(item["status"])
            }
            await self._work(_settle, buffer, page, answers, own)
            answered |= answers
        return answered


def _settle(
    buffer: RewardBuffer, page: list[Kept], answers: dict[int, ItemAnswer], own: int | None
) -> None:
    refused: dict[int, ProblemAnswer] = {}
    for one in page:
        item = answers.get(one.number)
        if item is not None and "problem" in item and one.number != own:
            refused[one.number] = item["problem"]
            detail = item["problem"]["detail"]
            log.warning("the service refused a kept reward of session %s: %s", one.session, detail)
    buffer.settle(answers.keys() - refused.keys(), refused)


def _passes(status: int) -> bool:
    """Whether a refusal passes by itself: what is sent again later may be stored."""
    return status in RETRY_STATUS or status >= 500 or status == 0
