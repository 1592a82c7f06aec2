"""What a fit may cost: said when a session is created, and held when it runs."""

from typing import Any

import numpy as np
import pytest

from lhb_engine.agents.fit_cost import posterior_cost
from service.base.server_settings import Settings
from service.fits.cost import cpu_limit
from service.fits.processes import Job
from tests.examples import on_one_database
from tests.service.api.test_decisions import encoded
from tests.service.conftest import Client, Serve, problem, until
from tests.service.fits.fit_jobs import sleeping_fit, spinning_fit, waiting_fit

pytestmark = pytest.mark.anyio


async def append(client: Client, session: str, dim: int, n: int) -> None:
    """A log of n rounds."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (n, dim))
    body = {"contexts": encoded(contexts), "rewards": contexts[:, 0].tolist()}
    answer = await client.post(f"/v1/sessions/{session}/history", json=body)
    assert answer.status_code == 201, answer.text


async def failures(client: Client, session: str) -> list[Any]:
    items = (await client.read(f"/v1/sessions/{session}/estimates?limit=1000"))["items"]
    return [item for item in items if item["status"] == "failed"]


async def idle(client: Client, session: str) -> bool:
    return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]


async def failure_of(client: Client, job: Job) -> str:
    """Why a fit fails whose work is `job`; it is not tried again."""
    client.fits.job = job
    session = await client.create(algorithm="anytime")
    await append(client, session, 2, 8)
    [failed] = await until(lambda: failures(client, session))
    assert await idle(client, session)
    return str(failed["reason"])


async def test_a_session_that_cannot_be_fitted_is_refused(serve: Serve) -> None:
    async with serve(fit_memory_mb=64) as client:
        body = {"algorithm": "anytime", "dim": 50_000, "horizon": 100, "name": "wide"}
        answer = await client.post("/v1/sessions", json=body)
        problem(answer, 422, "fit_too_large", "dim")
        detail = answer.json()["detail"]
        assert "dim 50000 and horizon 100" in detail
        assert "64 MB" in detail
        most = int(detail.rpartition(" ")[2])  # what would be allowed
        assert (await client.read("/v1/sessions"))["items"] == []
        answer = await client.post("/v1/sessions", json={**body, "dim": most + 1})
        problem(answer, 422, "fit_too_large", "dim")
        await client.create(**{**body, "dim": most})


@pytest.mark.slow
async def test_a_fit_that_needs_more_memory_fails_once_and_says_so(serve: Serve) -> None:
    """Real fits: the rounds outgrow the memory, not the session as it was created.

    A process keeps freed memory from fit to fit, and a fit may use it beside its limit. Therefore
    the largest fits here need more than twice the limit.
    """
    async with serve(fit_memory_mb=64, fit_retry_seconds=0.05) as client:
        session = await client.create(algorithm="anytime", dim=6000, horizon=4)
        for _ in range(5):
            await append(client, session, 6000, 200)
        failed = await until(lambda: failures(client, session))
        assert failed[-1]["reason"] == "the fit needed more than 64 MB"
        await client.decide(session, np.eye(2, 6000).tolist())
        small = await client.create(algorithm="anytime", dim=2, horizon=4)
        await append(client, small, 2, 20)
        await until(lambda: idle(client, small))  # the process goes on
        assert await failures(client, small) == []
        dues = [item["due"] for item in await failures(client, session)]
        assert len(set(dues)) == len(dues)  # another attempt would end the same way


async def test_a_fit_that_takes_too_long_fails_once_and_says_so(serve: Serve) -> None:
    async with serve(fit_timeout_seconds=0.2, fit_retry_seconds=0.05) as client:
        assert await failure_of(client, sleeping_fit) == "the fit took longer than 0.2 s"


@on_one_database
async def test_a_fit_beyond_its_cpu_time_fails_once_and_says_so(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on for ever without `setitimer`, or be tried again without `is_final`."""
    monkeypatch.setattr("service.fits.processes.cpu_limit", lambda *_: 0.2)
    async with serve(fit_retry_seconds=0.05) as client:
        assert await failure_of(client, spinning_fit) == "the fit took more than 0.2 s of CPU time"


async def test_a_fit_that_waits_for_a_processor_may_take_longer(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its CPU time is limited, so that a busy machine fails no fit: it slept beyond that limit."""
    monkeypatch.setattr("service.fits.processes.cpu_limit", lambda *_: 0.5)
    async with serve(fit_retry_seconds=0.05) as client:
        assert await failure_of(client, waiting_fit) == "it has run to its end"


def test_the_time_of_a_fit_comes_from_its_size() -> None:
    settings = Settings()
    small, large = (posterior_cost(dim, 100, 1000).seconds for dim in (5, 1000))
    assert cpu_limit(small, settings) == 60.0
    assert 60.0 < cpu_limit(large, settings) < settings.fit_timeout_seconds
    assert cpu_limit(1e6, settings) == settings.fit_timeout_seconds
