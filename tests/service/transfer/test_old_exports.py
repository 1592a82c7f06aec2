"""What any release has exported is imported for ever: kept files."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from lhb_engine.agents.ucb_mp import UCBMP
from service.transfer.import_file import check_import
from tests.service.conftest import Serve

EXPORTS = Path(__file__).with_name("exports")


def records(lines: list[bytes], kind: str) -> list[dict[str, Any]]:
    return [record for line in lines if (record := json.loads(line))["record"] == kind]


def within(old: Any, new: Any) -> bool:
    """All that was said is said still; a later release may say more."""
    if isinstance(old, dict):
        return all(name in new and within(value, new[name]) for name, value in old.items())
    return bool(old == new)


def first_contexts() -> list[list[float]]:
    """What every file's first decision was asked."""
    rng = random.Random(5)
    return [[round(rng.gauss(0, 1), 3) for _ in range(2)] for _ in range(3)]


@pytest.mark.anyio
@pytest.mark.parametrize("schema", sorted(path.stem for path in EXPORTS.iterdir()))
async def test_a_file_of_any_schema_is_imported(serve: Serve, schema: str) -> None:
    """Every decision, reward and estimate as it was; a retry gets its first answer; it goes on."""
    content = (EXPORTS / f"{schema}.ndjson").read_bytes()
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
    for kind in ("decision", "measurement", "estimate"):
        for old, new in zip(records(before, kind), records(now, kind), strict=True):
            manifest = old.pop("manifest", None)  # kept in the form of this release
            assert manifest is None or manifest["window"] == new["manifest"]["window"]
            if kind == "decision":  # worked out by the schedule of this release
                old = {name: old[name] for name in old.keys() - {"epoch", "next_fit_round"}}
            assert within(old, new)
    first = records(before, "decision")[0]
    assert (told.status_code, told.json()["arm"]) == (200, first["arm"])
    assert following["round"] == len(records(before, "decision")) + 1 == 41


def test_what_an_earlier_agent_learned_in_another_form_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes on from its last fit; that of a later release is refused."""
    content = (EXPORTS / "0005.ndjson").read_bytes()
    [kept] = records(content.splitlines(), "agent")
    found = check_import(lambda: io.BytesIO(content), "", None, False).imported.agent
    assert found is not None
    assert found.state() == kept["state"]
    monkeypatch.setattr(UCBMP, "state_version", kept["state"]["version"] + 1)
    found = check_import(lambda: io.BytesIO(content), "", None, False).imported.agent
    assert found is not None
    assert found.state()["theta"] == kept["state"]["theta"]
    assert found.state()["ellipsoid"] != kept["state"]["ellipsoid"]
