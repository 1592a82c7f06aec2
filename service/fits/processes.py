"""A pool of fitting processes that runs a fit, retries it if its process dies, and records it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from pebble import ProcessExpired

from service.base.problems import Problem, ProblemCode, Unavailable
from service.base.process_pool import NotBegun, Processes
from service.base.server_settings import Settings
from service.fits.cost import cpu_limit
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import SPENT, STARVED, prepare_process, run_fit, within_cpu_time
from service.fits.process_places import Place, Places
from service.rounds.slot_sums import keep_slots
from service.writer.agent_cache import Agents
from service.writer.command import SessionCommand
from service.writer.group_commit import GroupCommit

log = structlog.get_logger()
Answer = TypeVar("Answer")
Job = Callable[[str, str, str, int, float], Fitted | None]
MAX_DEATHS = 3  # of a fit whose process dies, before the fit counts as failed
LONGEST_PAUSE_SECONDS = 30.0  # between two looks whether processes begin work again


class FitProcesses:
    """A pool of processes that fit.

    `agents` is the cache of the process that records the results; `kind` makes the processes, which
    run `job`, a function with the signature of `run_fit`. `on_finish` is called with the status
    and the seconds of every recorded fit, `on_record` with its seconds and what its log line says:
    it returns what that line says besides.
    """

    _writer: GroupCommit  # from the start on
    busy_seconds = 60.0  # after a fit without idle time enough, in which none runs in idle time

    def __init__(
        self, settings: Settings, agents: Agents, kind: type[Processes] = Processes
    ) -> None:
        self.job: Job = run_fit
        self._kind = kind
        self.on_finish: Callable[[str, float], None] = lambda status, seconds: None
        self.on_record: Callable[[float, dict[str, Any]], dict[str, str]] = lambda *_: {}
        self._settings = settings
        self._agents = agents
        self._processes = self._new_processes(settings.fit_workers)
        self._spare = self._new_processes(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._places = Places(settings.fit_workers)
        self._busy_until = 0.0
        self._watching: asyncio.Task[None] | None = None

    def _new_processes(self, n: int) -> Processes:
        prepare = prepare_process, self._settings.fit_niceness, self._settings.fit_memory_mb
        return self._kind(n, prepare, self._settings.fit_start_seconds)

    @property
    def is_stalled(self) -> bool:
        """Whether no process, but for the spare one, began the last work."""
        return self._processes.is_stalled

    async def close(self) -> None:
        """Stop the processes. Due marks stay, and the next start takes the fits up."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for processes in (self._processes, self._spare):
            await processes.close()

    def _spawn(self, work: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _freed(self) -> None:
        """Do what follows when a place is free again."""

    async def _fit(self, place: Place, due: int) -> bool:
        """Run a fit and record it; return whether a process began it and could read its data."""
        key, began = place.key, time.monotonic()
        try:
            fitted = await self._whole(place, due)
        except NotBegun as error:
            log.warning("fit_not_begun", session=key[1], due=due, reason=str(error))
            self._watch()
            return False
        except Unavailable as error:
            log.warning("fit_not_read", session=key[1], due=due, reason=str(error))
            await asyncio.sleep(self._settings.fit_retry_seconds)
            return False
        finally:
            self._places.release(place, time.monotonic() - began)
            self._freed()
        if fitted is None:
            return True
        attempts = self._settings.fit_attempts, self._settings.fit_retry_seconds
        finish = FinishFit(key, due, fitted, self._agents, *attempts)
        status = await self._persist(finish)
        seconds = time.monotonic() - began
        if status is not None:
            self.on_finish(status, seconds)
            entry = {"session": key[1], "due": due, "seconds": round(seconds, 4)}
            entry |= {"status": status, **fitted.summary()}
            log.info("fit", **entry, **self.on_record(seconds, entry))
        return True

    async def _persist(self, command: SessionCommand[Answer]) -> Answer:
        """Record a result; retry until the database can be written, and no log is appended."""
        pause = 0.1
        while True:
            try:
                return await self._writer.submit(command)
            except Exception as error:
                if isinstance(error, Problem) and error.code == ProblemCode.HISTORY_PENDING:
                    pause = 0.05  # calls of a log leave each other a moment
                else:
                    log.warning("fit_not_recorded", session=command.key[1], reason=str(error))
            await asyncio.sleep(pause)
            pause = min(5.0, 2 * pause)

    async def _whole(self, place: Place, due: int) -> Fitted | None:
        """Return the result of a fit, after those of its parts that are to be kept first."""
        n_lost = 0
        while (fitted := await self._fitted(place, due)) is not None and fitted.is_part:
            assert fitted.settled is not None
            n_lost += not await self._persist(keep_slots(place.key, fitted.settled))
            if n_lost == MAX_DEATHS:
                return Fitted(reason="decisions were voided, or erased, while it summed them")
        return fitted

    async def _fitted(self, place: Place, due: int) -> Fitted | None:
        key, limit = place.key, self._settings.fit_timeout_seconds
        cpu_seconds = cpu_limit(place.seconds, self._settings)
        is_busy = time.monotonic() < self._busy_until
        idle_seconds, n_died = 0.0 if is_busy else self._settings.fit_idle_seconds, 0
        processes = self._spare if place.is_spare else self._processes
        arguments = (cpu_seconds, self.job, self._settings.database_url, *key, due)
        while True:
            try:
                fitted: Fitted | None = await processes.run(
                    within_cpu_time, *arguments, idle_seconds, seconds=limit
                )
            except (NotBegun, Unavailable) as error:
                if isinstance(error, Unavailable) and error.code == ProblemCode.STORAGE_FAILING:
                    return Fitted(reason=error.detail)  # its own rows may be damaged
                raise
            except ProcessExpired as error:
                if error.exitcode == STARVED and idle_seconds:
                    log.info("fit_begun_anew", session=key[1], due=due, reason="no idle time")
                    self._busy_until, idle_seconds = time.monotonic() + self.busy_seconds, 0.0
                    continue
                if error.exitcode == SPENT:
                    reason = f"the fit took more than {cpu_seconds:g} s of CPU time"
                    return Fitted(reason=reason, is_final=True)
                log.warning("fit_process_died", session=key[1], due=due, reason=str(error))
                n_died += 1
                if n_died == MAX_DEATHS:
                    return Fitted(reason=f"the fitting process died {MAX_DEATHS} times: {error}")
                continue
            except TimeoutError:
                reason = f"the fit took longer than {limit:g} s"
                return Fitted(reason=reason, is_final=True)
            except Exception as error:  # the job could not read its data
                return Fitted(reason=f"{type(error).__name__}: {error}")
            return fitted

    def _watch(self) -> None:
        """Use no stalled processes until they begin work again."""
        self._places.has_spare = not self._spare.is_stalled
        if self._watching is None or self._watching.done():
            self._watching = self._spawn(self._probe_stalled())

    async def _probe_stalled(self) -> None:
        pause = self._settings.fit_retry_seconds
        while self._processes.is_stalled or self._spare.is_stalled:
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)
            for processes in (self._processes, self._spare):
                await processes.probe()
            self._places.has_spare = not self._spare.is_stalled
        self._freed()
