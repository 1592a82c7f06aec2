"""What a release has exported is imported by all later ones: kept files of format 1."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from lhb_engine.agents.ucb_mp import UCBMP
from tests.service.conftest import Serve
from tests.service.transfer.test_import_forgeries import folded

EXPORTS = Path(__file__).with_name("exports")
USUAL = {  # what files of 1.0 leave out: no later release may change it
    **{"algorithm": "anytime", "options": {}, "refit": "background", "keep_contexts": False},
    **{"reward_mode": "single", "reward_wait_seconds": 0.0, "default_reward": None},
    **dict.fromkeys(("reward_unit", "keep_rounds", "keep_days")),
}


def records(lines: list[bytes], kind: str) -> list[dict[str, Any]]:
    return [record for line in lines if (record := json.loads(line))["record"] == kind]


def kept(name: str) -> bytes:
    return gzip.decompress((EXPORTS / f"{name}.ndjson.gz").read_bytes())


def first_contexts() -> list[list[float]]:
    """What every file's first decision was asked."""
    rng = random.Random(5)
    return [[round(rng.gauss(0, 1), 3) for _ in range(2)] for _ in range(3)]


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(path.name.split(".nd")[0] for path in EXPORTS.iterdir()))
async def test_a_kept_file_is_imported(serve: Serve, name: str) -> None:
    """All settings and records as they were; a retry gets its first answer; it goes on."""
    content = kept(name)
    async with serve() as client:
        typed = {"content-type": "application/x-ndjson"}
        made = await client.post("/v1/sessions/import", content=content, headers=typed)
        assert made.status_code == 201, made.text
        path = f"/v1/sessions/{made.json()['id']}"
        now = (await client.get(f"{path}/events")).content.splitlines()
        again = {"contexts": first_contexts(), "event_id": "e1"}
        told = await client.post(f"{path}/decisions", json=again)
        following = await client.decide(made.json()["id"])
    before = content.splitlines()
    header = json.loads(before[0])["session"]
    for setting, usual in USUAL.items():
        assert made.json()[setting] == header.get(setting, usual), setting
    for kind in ("decision", "measurement", "void"):
        assert records(now, kind) == records(before, kind)
    estimates = records(now, "estimate")
    assert estimates[: len(records(before, "estimate"))] == records(before, "estimate")
    first = records(before, "decision")[0]
    assert (told.status_code, told.json()["arm"]) == (200, first["arm"])
    assert following["round"] == len(records(before, "decision")) + 1 == 41


def test_what_an_agent_learned_in_another_form_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on from its last fit."""
    content = kept("1.0-ucb_mp")
    [learned] = records(content.splitlines(), "agent")
    found = folded(content).agent
    assert found.state() == learned["state"]
    monkeypatch.setattr(UCBMP, "state_version", learned["state"]["version"] + 1)
    found = folded(content).agent
    assert found.state()["theta"] == learned["state"]["theta"]
    assert found.state()["ellipsoid"] != learned["state"]["ellipsoid"]
