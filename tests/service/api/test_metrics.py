"""What was decided, rewarded and refused is counted, whatever route it came by."""

import json
import re
import time
from collections import Counter
from typing import Any

import pytest

from service.api.metrics import MOST_TENANTS, OTHERS, Metrics
from service.commands.keys import new_key, save_key
from service.session.records import EstimateRow
from service.writer.after_commit import Effects
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, until
from tests.service.web.test_api_keys import bearer

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.0], [0.0, 1.0]]


async def metrics_of(client: Client) -> dict[str, float]:
    """Every series with its value."""
    text = (await client.get("/metrics")).text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_decisions_rewards_and_refusals_count_by_any_route(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}"
        await client.decide(session, event_id="a")
        await client.decide(session, event_id="a")  # a repeat is no new decision
        await client.decide(session, rewards=[{"round": 1, "value": 1.0}])  # in time
        items: list[Any] = [
            {"session_id": session, "decision": {"contexts": ARMS}},
            {"session_id": session, "reward": {"round": 2, "value": 1.0}},  # late: round 3 began
            {"session_id": session, "reward": {"round": 9, "value": 1.0}},
            {"session_id": session, "reward": {}},
        ]
        await client.post("/v1/batch", json={"items": items})
        await client.reward(session, round=3, value=1.0)
        await client.reward(session, round=3, value=2.0)
        await client.get(f"{path}/rounds?limit=none")
        await client.get("/nowhere")
        history = {"contexts": ARMS, "rewards": [1.0, None]}
        assert (await client.post(f"{path}/history", json=history)).status_code == 201
        found = await metrics_of(client)
        assert found['lhb_requests_total{tenant=""}'] == 10
        assert found['lhb_decisions_total{tenant=""}'] == 3
        assert found['lhb_rewards_total{tenant=""}'] == 3
        assert found['lhb_late_rewards_total{tenant=""}'] == 1
        refused = {k: v for k, v in found.items() if k.startswith("lhb_refusals_total")}
        assert {re.search('code="(.*?)"', k)[1]: v for k, v in refused.items()} == {  # type: ignore[index]
            **{"future_round": 1, "missing": 1, "reward_conflict": 1},
            **{"invalid": 1, "unknown_route": 1},
        }
        assert found["lhb_commit_seconds_count"] == found["lhb_commit_commands_count"] > 4
        assert found["lhb_commit_commands_sum"] >= 10
        assert found["lhb_database_up"] == 1
        assert found["lhb_database_bytes"] > 10_000
        assert found["process_resident_memory_bytes"] > 10_000_000
        [build] = [name for name in found if name.startswith("lhb_build_info")]
        assert 'schema="00' in build


@on_one_database
async def test_fits_count_by_tenant_where_they_are_recorded(serve: Serve) -> None:
    """On SQLite: on PostgreSQL by the worker, which here has no port of its own."""
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso", refit="blocking")
        for round in range(1, 6):
            await client.decide(session)
            await client.reward(session, round=round, value=float(round))

        async def is_recorded() -> bool:
            found = await metrics_of(client)
            return sum(v for k, v in found.items() if k.startswith("lhb_fits_total")) == 1.0

        await until(is_recorded)
        assert (await metrics_of(client))['lhb_missing_rewards_total{tenant=""}'] == 0


async def test_a_tenant_sees_its_own_series_and_the_house_sees_all(serve: Serve) -> None:
    async with serve() as client:
        keys = {tenant: new_key(tenant, "", 0.0) for tenant in ("", "a", "b")}
        for _, row in keys.values():
            await client.service.writer.submit(save_key(row))
    async with serve() as client:
        for key, _ in keys.values():
            client.headers.update(bearer(key))
            await client.decide(await client.create())
        for tenant, shown in (("", {"", "a", "b"}), ("a", {"a"})):
            client.headers.update(bearer(keys[tenant][0]))
            found = await metrics_of(client)
            named = {m[1] for k in found if (m := re.search('tenant="(.*?)"', k))}
            assert named == shown
            assert found["lhb_database_up"] == 1


async def test_rounds_since_a_fit_was_due_are_counted_by_tenant(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.fits.fits_in_server.FitPool._run_waiting", lambda pool: None)
    monkeypatch.setattr("service.operation.worker.Worker._claim", _claim_nothing)
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso")
        for round in range(1, 8):
            await client.decide(session)
            await client.reward(session, round=round, value=1.0)
        found = await metrics_of(client)
        assert found['lhb_tenant_fits_due{tenant=""}'] == 1
        with client.service.store.reader() as reader:
            stored = reader.session(("", session))
        assert stored is not None
        assert stored.fit_due is not None
        assert found['lhb_staleness_rounds{tenant=""}'] == 7 - stored.fit_due > 0
        assert stored.fit_due_at is not None
        latest = time.time() - stored.fit_due_at
        assert 0 < found['lhb_staleness_seconds{tenant=""}'] <= latest


async def _claim_nothing(*_: object) -> None:
    pass


def test_series_of_tenants_are_bounded() -> None:
    metrics = Metrics()
    for i in range(MOST_TENANTS + 5):
        metrics.after_commit(Effects(counts=Counter({("decisions", f"t{i}"): 1})))
    text = metrics.text().decode()
    assert f'lhb_decisions_total{{tenant="{OTHERS}"}} 5.0' in text
    assert text.count("lhb_decisions_total{") == MOST_TENANTS + 1


def test_findings_and_alarms_of_fits_are_counted() -> None:
    metrics = Metrics()
    values = {
        "findings": [{"code": "season"}, {"code": "trend"}],
        "diagnostics": {"alarm": {"at": 9}},
    }
    row = EstimateRow(
        *("shop", "s", 1, 1, 9, "ok", None, '{"due_at": 4.0}', 0, 1, None, json.dumps(values), 7.0)
    )
    metrics.after_commit(Effects(fits=[row]))
    text = metrics.text().decode()
    assert 'lhb_findings_total{tenant="shop"} 2.0' in text
    assert 'lhb_alarms_total{tenant="shop"} 1.0' in text
    assert "lhb_fit_age_seconds_sum 3.0" in text


async def test_a_guard_that_has_tripped_shows_until_it_is_armed(serve: Serve) -> None:
    async with serve() as client:
        name = 'lhb_guards_tripped{tenant=""}'
        session = await client.create(holdout={"share": 0.5, "policy": "uniform"})
        assert (await metrics_of(client))[name] == 0
        for i in range(80):
            decision = await client.decide(session, trajectory=f"u{i}")
            value = float(decision["played_by"] == "control") + 0.01 * i
            await client.reward(session, value=value, round=1, trajectory=f"u{i}")
        lift = (await client.read(f"/v1/sessions/{session}/lift"))["lift"]
        assert lift["high"] < 0
        assert (await client.read(f"/v1/sessions/{session}"))["guard"] == "tripped"
        assert (await metrics_of(client))[name] == 1
        answer = await client.patch(f"/v1/sessions/{session}", json={"guard": "armed"})
        assert answer.json()["guard"] == "armed"
        assert (await metrics_of(client))[name] == 0
        assert (await client.read(f"/v1/sessions/{session}/lift"))["agent"]["n_rounds"] == 0
