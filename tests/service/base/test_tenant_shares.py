"""No tenant takes all places of exports, imports and reads."""

import asyncio
import threading

import pytest

from service.base.problems import Problem, ProblemCode
from service.base.recurring import Intervals
from service.base.tenant_shares import Places, TenantLimit
from service.storage.transactions import MAX_EXPORTS, MAX_READS
from tests.service.conftest import Serve, problem
from tests.service.transfer.test_file_format import SlowExport
from tests.service.web.test_api_keys import bearer, make_key

pytestmark = pytest.mark.anyio


def test_one_tenant_leaves_places_to_others() -> None:
    places, held = Places(8, ProblemCode.TOO_MANY_STREAMS), []
    for tenant, most in (("a", 4), ("b", 2), ("c", 1), ("d", 1)):
        for _ in range(most):
            held.append(places.take(tenant))
            held[-1].__enter__()
        with pytest.raises(Problem), places.take(tenant):
            pass
    for place in held:
        place.__exit__(None, None, None)
    for _ in range(4):
        places.take("e").__enter__()


async def test_a_tenants_work_waits_for_its_own_alone() -> None:
    limit, order, free = TenantLimit(2), [], asyncio.Event()

    async def work(tenant: str) -> None:
        async with limit.hold(tenant):
            order.append(tenant)
            if tenant == "many":
                await free.wait()

    tasks = [asyncio.create_task(work("many")) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.wait_for(work("one"), 60)
    assert order == ["many", "many", "one"]
    tasks[3].cancel()
    free.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order.count("many") == 4
    assert limit._queues == {}  # nothing is kept of those who are gone


async def test_unread_exports_of_one_tenant_deny_no_other(serve: Serve) -> None:
    async with serve() as client:
        (a, _), (b, _) = await make_key(client, "a"), await make_key(client, "b")
    async with serve() as client:
        go_on, exports = asyncio.Event(), []
        for key in (a, b):
            client.headers.update(bearer(key))
            session = await client.create()
            await client.decide(session)
            path = f"/v1/sessions/{session}/events"
            if key == a:
                for _ in range(MAX_EXPORTS // 2):
                    exports.append(SlowExport(client, session, go_on))
                    await asyncio.wait_for(exports[-1].is_held.wait(), 60)
                problem(await client.get(path), 503, "too_many_exports")
        answer = await client.get(path)
        assert answer.status_code == 200
        assert answer.content.count(b"\n") > 1
        go_on.set()
        await asyncio.gather(*(export.task for export in exports))
        client.headers.update(bearer(a))
        assert (await client.get("/v1/sessions")).status_code == 200


async def test_streams_of_one_tenant_deny_no_other(serve: Serve) -> None:
    async with serve() as client:
        (a, _), (b, _) = await make_key(client, "a"), await make_key(client, "b")
    async with serve(Intervals(changes=60.0, stream=600.0)) as client:
        client.service.streams = places = Places(4, ProblemCode.TOO_MANY_STREAMS)
        sessions = {}
        for key in (a, b):
            client.headers.update(bearer(key))
            sessions[key] = f"/v1/sessions/{await client.create()}/changes"
        tasks = []
        try:
            for key, most in ((a, 2), (b, 1)):
                client.headers.update(bearer(key))
                for _ in range(most):
                    before = places.n_taken
                    tasks.append(asyncio.create_task(client.get(sessions[key])))
                    async with asyncio.timeout(120):
                        while places.n_taken == before:
                            await asyncio.sleep(0.01)
                problem(await client.get(sessions[key]), 503, "too_many_streams")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert places.n_taken == 0


async def test_slow_reads_of_one_tenant_leave_threads_to_others(serve: Serve) -> None:
    async with serve() as client:
        free, n_held = threading.Event(), 0

        def hold() -> None:
            nonlocal n_held
            n_held += 1
            free.wait(120)

        held = [asyncio.create_task(client.service.read_for("a", hold)) for _ in range(20)]
        try:
            found = await asyncio.wait_for(client.service.read_for("b", lambda: "read"), 60)
            assert (found, n_held) == ("read", MAX_READS // 2)
        finally:
            free.set()
            await asyncio.gather(*held)
        assert n_held == 20
