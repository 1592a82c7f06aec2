"""Work that a server does from time to time, for as long as it runs."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from service.base.problems import Problem

log = structlog.get_logger()


class Recurring:
    """One piece of work, again and again. What fails is logged, and tried again at its next time.

    `name` is what the log calls it; `pause` returns the seconds to wait before the next time, and
    before the first; one time of `work` ends before the next begins.
    """

    again_seconds = 60.0  # until the log says again that the same thing fails

    def __init__(
        self, name: str, pause: Callable[[], float], work: Callable[[], Awaitable[None]]
    ) -> None:
        self._name, self._pause, self._work = name, pause, work
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._logged = ("", 0.0)  # why it failed last, and when the log was told

    def start(self) -> None:
        """Do the work until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._go_on(), name=self._name)

    def wake(self) -> None:
        """Wait no longer: the work is done now, or once more if it is being done."""
        self._woken.set()

    async def close(self) -> None:
        """Stop, in the middle of the work if need be."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _go_on(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._woken.wait()
            self._woken.clear()
            try:
                await self._work()
                self._logged = ("", 0.0)
            except Exception as error:
                is_foreseen = isinstance(error, Problem)
                reason = str(error) if is_foreseen else type(error).__qualname__
                logged, at = self._logged
                now = time.monotonic()
                if reason != logged or now - at >= self.again_seconds:  # else in a row
                    more = {"reason": reason, "exc_info": not is_foreseen}
                    log.warning("work_failed", work=self._name, **more)
                    self._logged = (reason, now)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two looks of one kind."""

    keys: float = 1.0  # until every server on a shared database knows of a new or revoked key
    use_of_keys: float = 60.0  # between two writes of when keys were last used
    full_tenants: float = 30.0  # at least, between two looks how much tenants have stored
    lift: float = 5.0  # between two looks for comparisons with something new
    webhooks: float = 1.0  # between two looks for messages to webhooks
    attempts: float = 5.0  # to a message's second attempt; each further pause is four times as long
    claim: float = 60.0  # until a message of a sender that has died is sent again
    changes: float = 1.0  # between two looks of a stream for changes of its session
    stream: float = 25.0  # of one stream; below the time that a server takes to stop
