"""Fits that others, or an erasure, have overtaken: what they read, and what they keep."""

import numpy as np
import pytest

from lhb_engine.history import FitWindow
from service.commands.decisions import void_decision
from service.commands.erase_trajectory import erase_trajectory
from service.rounds.slot_history import PastBySlot
from service.rounds.slot_sums import SettledSlots, SlotSums, keep_slots
from service.session.fit_schedule import Watermark
from service.session.records import SessionRow
from service.storage.reader import Reader
from tests.service.fits.slot_world import make_small
from tests.service.service_harness import ServiceHarness

N, SECONDS = 20, 60


def known_now(harness: ServiceHarness) -> Watermark:
    session = harness.session
    return Watermark(session.n_measurements, session.n_rounds, harness.now)


def sums(reader: Reader, session: SessionRow, known: Watermark, *, kept: bool = True) -> SlotSums:
    clock = session.clock
    assert clock is not None
    return PastBySlot(reader, session, clock, FitWindow(1, 1, N, 2, N), known, kept).sums


@pytest.mark.parametrize("slot", [4, 9, 10])
def test_an_older_fit_counts_what_was_voided_since(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch, slot: int
) -> None:
    """Slot 9 is the first one after a kept stretch: the later fit has no decision of it."""
    make_small(monkeypatch)
    clock = {"slot_seconds": SECONDS, "start": 960.0, "totals": "trajectory", "late_slots": 1}
    harness.create(algorithm="anytime", dim=2, horizon=2, clock=clock)
    for i in range(N):
        harness.now = 961.0 + SECONDS * i
        harness.decide("a", contexts=np.array([[1.0 + i, 0.5], [2.0 + i, 0.25]]))
    older = known_now(harness)
    harness.run(void_decision(harness.key, "a", f"~{slot}", harness.agents))
    newer = known_now(harness)
    with harness.store.reader() as reader:
        new = sums(reader, harness.session, newer).new
    rows = [row for row in new if row.last_slot == 8]
    assert [row.trajectory for row in rows] == ["", "a"]
    assert harness.run(keep_slots(harness.key, SettledSlots(rows, newer.measured, 0, False)))
    asked = [("a", 1, N)]
    with harness.store.reader() as reader:
        session = harness.session
        for known in (older, newer):
            [whole] = sums(reader, session, known, kept=False).contexts(asked)
            [found] = sums(reader, session, known).contexts(asked)
            assert whole[slot - 1].any() == (known is older)
            np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("totals", ["all", "trajectory"])
def test_slots_that_were_summed_before_an_erasure_are_not_kept(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch, totals: str
) -> None:
    make_small(monkeypatch)
    clock = {"slot_seconds": SECONDS, "start": 960.0, "totals": totals, "late_slots": 1}
    harness.create(algorithm="anytime", dim=2, horizon=2, clock=clock)
    for i in range(N):
        harness.now = 961.0 + SECONDS * i
        harness.decide("ab"[i % 2], contexts=np.ones((2, 2)))
    known = known_now(harness)
    with harness.store.reader() as reader:
        rows = sums(reader, harness.session, known).new
    part = keep_slots(harness.key, SettledSlots(rows, known.measured, 0, False))
    assert harness.run(part)
    harness.run_large(erase_trajectory(harness.key, "b"))
    assert not harness.run(part)
    with harness.store.reader() as reader:
        ranges = [(name, 1, N) for name in ("", "a", "b")]
        left = {row.trajectory for row in reader.slot_sums_in(harness.key, ranges, N)}
    assert left == (set() if totals == "all" else {"", "a"})
