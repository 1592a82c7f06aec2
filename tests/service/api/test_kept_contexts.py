"""`keep_contexts`: all arms of every decision, in the database, an export and an import."""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.cli.evaluate import evaluate_log
from clients.cli.log_files import read_log
from service.session.kept_contexts import MOST_NUMBERS, pack, unpack
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio
TYPED = {"content-type": "application/x-ndjson"}


def arms(seed: int, n_arms: int = 3, dim: int = 2) -> list[list[float]]:
    found: list[list[float]] = np.random.default_rng(seed).standard_normal((n_arms, dim)).tolist()
    return found


async def exported(client: Client, session: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/sessions/{session}/events")
    return [json.loads(line) for line in answer.content.splitlines()]


async def played(client: Client, **body: Any) -> str:
    """A session with different numbers of arms, two trajectories, a forced and an idle round."""
    session = await client.create(algorithm="anytime", keep_contexts=True, **body)
    for i in range(6):
        await client.decide(session, arms(i, 2 + i % 3), trajectory="ab"[i % 2], event_id=f"{i}")
    await client.decide(session, arms(6), forced_arm=2)
    skipped = await client.post(f"/v1/sessions/{session}/decisions", json={"skip": True})
    assert skipped.status_code == 201
    return session


@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_packed_is_the_same_to_the_bit(compressed: bool) -> None:
    contexts = np.array([[0.1, -0.0, 5e-324], [1e12, 1 / 3, -7.0]])
    assert unpack(pack(contexts, compressed), 3).tobytes() == contexts.tobytes()
    assert unpack(pack(np.asfortranarray(contexts), compressed), 3).tobytes() == contexts.tobytes()


async def test_an_export_has_all_arms_and_an_import_keeps_them(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client)
        assert (await client.read(f"/v1/sessions/{session}"))["keep_contexts"] is True
        lines = await exported(client, session)
        decisions = {(d["trajectory"], d["round"]): d for d in lines if d["record"] == "decision"}
        for i in range(6):
            assert decisions["ab"[i % 2], i // 2 + 1]["contexts"] == arms(i, 2 + i % 3)
        assert decisions["", 1]["contexts"] == arms(6)
        assert decisions["", 2]["contexts"] is None
        content = (await client.get(f"/v1/sessions/{session}/events")).content
        made = await client.post("/v1/sessions/import", content=content, headers=TYPED)
        assert made.status_code == 201, made.text
        again = await exported(client, made.json()["id"])
        assert [d for d in again if d["record"] == "decision"] == [
            d for d in lines if d["record"] == "decision"
        ]
        repeat = {"contexts": arms(0, 2), "trajectory": "a", "event_id": "0"}
        path = f"/v1/sessions/{made.json()['id']}"
        assert (await client.post(f"{path}/decisions", json=repeat)).status_code == 200
        await client.decide(made.json()["id"], arms(9), trajectory="a")
        last = [d for d in await exported(client, made.json()["id"]) if d["record"] == "decision"]
        assert any(d.get("contexts") == arms(9) for d in last)
        copied = await client.post(f"/v1/sessions/{session}/copy", json={})
        assert copied.status_code == 201, copied.text
        copy = [d for d in await exported(client, copied.json()["id"]) if d["record"] == "decision"]
        assert [d.get("contexts") for d in copy] == [
            d.get("contexts") for d in lines if d["record"] == "decision"
        ]
        assert (await client.delete(path)).status_code == 204


async def test_nothing_is_kept_unless_it_is_asked_for(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        assert (await client.read(f"/v1/sessions/{session}"))["keep_contexts"] is False
        await client.decide(session, arms(1))
        header, *records = await exported(client, session)
        assert "keep_contexts" not in header["session"]  # as is what is by default
        decisions = [record for record in records if record["record"] == "decision"]
        assert [record["contexts"] for record in decisions] == [None]
        named = {"name": "n", "keep_contexts": False}
        first = await client.create(**named)
        assert (await client.post("/v1/sessions", json=BODY | {"name": "n"})).json()["id"] == first
        other = await client.post("/v1/sessions", json=BODY | {"name": "n", "keep_contexts": True})
        problem(other, 409, "session_conflict", "name")
        bad = await client.post("/v1/sessions", json=BODY | {"keep_contexts": 1})
        problem(bad, 422, "invalid", "keep_contexts")


BODY = {"algorithm": "uniform", "dim": 2, "horizon": 4, "seed": 1}


async def test_a_decision_keeps_at_most_a_megabyte(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(dim=64, keep_contexts=True)
        most = np.zeros((MOST_NUMBERS // 64, 64)).tolist()
        await client.decide(session, most)
        path = f"/v1/sessions/{session}/decisions"
        refused = await client.post(path, json={"contexts": [*most, most[0]]})
        problem(refused, 422, "out_of_range", "contexts")
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 1


@pytest.mark.parametrize("case", ["none kept", "idle", "arms", "width", "chosen"])
@on_one_database
async def test_forged_contexts_are_refused(serve: Serve, case: str) -> None:
    async with serve() as client:
        session = await played(client)
        for i in range(60 if case == "none kept" else 0):  # of the first 63 rounds some may be kept
            await client.decide(session, arms(i))
        lines = await exported(client, session)
        decisions = [line for line in lines if line["record"] == "decision"]
        first = next(d for d in decisions if d["trajectory"] == "a")
        if case == "none kept":
            lines[0]["session"]["keep_contexts"] = False
        elif case == "idle":
            next(d for d in decisions if d["arm"] is None)["contexts"] = arms(1)
        elif case == "arms":
            first["contexts"].append([1.0, 2.0])
        elif case == "width":
            first["contexts"][1 - first["arm"]].append(1.0)
        else:
            first["contexts"][first["arm"]][0] += 1.0
        body = [json.dumps(line).encode() + b"\n" for line in lines[:-1]]
        digest = blake2b(b"".join(body), digest_size=16).hexdigest()
        end = {"record": "end", "count": len(body), "digest": digest}
        content = b"".join(body) + json.dumps(end).encode() + b"\n"
        answer = await client.post("/v1/sessions/import", content=content, headers=TYPED)
        problem(answer, 422, "bad_import", "decision.contexts")


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_session_with_epsilon_is_evaluated_from_its_own_export(
    serve: Serve, tmp_path: Path
) -> None:
    """Every arm and context is read back, and a policy that learns is worth more than uniform."""
    theta, path = np.array([0.8, -0.6]), tmp_path / "log.ndjson"
    async with serve() as client:
        body = {"algorithm": "anytime", "options": {"epsilon": 0.8}, "horizon": 1}
        session = await client.create(keep_contexts=True, **body)
        taken = []
        for i in range(150):
            user, contexts = f"user {i % 8}", arms(i)
            answer = await client.decide(session, contexts, trajectory=user)
            value = float(np.array(contexts[answer["arm"]]) @ theta)
            await client.reward(session, value=value, round=answer["round"], trajectory=user)
            taken.append(answer["arm"])
        path.write_bytes((await client.get(f"/v1/sessions/{session}/events")).content)
    [block] = list(read_log(path))
    assert block.arms is not None
    assert block.arms.tolist() == taken
    assert block.contexts is not None
    assert block.contexts.tolist() == [arms(i) for i in range(150)]
    found, [difference] = evaluate_log(path, 1, {"ad_lasso": {}, "uniform": {}}, (0,), 1)
    assert found["ad_lasso"]["gain"]["low"] > 0
    assert difference["low"] > 0
