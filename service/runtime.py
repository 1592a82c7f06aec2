"""The running parts that endpoints use."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from starlette.requests import Request

from service.agent_cache import Agents
from service.metrics import Metrics
from service.records import FitQueue, SessionKey
from service.settings import Settings
from service.storage.ports import MOST_READS, Store
from service.writer.group_commit import GroupCommit
from service.writer.unit_of_work import Effects

T = TypeVar("T")


class Fits(Protocol):
    """Whoever sees to it that due fits are done."""

    def start(self, writer: GroupCommit, store: Store) -> None:
        """Take up what the database says is due."""

    def after_commit(self, effects: Effects) -> None:
        """Act on what a batch has made durable."""

    async def wait(self, key: SessionKey, due: int, seconds: float) -> bool:
        """Wait until the session's fit is installed; False after so many seconds."""

    def queue(self) -> FitQueue:
        """Say what is due, and who fits it. May ask the database."""

    async def close(self) -> None:
        """Stop; due marks stay."""


@dataclass(slots=True)
class Service:
    """What a request may call: the writer for commands, `read` for everything else."""

    settings: Settings
    store: Store
    agents: Agents
    writer: GroupCommit
    fits: Fits
    metrics: Metrics
    monotonic: Callable[[], float] = time.monotonic
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MOST_READS, thread_name_prefix="reader")
    )
    n_exports: int = 0

    async def read(self, work: Callable[[], T]) -> T:
        """Run a cold read off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, work)


def service_of(request: Request) -> Service:
    """Return the service that this request came to."""
    service: Service = request.app.state.service
    return service


def tenant_of(request: Request) -> str:
    """Whose data this request may see."""
    return str(request.scope["lhb.tenant"])
