"""The running parts that endpoints use."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request

from service.agents import Agents
from service.fit_pool import FitPool
from service.group_commit import GroupCommit
from service.metrics import Metrics
from service.settings import Settings
from service.storage.ports import Store

T = TypeVar("T")


@dataclass(slots=True)
class Service:
    """What a request may call: the writer for commands, `read` for everything else."""

    settings: Settings
    store: Store
    agents: Agents
    writer: GroupCommit
    fits: FitPool
    metrics: Metrics
    monotonic: Callable[[], float] = time.monotonic
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="reader")
    )

    async def read(self, work: Callable[[], T]) -> T:
        """Run a cold read off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, work)


def service_of(request: Request) -> Service:
    """The service that this request came to."""
    service: Service = request.app.state.service
    return service
