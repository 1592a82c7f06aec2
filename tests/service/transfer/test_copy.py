"""A copy has its source's data and other settings; it learns from all of it at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents.fit_cost import FitCost
from service.commands.decisions import void_decision
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.storage.transactions import Store
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.replay import replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.conftest import Serve, problem
from tests.service.service_harness import ServiceHarness

LARGE = FitCost(1e9, 1e9)


def lived(tmp_path: Path, store: Store) -> ServiceHarness:  # noqa: F811
    """Two trajectories, a span, a gap, a correction, a void decision and a round without action."""
    harness = ServiceHarness(tmp_path, store)
    harness.create(algorithm="anytime", horizon=3, options={"epsilon": 0.2})
    rng = np.random.default_rng(2)
    for round in range(1, 31):
        for name in ("", "b"):
            contexts = rng.uniform(-1, 1, (3, 2))
            decision = harness.decide(name, contexts=contexts)
            value = float(contexts[decision.arm] @ [0.6, -0.8]) + 0.01 * float(rng.random())
            if round not in (5, 6, 7):
                harness.reward(value, name, round=round)
    harness.reward(0.3, first_round=5, last_round=6)
    harness.reward(0.1, round=9, correct=True, reward_id="x")
    harness.run(void_decision(harness.key, "b", "~4", harness.agents))
    harness.decide(contexts=None)
    return harness


def rows(harness: ServiceHarness, name: str) -> list[Any]:
    with harness.store.reader() as reader:
        key = (*harness.key, name)
        decisions = reader.decisions(key, 0, 1000)
        found: list[Any] = [
            (d.round, d.position, d.event_id, d.arm, d.context[:16], d.at) for d in decisions
        ]
        return found + [one[2:] for one in reader.measurement_log(key)]


def copied(harness: ServiceHarness, tmp_path: Path, **asked: Any) -> None:
    """Make a copy, which the harness then means."""
    source = harness.session
    copy, agent = copied_session(source, asked, False, LARGE, harness.now)
    with harness.store.reader() as reader:
        content = b"".join(copy_session(reader, source, copy, agent))
    made, is_new = harness.import_file(tmp_path, content)
    assert is_new
    harness.key = made.key


@pytest.mark.parametrize(
    "asked",
    [
        {"options": {"trend": True, "memory": 40}},
        {"algorithm": "ad_lasso", "options": {}, "horizon": 2},
    ],
)
def test_a_copy_fits_all_that_its_source_has(
    tmp_path: Path,
    store: Store,  # noqa: F811
    database_url: str,
    asked: dict[str, Any],
) -> None:
    harness = lived(tmp_path, store)
    source, data = harness.session, {name: rows(harness, name) for name in ("", "b")}
    copied(harness, tmp_path, **asked)
    session = harness.session
    assert {name: rows(harness, name) for name in ("", "b")} == data
    assert (session.n_rounds, session.n_measurements) == (61, source.n_measurements)
    assert (session.n_estimates, session.model_version) == (0, 0)
    assert session.options == asked["options"]
    harness.tick()
    due = harness.session.fit_due
    assert due is not None
    assert len(harness.session.schedule.open) == 1
    answer = run_fit(database_url, *harness.key, due, 0.0)
    assert answer is not None
    harness.run(FinishFit(harness.key, due, answer, harness.agents))
    assert [status for _, status in harness.statuses] == ["ok"]
    assert harness.session.model_version == 1
    harness.reward(1.0, round=harness.decide().round)
    with harness.store.reader() as reader:
        replay = replay_session(reader, harness.session)
    assert replay.differences == []
    assert (replay.decisions, replay.estimates) == (62, 1)


@pytest.mark.anyio
async def test_a_copy_over_http_is_made_once(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="anytime")
        for round in range(1, 6):
            await client.decide(session, event_id=f"e{round}")
            await client.reward(session, value=0.1 * round, round=round)
        path, body = f"/v1/sessions/{session}/copy", {"name": "twin", "options": {"trend": True}}
        made = await client.post(path, json=body)
        assert made.status_code == 201, made.text
        assert made.headers["location"] == f"/v1/sessions/{made.json()['id']}"
        assert (made.json()["n_rounds"], made.json()["options"]) == (5, {"trend": True})
        await client.decide(session)
        again = await client.post(path, json=body)
        assert (again.status_code, again.json()["id"]) == (200, made.json()["id"])
        page = await client.read(f"/v1/sessions/{made.json()['id']}/rounds")
        assert [one["event_id"] for one in page["items"]] == [f"e{i}" for i in range(1, 6)]
        assert [one["reward"] for one in page["items"]] == [0.1 * i for i in range(1, 6)]
        assert all(one["forced"] for one in page["items"])
        for body, status, code, field in (
            ({"name": "twin", "options": {}}, 409, "session_conflict", "name"),
            ({"options": {"nothing": 1}}, 422, "bad_option", "options.nothing"),
            ({"algorithm": "lin_ucb", "options": {}}, 422, "bad_option", "algorithm"),
            ({"algorithm": "best"}, 422, "unknown_algorithm", "algorithm"),
            ({"dim": 3}, 422, "unknown_field", "dim"),
            ({"reward_wait_seconds": -1}, 422, "out_of_range", "reward_wait_seconds"),
        ):
            answer = await client.post(path, json=body)
            problem(answer, status, code, field)
        answer = await client.post("/v1/sessions/nobody/copy", json={})
        problem(answer, 404, "unknown_session", "session_id")
        assert len((await client.read("/v1/sessions"))["items"]) == 2


@pytest.mark.anyio
async def test_rounds_without_values_of_a_covariate_get_none(serve: Serve) -> None:
    """As 0 they would say that nothing moved rewards in the rounds before."""
    async with serve() as client:
        session = await client.create(algorithm="anytime", options={"covariates": ["rain"]})
        path = f"/v1/sessions/{session}"
        for named in (["rain", "heat"], ["rain"], []):
            body = {"options": {"covariates": named}}
            made = await client.post(f"{path}/copy", json=body)
            assert made.status_code == 201, made.text
        await client.decide(session, covariates={"rain": 1.0})
        body = {"options": {"covariates": ["rain", "heat"]}}
        for answer in (
            await client.post(f"{path}/copy", json=body),
            await client.patch(path, json=body),
        ):
            problem(answer, 422, "bad_option", "options.covariates")
            assert "1 rounds have no values of the covariate 'heat'" in answer.json()["detail"]
        body["options"]["covariates"] = []
        assert (await client.post(f"{path}/copy", json=body)).status_code == 201


@pytest.mark.anyio
async def test_a_copy_of_a_trial_that_keeps_contexts(serve: Serve) -> None:
    """Who played is not copied: nobody played the copy's rounds."""
    async with serve() as client:
        holdout = {"share": 0.5, "policy": "uniform"}
        more = {"holdout": holdout, "keep_contexts": True, "options": {"epsilon": 0.5}}
        session = await client.create(algorithm="anytime", **more)
        for i in range(8):
            await client.decide(session, trajectory=f"t{i}")
            await client.reward(session, value=1.0, round=1, trajectory=f"t{i}")
        await client.patch(f"/v1/sessions/{session}", json={"options": {"epsilon": 0.1}})
        await client.decide(session, trajectory="t0")
        log = await client.read(f"/v1/sessions/{session}/rounds?trajectory=t0")
        made = await client.post(f"/v1/sessions/{session}/copy", json={})
        assert made.status_code == 201, made.text
        copy = made.json()
        assert (copy["n_rounds"], copy["holdout"]["share"]) == (9, 0.5)
        assert copy["options"] == {"epsilon": 0.1}
        copied = await client.read(f"/v1/sessions/{copy['id']}/rounds?trajectory=t0")
        same = ("round", "arm", "context", "reward")
        assert [[one[name] for name in same] for one in copied["items"]] == [
            [one[name] for name in same] for one in log["items"]
        ]
        assert {one["played_by"] for one in copied["items"]} == {None}
        with client.service.store.reader() as reader:
            found = reader.session(("", copy["id"]))
            assert found is not None
            assert replay_session(reader, found).differences == []


@pytest.mark.anyio
@pytest.mark.parametrize("keeps", [False, True])
async def test_a_copy_works_out_other_columns(serve: Serve, keeps: bool) -> None:
    """Its rounds are those of a session that had them from the start, and so are its decisions."""
    worked_out = {"products": [["new", "price"], ["price", "price"]], "repetition": 3}
    about = {"horizon": 3, "seed": 7, "algorithm": "anytime", "keep_contexts": keeps}
    rng = np.random.default_rng(4)
    drawn = rng.uniform(-1, 1, (12, 3, 2)).tolist()
    async with serve() as client:
        told = await client.create(dim=5, features=["price", "new"], **worked_out, **about)
        plain = await client.create(
            dim=3, features=["price", "new"], products=[["new", "new"]], **about
        )
        for i, contexts in enumerate(drawn):
            for session in (told, plain):
                key = f"u{i % 2}"
                await client.decide(session, contexts, trajectory=key, forced_arm=i % 3)
                value = {"value": contexts[i % 3][0], "round": i // 2 + 1}
                await client.reward(session, trajectory=key, **value)
        for session in (told, plain):
            await client.decide(session, None, trajectory="u0", skip=True)
        made = await client.post(f"/v1/sessions/{plain}/copy", json=worked_out)
        assert made.status_code == 201, made.text
        copy = made.json()
        labels = ["price", "new", "new x price", "price x price", "repetition"]
        assert (copy["dim"], copy["features"]) == (5, labels)
        assert {name: copy[name] for name in worked_out} == worked_out
        for key in ("u0", "u1"):
            found, expected = [
                (await client.read(f"/v1/sessions/{one}/rounds?trajectory={key}"))["items"]
                for one in (copy["id"], told)
            ]
            for one, other in zip(found, expected, strict=True):
                assert (one["arm"], one["reward"]) == (other["arm"], other["reward"])
                assert one["context"] == pytest.approx(other["context"])
                for mine, theirs in zip(
                    *(x.get("contexts") or [] for x in (one, other)), strict=True
                ):
                    assert mine == pytest.approx(theirs)
        ours = await client.decide(copy["id"], drawn[0], trajectory="u1", forced_arm=0)
        assert ours["round"] == 7
        again = await client.read(f"/v1/sessions/{copy['id']}/rounds?trajectory=u1")
        await client.decide(told, drawn[0], trajectory="u1", forced_arm=0)
        same = await client.read(f"/v1/sessions/{told}/rounds?trajectory=u1")
        assert again["items"][-1]["context"] == pytest.approx(same["items"][-1]["context"])
        less = await client.post(
            f"/v1/sessions/{copy['id']}/copy", json={"products": None, "repetition": None}
        )
        assert (less.json()["dim"], less.json()["features"]) == (2, ["price", "new"])
        wrong = await client.post(
            f"/v1/sessions/{plain}/copy", json={"products": [["price", "age"]]}
        )
        problem(wrong, 422, "invalid", "products")
