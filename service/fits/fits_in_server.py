"""Fits in processes of the server itself, on SQLite. The due marks are in the database."""

import asyncio
import time

import structlog

from service.base.process_pool import Processes
from service.base.server_settings import Settings
from service.fits.cost import session_cost
from service.fits.process_places import Place
from service.fits.processes import FitProcesses
from service.fits.when_due import tick
from service.session.records import FitQueue, SessionKey
from service.storage.transactions import Store
from service.writer.after_commit import Effects
from service.writer.agent_cache import Agents
from service.writer.group_commit import GroupCommit

log = structlog.get_logger()


class FitPool(FitProcesses):
    """Runs due fits, installs their estimates, and wakes the decisions that wait for them.

    The parameters are those of `FitProcesses`.
    """

    def __init__(
        self, settings: Settings, agents: Agents, kind: type[Processes] = Processes
    ) -> None:
        super().__init__(settings, agents, kind)
        self._timers: dict[SessionKey, asyncio.TimerHandle] = {}
        self._due: dict[SessionKey, tuple[int, float]] = {}
        self._waiting: dict[SessionKey, float] = {}
        self._waiters: dict[SessionKey, asyncio.Event] = {}
        self._is_closed = False

    def queue(self) -> FitQueue:
        """Return the number of due fits, since when the oldest is due, and the number of processes.

        The number of processes is 0 after a fit that no process began in time.
        """
        oldest = min((since for _, since in list(self._due.values())), default=None)
        n_workers = 0 if self.is_stalled else self._settings.fit_workers
        return FitQueue(len(self._due), oldest, n_workers)

    def start(self, writer: GroupCommit, store: Store) -> None:
        """Start the fits that are due in the database, and set timers for those to come."""
        self._writer = writer
        with store.reader() as reader:
            for key, due, wake_at in reader.unfinished():
                session = reader.session(key)
                if due is not None and session is not None:
                    self._add(key, due, session_cost(session, due).seconds)
                if wake_at is not None:
                    self._wake_at(key, wake_at)
        self._run_waiting()

    def after_commit(self, effects: Effects) -> None:
        """Start the fits, set the timers and wake the decisions that a committed batch asks for."""
        for key in effects.installed | effects.removed:
            self._due.pop(key, None)
            self._waiting.pop(key, None)
            self._wake_waiters(key)
        for key in effects.removed:
            self._stop_timer(key)
        if effects.due:
            for key, due in effects.due.items():
                if key not in effects.removed:
                    self._add(key, *due)
            self._run_waiting()
        for key, at in effects.timed.items():
            if key not in effects.removed:
                self._wake_at(key, at)

    def _freed(self) -> None:
        self._run_waiting()

    async def wait(self, key: SessionKey, due: int, seconds: float) -> bool:
        """Wait until the fit due after round `due` is done; return False on timeout."""
        if self._due.get(key, (None, 0.0))[0] != due:
            return True
        event = self._waiters.setdefault(key, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Stop the processes. Due marks stay, and the next start takes the fits up.

        Batches that are committed after this start no fits and set no timers.
        """
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        await super().close()

    def _add(self, key: SessionKey, due: int, seconds: float) -> None:
        self._due[key] = (due, time.time())
        self._waiting[key] = seconds

    def _run_waiting(self) -> None:
        """Begin as many of the waiting fits as there are processes for, each in its turn."""
        may_begin = not self._is_closed and not self.is_stalled
        while may_begin and (place := self._places.take(self._waiting)):
            del self._waiting[place.key]
            self._spawn(self._fit_or_forget(place, self._due[place.key]))

    async def _fit_or_forget(self, place: Place, mark: tuple[int, float]) -> None:
        """Run a fit; forget it if its due mark is gone: the session was deleted, before or since.

        The same fit may be due again at once, with another mark.
        """
        key = place.key
        is_begun = await self._fit(place, mark[0])
        if self._due.get(key) is not mark:
            return
        if not is_begun:  # its turn comes when processes begin work again
            self._waiting[key] = place.seconds
            self._run_waiting()
            return
        del self._due[key]
        self._wake_waiters(key)

    def _wake_waiters(self, key: SessionKey) -> None:
        self._waiters.pop(key, asyncio.Event()).set()

    def _stop_timer(self, key: SessionKey) -> None:
        if key in self._timers:
            self._timers.pop(key).cancel()

    def _wake_at(self, key: SessionKey, at: float) -> None:
        self._stop_timer(key)
        if not self._is_closed:
            delay = max(0.0, at - self._writer.clock()) + 0.001
            self._timers[key] = asyncio.get_running_loop().call_later(delay, self._tick, key)

    def _tick(self, key: SessionKey) -> None:
        self._timers.pop(key, None)
        self._spawn(self._submit_tick(key))

    async def _submit_tick(self, key: SessionKey) -> None:
        try:
            await self._writer.submit(tick(key))
        except Exception as error:
            log.warning("tick_failed", session=key[1], reason=str(error))
            self._wake_at(key, self._writer.clock() + 1.0)
