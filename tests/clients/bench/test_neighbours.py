"""`lhb bench neighbours`: a flood is really under way while the quiet sessions are measured."""

import pytest

from clients.bench.server import neighbours


@pytest.mark.parametrize("flood", ["histories", "collisions"])
def test_a_flood_is_measured_beside_its_absence(
    flood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LOG_ROUNDS", 300)
    found = neighbours.run([flood], 1.0, 10_000, None)["floods"][flood]
    assert found["flood_requests"] >= 1
    for when in ("alone", "beside"):
        assert 0 < found[when]["p50_ms"] <= found[when]["p99_ms"] <= found[when]["longest_ms"]
        assert found[when]["throughput"] > 0
