"""A service in this process, driven through ASGI with its lifespan run."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.runtime import Service
from service.base import parsing_processes
from service.base.process_pool import Processes
from service.base.recurring import Intervals
from service.base.server_settings import Settings
from service.fits.processes import FitProcesses
from service.operation.app import create_app
from service.operation.worker import Worker
from service.storage.database_url import is_sqlite
from service.storage.postgres.store import PostgresStore
from tests.lhb_engine.draw_little import draw_little
from tests.service.kept_processes import ForkedProcesses, KeptProcesses
from tests.service.service_harness import ServiceHarness

HERE = Path(__file__).parent
ROOMS_OF_DATABASES = ("storage", "writer")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Above storage and writer, a module's first test on PostgreSQL is in `make test`.

    The others repeat there what they show on SQLite, and are slow. Tests that name their databases
    themselves stay as they are.
    """
    begun = set()
    for item in items:
        if not item.path.is_relative_to(HERE) or item.get_closest_marker("slow"):
            continue
        if not is_on_postgres(item) or item.path.parent.name in ROOMS_OF_DATABASES:
            continue
        if item.path in begun:
            item.add_marker(pytest.mark.slow)
        begun.add(item.path)


def is_on_postgres(item: pytest.Item) -> bool:
    """Whether a fixture, and not the test itself, takes it to PostgreSQL."""
    if any("database_url" in mark.args[0] for mark in item.iter_markers("parametrize")):
        return False
    chosen = (
        item.callspec.params
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else {}
    )
    return "postgres" in (chosen.get("database_url"), chosen.get("both"))


class Client(httpx.AsyncClient):
    """httpx with the words of these tests."""

    service: Service
    fits: FitProcesses

    def __init__(self, **how: Any) -> None:
        super().__init__(headers={"content-type": "application/json"}, **how)

    async def create(self, **body: Any) -> str:
        """A new session's id; uniform in two dimensions unless told otherwise."""
        body = {"algorithm": "uniform", "dim": 2, "horizon": 4, "seed": 1, **body}
        answer = await self.post("/v1/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def decide(
        self, session: str, contexts: Any = ((1.0, 0.0), (0.0, 1.0)), **body: Any
    ) -> Any:
        """A decision that is expected to be taken."""
        answer = await self.post(
            f"/v1/sessions/{session}/decisions", json={"contexts": contexts, **body}
        )
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    async def reward(self, session: str, **body: Any) -> httpx.Response:
        """The answer to a reward."""
        return await self.post(f"/v1/sessions/{session}/rewards", json=body)

    async def read(self, path: str) -> Any:
        """The JSON of a page that is expected to be there."""
        answer = await self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ServiceHarness]:
    """The commands and their store, without HTTP and fitting processes."""
    harness = ServiceHarness(tmp_path)
    yield harness
    harness.store.close()


@pytest.fixture
def anyio_backend() -> str:
    """Coroutine tests run on asyncio."""
    return "asyncio"


Serve = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def fully_drawn() -> None:
    """For tests that show how well fits find the truth: they draw as they do elsewhere."""


@pytest.fixture(autouse=True)
def little_drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have fits draw little, here and in forked processes, but for tests with `fully_drawn`."""
    if "fully_drawn" not in request.fixturenames:
        draw_little(monkeypatch)
        monkeypatch.setattr(ForkedProcesses, "draws_little", True)


@pytest.fixture(scope="session", autouse=True)
def kept_processes() -> Iterator[None]:
    """Processes that fit or parse live until the last test."""
    yield
    KeptProcesses.end()


@pytest.fixture
def processes() -> type[Processes]:
    """What the processes that fit or parse are made by; tests of processes have new ones."""
    return KeptProcesses


@pytest.fixture
def serve(database_url: str, processes: type[Processes], monkeypatch: pytest.MonkeyPatch) -> Serve:
    """`async with serve() as client`: may be entered again, over the same database.

    On PostgreSQL a worker fits, in this process too.
    """
    monkeypatch.setattr(parsing_processes, "Processes", processes)

    @asynccontextmanager
    async def start(intervals: Intervals | None = None, **settings: Any) -> AsyncIterator[Client]:
        patient = {"database_url": database_url, "log_level": "error", "fit_wait_seconds": 120.0}
        chosen = Settings(**patient | settings)
        app = create_app(chosen, processes=processes, intervals=intervals)
        async with app.router.lifespan_context(app), working(chosen, processes) as worker:
            transport = httpx.ASGITransport(app=app)
            async with Client(transport=transport, base_url="http://lhb") as client:
                client.service = app.state.service
                fits = worker or client.service.fits
                assert isinstance(fits, FitProcesses)
                client.fits = fits
                yield client

    return start


@asynccontextmanager
async def working(settings: Settings, processes: type[Processes]) -> AsyncIterator[Worker | None]:
    """A worker where the database needs one."""
    if is_sqlite(settings.database_url):
        yield None
        return
    store = PostgresStore(settings.database_url)
    worker = Worker(settings, store, kind=processes)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await task
        await worker.close()
        store.close()


def problem(answer: httpx.Response, status: int, code: str, field: str | None = None) -> None:
    """Assert that an answer is this problem."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["code"]) == (status, code), body
    if field is not None:
        assert body["field"] == field, body


async def until(check: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Wait until an async check gives something true, and give that.

    Checks cost the processor time that is waited for: they become rarer.
    """
    pause = 0.01
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                found = await check()
                if found:
                    return found
                await asyncio.sleep(pause)
                pause = min(1.2 * pause, 0.1)
    raise AssertionError("it did not come true in time")
