"""The parts of a running service that endpoints use."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request

from service.api.metrics import Metrics
from service.base.loop_slices import LoopSlices, SlicedWork, run_at_once
from service.base.outgoing import Outgoing
from service.base.parsing_processes import N_PROCESSES, PARSED_HERE_BYTES, ParsingProcesses
from service.base.playground import Playground
from service.base.problems import ProblemCode
from service.base.process_pool import NotBegun
from service.base.recurring import Intervals
from service.base.server_settings import Settings
from service.base.tenant_shares import Places, TenantLimit
from service.commands.limits import Limits
from service.session.records import SessionKey
from service.storage.giving_way import read_giving_way
from service.storage.reader import Reader
from service.storage.spool import Spool, open_spool
from service.storage.transactions import MAX_EXPORTS, MAX_READS, MAX_STREAMS, Store
from service.writer.agent_cache import Agents
from service.writer.group_commit import GroupCommit
from service.writer.large_writes import Slices

if TYPE_CHECKING:
    from service.fits.fits_in_server import FitPool
    from service.fits.listener import FitSignals

T = TypeVar("T")
FULL_OF_EXPORTS = "as many exports as this tenant may have at once are under way"
FULL_OF_STREAMS = "as many streams as this tenant may have at once are open"
READ_AT_ONCE_BYTES = 2**14  # a smaller body is read in a fraction of a millisecond


@dataclass(slots=True)
class Service:
    """The parts that a request uses.

    `writer.submit` runs a command, `slices.run` a large write, `read` a query.
    """

    settings: Settings
    store: Store
    agents: Agents
    writer: GroupCommit
    slices: Slices
    fits: "FitPool | FitSignals"  # processes of this server that fit, or who follows workers
    metrics: Metrics
    abandon: Callable[[SessionKey, str], None]  # sweeps what a large write has hidden and left
    intervals: Intervals = field(default_factory=Intervals)
    parsing: ParsingProcesses = field(default_factory=ParsingProcesses)
    parsed_here_bytes: int = PARSED_HERE_BYTES  # a larger text is parsed by a process
    monotonic: Callable[[], float] = time.monotonic
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MAX_READS, thread_name_prefix="reader")
    )
    playground: Playground = field(init=False)
    limits: Limits = field(init=False)
    spool: Spool = field(init=False)
    outgoing: Outgoing = field(init=False)
    full_tenants: dict[str, int] = field(default_factory=dict)  # see `service.web.full_tenants`
    exports: Places = field(
        default_factory=lambda: Places(MAX_EXPORTS, ProblemCode.TOO_MANY_EXPORTS, FULL_OF_EXPORTS)
    )
    streams: Places = field(
        default_factory=lambda: Places(MAX_STREAMS, ProblemCode.TOO_MANY_STREAMS, FULL_OF_STREAMS)
    )
    imports: TenantLimit = field(default_factory=lambda: TenantLimit(1))
    reads: TenantLimit = field(default_factory=lambda: TenantLimit(MAX_READS // 2))
    parses: TenantLimit = field(default_factory=lambda: TenantLimit(N_PROCESSES - 1))
    loop_slices: LoopSlices = field(default_factory=LoopSlices)

    def __post_init__(self) -> None:
        """Take the playground, limits, spool and where webhooks may go from the settings."""
        self.playground = Playground(self.settings.fit_niceness)
        self.spool = open_spool(self.settings)
        self.limits = Limits.of(self.settings)
        self.outgoing = Outgoing(self.settings.webhook_networks)

    async def read(self, work: Callable[[], T]) -> T:
        """Run a blocking function, usually a read of the database, in a reader thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.readers, read_giving_way, work)

    async def read_for(self, tenant: str, work: Callable[[], T]) -> T:
        """Run a read that a tenant asked for: at most half of the threads read for one tenant."""
        async with self.reads.hold(tenant):
            return await self.read(work)

    def _snapshot(self, work: Callable[[Reader], T]) -> T:
        with self.store.reader() as reader:
            return work(reader)

    async def look(self, work: Callable[[Reader], T]) -> T:
        """Read one snapshot of the database in a reader thread."""
        return await self.read(lambda: self._snapshot(work))

    async def query(self, tenant: str, work: Callable[[Reader], T], *, is_small: bool = False) -> T:
        """Read one snapshot for a tenant, as `read_for` does; a little of a local one at once."""
        if is_small and self.store.is_local:
            return self._snapshot(work)
        return await self.read_for(tenant, lambda: self._snapshot(work))

    async def parsed(
        self,
        tenant: str,
        parse: Callable[..., SlicedWork[T]],
        body: bytes,
        *arguments: Any,
        here: int | None = None,
    ) -> T:
        """Parse a body: a large one in a process, others in slices of the event loop.

        One large body of a tenant is parsed at a time, so that a process is left for others. If no
        process begins with a body, the event loop parses it. A body is large if it has more than
        `here` bytes, by default `parsed_here_bytes`.
        """
        if len(body) <= (self.parsed_here_bytes if here is None else here):
            return await self.loop_slices.run(parse(body, *arguments))
        async with self.parses.hold(tenant):
            if await self.parsing.are_up(parse_at_once, parse):
                with suppress(NotBegun):
                    return await self.parsing.run_once_begun(parse_at_once, parse, body, *arguments)
            return await self.loop_slices.run(parse(body, *arguments))


def parse_at_once(parse: Callable[..., SlicedWork[T]], body: bytes, *arguments: Any) -> T:
    """Parse a body in one go, in a process that does nothing else."""
    return run_at_once(parse(body, *arguments))


def service_of(request: Request) -> Service:
    """Return the running service."""
    service: Service = request.app.state.service
    return service
