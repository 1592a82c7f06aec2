"""Processes that fit or parse, kept from one test to the next, and forked: a new interpreter takes
two seconds of CPU to import what they need.
"""

import os
import signal
from typing import Any, ClassVar

import pytest
from pebble import ProcessPool

from service.base.process_pool import Processes, _begin
from tests.forked_process import FORKS
from tests.lhb_engine.draw_little import draw_little

MOST_KEPT = 2  # of one kind


def freeze(processes: Processes) -> None:
    """Stop the processes of one pool, and not those that later tests take up."""
    assert processes._pool is not None
    for process in processes._pool._pool_manager.worker_manager.workers.values():
        os.kill(process.pid, signal.SIGSTOP)


def _begin_with_little(*given: Any) -> None:
    draw_little(pytest.MonkeyPatch(), remembers=False)
    _begin(*given)


class ForkedProcesses(Processes):
    """Processes that begin with the service's modules loaded; their fits may draw little."""

    draws_little: ClassVar[bool] = False

    def _current(self) -> ProcessPool:
        if self._pool is None:
            begin = _begin_with_little if self.draws_little else _begin
            self._pool = ProcessPool(self._n, 0, begin, self._prepare, context=FORKS)
        return super()._current()


class KeptProcesses(ForkedProcesses):
    """Processes that outlive their service, and are taken up by the next one of their kind."""

    kept: ClassVar[dict[Any, list[ProcessPool]]] = {}

    def _kind(self) -> Any:
        return self.draws_little, self._n, self._prepare

    def _current(self) -> ProcessPool:
        waiting = self.kept.get(self._kind(), [])
        while self._pool is None and waiting:
            self._pool = waiting.pop()
        return super()._current()

    async def close(self) -> None:
        waiting = self.kept.setdefault(self._kind(), [])
        is_free = self._n_running == 0 and not self.is_stalled
        if self._pool is not None and self._pool.active and is_free and len(waiting) < MOST_KEPT:
            waiting.append(self._pool)
            self._pool = None
        await super().close()

    @classmethod
    def end(cls) -> None:
        """Stop the processes that are left."""
        for pools in cls.kept.values():
            for pool in pools:
                pool.stop()
                pool.join()
        cls.kept.clear()
