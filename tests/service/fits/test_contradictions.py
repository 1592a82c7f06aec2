"""Rewards that were corrected after a fit had used them, each to something else."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from service.commands.out_of_turn import ask_fit
from service.transfer.replay import replay_session
from tests.service.fits.slot_world import DIM, LATE, SECONDS, START, THETA, make_small
from tests.service.service_harness import ServiceHarness


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_fits_from_sums_go_on_where_all_that_they_used_was_corrected(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Totals of many people over one slot: no row of the installed estimate's fit is left."""
    make_small(monkeypatch)
    harness = ServiceHarness(tmp_path)
    clock = {"slot_seconds": SECONDS, "start": float(START), "totals": "trajectory"}
    clock["late_slots"] = LATE
    harness.create(algorithm="anytime", dim=DIM, horizon=2, clock=clock)
    rng, harness.now = np.random.default_rng(1), START + 1.0
    contexts = rng.uniform(-1, 1, (40, 1, DIM))
    for i, context in enumerate(contexts):
        harness.decide(f"u{i}", contexts=context, at=harness.now)
    harness.now = START + 2.0 * SECONDS
    slot = (datetime.fromtimestamp(START + SECONDS * end, UTC) for end in (0, 1))
    span = dict(zip(("since", "until"), slot, strict=True))
    for again in range(3):
        for i, context in enumerate(contexts):
            harness.now += SECONDS / 8
            value = 3.0 * float(context[0] @ THETA)
            more = {"correct": True, "reward_id": f"again {again}"} if again else {}
            harness.reward(
                value * rng.normal(0.0, 5.0) if again else value, f"u{i}", **span, **more
            )
            if i % 10 == 9:
                harness.run(ask_fit(harness.key, harness.agents))
                harness.make_fits(database_url)
    statuses = {status for _, status in harness.statuses}
    assert statuses == {"ok"}, [row.reason for row in harness.estimates]
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []
    harness.close()
