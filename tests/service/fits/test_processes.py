"""Processes that fit: what their deaths cost, how they give way, when they take idle time."""

import asyncio
import errno
import multiprocessing.util
import os
import signal
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from lhb_engine.design.moments import Moments
from service.base.problems import Problem, ProblemCode
from service.base.process_pool import Processes
from service.fits.install import FinishFit
from service.writer.unit_of_work import UnitOfWork
from tests.service.conftest import Client, Serve, until
from tests.service.fits.fit_gate import ARMS, close_gate, installed, play, process_at
from tests.service.fits.fit_jobs import (
    dying_fit,
    gated_fit,
    starved_fit,
    summed_fit,
    tries_of,
    unreadable_fit,
)
from tests.service.fits.new_processes import as_served, new_processes  # noqa: F401

pytestmark = pytest.mark.anyio
GROUPS = (3,)  # what all arms share, of two features


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Embedded only: workers have their own tests."""
    return f"sqlite:///{tmp_path / 'lhb.db'}"


@as_served
async def test_a_killed_fitting_process_costs_only_time(serve: Serve) -> None:
    async with serve() as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        await play(client, session, 4)
        waiting = asyncio.create_task(client.decide(session, ARMS))
        first = await process_at(gate)
        os.kill(first, signal.SIGKILL)
        gate.unlink()
        assert (await waiting)["round"] == 5
        [estimate] = await installed(client, session)
        assert estimate["epoch"] == 1
        assert await process_at(gate) != first


async def test_sums_come_from_the_process_as_bytes(serve: Serve) -> None:
    async with serve() as client:
        client.fits.job = summed_fit
        session = await client.create(algorithm="anytime", refit="blocking", horizon=2, dim=2)
        await play(client, session, 12)
        await until(lambda: installed(client, session))
        key = ("", session)

        async def kept() -> Any:
            with client.service.store.reader() as reader:
                return reader.kept_sums(key)

        row = await until(kept)
        assert row.last_round > 4
        settled = Moments.from_bytes(row.settled, GROUPS)
        assert (settled.n_lags, settled.dim) == (1, 2)  # no grain is full
        assert Moments.from_bytes(row.seen, GROUPS).n_rows > 4


async def test_a_result_does_not_wait_long_between_the_calls_of_a_log(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each try meets a call of the log. Where storage fails, twelve pauses take 36 s."""
    tries: list[float] = []
    async with serve() as client:
        record = FinishFit.__call__

        def begun(command: FinishFit, uow: UnitOfWork) -> Any:
            tries.append(monotonic())
            if len(tries) <= 12:
                raise Problem(ProblemCode.HISTORY_PENDING, "a log is being appended")
            return record(command, uow)

        monkeypatch.setattr(FinishFit, "__call__", begun)
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        await play(client, session, 4)
        [estimate] = await until(lambda: installed(client, session))
        assert (estimate["epoch"], len(tries)) == (1, 13)
        assert tries[-1] - tries[0] < 20.0
    assert "fit_not_recorded" not in capfd.readouterr().err


async def test_a_fit_that_keeps_dying_is_recorded_as_failed(serve: Serve) -> None:
    async with serve(fit_attempts=1) as client:
        client.fits.job = dying_fit
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        await play(client, session, 4)
        assert (await client.decide(session, ARMS))["model_version"] == 0
        [item] = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        assert item["status"] == "failed"
        assert "died" in item["reason"]


@pytest.mark.slow
async def test_a_process_frozen_while_idle_is_replaced(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_look, look = asyncio.Event(), Processes.probe

    async def held(processes: Processes) -> None:
        """Look whether processes begin work again as late as the test has seen that none does."""
        await may_look.wait()
        await look(processes)

    monkeypatch.setattr(Processes, "probe", held)
    async with serve(fit_start_seconds=8.0) as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso")
        gate.unlink()
        await play(client, session, 4)
        await until(lambda: installed(client, session))
        frozen = await process_at(gate)
        os.kill(frozen, signal.SIGSTOP)
        await play(client, session, 8)

        async def both() -> bool:
            return len(await installed(client, session)) == 2

        await until(lambda: has_workers(client, 0))
        may_look.set()
        await until(both)
        assert await process_at(gate) != frozen
        await until(lambda: has_workers(client, 1))
        items = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        assert [item["status"] for item in items if item["status"] == "failed"] == []


@as_served
async def test_a_fit_that_no_process_begins_stays_due(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses to start processes, more often than a fit is tried."""
    start, n_refused, may_start = multiprocessing.util.spawnv_passfds, 0, False

    def refuse(*arguments: Any) -> int:
        nonlocal n_refused
        if may_start:
            return int(start(*arguments))
        n_refused += 1
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    async def refused_often() -> bool:
        return n_refused > 4

    async with serve(fit_retry_seconds=0.1, fit_attempts=2) as client:
        monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", refuse)
        session = await client.create(algorithm="ad_lasso")
        await play(client, session, 4)
        await until(refused_often)
        await until(lambda: has_workers(client, 0))
        assert (await client.read("/readyz"))["fits_due"] == 1
        await client.decide(session, ARMS)
        assert await installed(client, session) == []
        may_start = True
        await until(lambda: installed(client, session))
        items = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        assert "failed" not in {item["status"] for item in items}
        await until(lambda: has_workers(client, 1))


async def test_a_fit_whose_database_is_away_stays_due(serve: Serve) -> None:
    """It is away for longer than a fit is tried; decisions go on, and nothing has failed."""
    async with serve(fit_retry_seconds=0.01, fit_attempts=2) as client:
        gate = close_gate(client, unreadable_fit)
        session = await client.create(algorithm="ad_lasso")
        await play(client, session, 4)
        marks = tries_of(client.service.settings.database_url)

        async def tried_often() -> bool:
            return marks.exists() and len(marks.read_text()) > 3

        await until(tried_often)
        await client.decide(session, ARMS)
        assert (await client.read("/readyz"))["fits_due"] == 1
        gate.unlink()
        await until(lambda: installed(client, session))
        items = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        assert "failed" not in {item["status"] for item in items}


async def has_workers(client: Client, n: int) -> bool:
    return bool((await client.read("/readyz"))["workers"] == n)


async def test_fits_are_as_nice_as_they_are_told(serve: Serve) -> None:
    async with serve(fit_niceness=7) as client:
        gate = close_gate(client, gated_fit)
        session = await client.create(algorithm="ad_lasso")
        await play(client, session, 4)
        mine, its = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, await process_at(gate)))
        assert its == min(mine + 7, 19)
        gate.unlink()
        await until(lambda: installed(client, session))


async def fit_starved(client: Client, session: str) -> None:
    """One fit that finds no idle time, where it looks for any."""
    await play(client, session, 4)
    await until(lambda: installed(client, session))
    [item] = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
    assert item["epoch"] == 1  # once, and without a failure before


def tries(client: Client) -> int:
    """How many fits have looked for idle time."""
    return len(tries_of(client.service.settings.database_url).read_text())


async def test_a_fit_without_idle_time_is_begun_anew(serve: Serve) -> None:
    async with serve(fit_attempts=1, fit_idle_seconds=5.0) as client:
        client.fits.job = starved_fit
        await fit_starved(client, await client.create(algorithm="ad_lasso"))
        assert tries(client) == 1


@pytest.mark.slow  # it waits for idle time thrice
async def test_where_one_fit_found_no_idle_time_others_do_not_look(serve: Serve) -> None:
    async with serve(fit_attempts=1, fit_idle_seconds=5.0) as client:
        client.fits.job = starved_fit
        sessions = [await client.create(algorithm="ad_lasso") for _ in range(3)]
        await asyncio.gather(*(fit_starved(client, session) for session in sessions[:2]))
        assert tries(client) == 1  # the second was due while the first looked
        await fit_starved(client, sessions[2])
        assert tries(client) == 1
        client.fits.busy_seconds, client.fits._busy_until = -1.0, 0.0
        for n in (2, 3):
            await fit_starved(client, await client.create(algorithm="ad_lasso"))
            assert tries(client) == n
