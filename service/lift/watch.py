"""Goes on summing comparisons in the background, so that what a request adds is little."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import structlog

from service.base.problems import Unavailable
from service.base.recurring import Intervals, Recurring
from service.lift.keep_lift import KeepLift
from service.lift.steps import Step, next_step
from service.session.records import SessionKey
from service.storage.ports import Store
from service.writer.group_commit import GroupCommit

T = TypeVar("T")
log = structlog.get_logger()
MOST_SESSIONS = 100  # of one look
MOST_STEPS = 20  # of a session before another one's turn, and of one request


class Running(Protocol):
    """The parts of the running service that sums are read and stored by."""

    store: Store
    writer: GroupCommit
    intervals: Intervals

    async def read(self, work: Callable[[], T]) -> T:
        """Run a blocking read in a reader thread."""


async def sum_up(service: Running, key: SessionKey) -> None:
    """Take steps of a session's comparison until nothing is left, `MOST_STEPS` at most."""

    def read() -> Step | None:
        with service.store.reader() as reader:
            session = reader.session(key)
            if session is None or session.erasing is not None:
                return None
            return next_step(reader, session)

    for _ in range(MOST_STEPS):
        step = await service.read(read)
        if step is None:
            return
        kept = await service.writer.submit(KeepLift(key, step))
        if kept.has_tripped:
            log.warning("guard_tripped", tenant=key[0], session=key[1])


class LiftWatch:
    """Looks from time to time for sessions with rounds or rewards that are in no sums yet.

    Every server looks; two that take the same step store it once.
    """

    def __init__(self, service: Running) -> None:
        self._service = service
        self._last: SessionKey = ("", "")  # of the last look: each has its turn
        self._looks = Recurring("lift", lambda: service.intervals.lift)

    def start(self) -> None:
        """Go on looking."""
        self._looks.start(self._look)

    async def close(self) -> None:
        """Stop."""
        await self._looks.close()

    async def _look(self) -> None:
        """Sum up the sessions that have something new."""

        def read() -> list[SessionKey]:
            with self._service.store.reader() as reader:
                return reader.unsummed(self._last, MOST_SESSIONS)

        keys = await self._service.read(read)
        self._last = keys[-1] if len(keys) == MOST_SESSIONS else ("", "")
        for key in keys:
            try:
                await sum_up(self._service, key)
            except Unavailable:
                raise
            except Exception:  # of this session alone: the others are summed
                log.exception("lift_not_summed", tenant=key[0], session=key[1])
