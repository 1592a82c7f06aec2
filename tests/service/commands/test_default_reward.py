"""When rounds without a value are closed by a default reward, against the rule written out."""

import random

import pytest

from service.fits.when_due import SHORT
from service.session.records import SessionKey
from service.storage.reader import Reader
from tests.service.service_harness import ServiceHarness

WAIT = 1e6


def expected(
    positions: dict[int, tuple[str, int]],
    at: dict[tuple[str, int], float],
    measured: set[tuple[str, int]],
    window: tuple[int, int, int],
) -> float | None:
    """When a window is closed: with the last of its unmeasured rounds, or as the first decision
    beyond it says, whichever comes first."""
    first, last, due = window
    times = []
    if due + 1 in positions:
        times.append(at[positions[due + 1]])
    waiting = [positions[p] for p in range(first, last + 1) if positions[p] not in measured]
    followed = [at.get((name, round + 1)) for name, round in waiting]
    if None not in followed:
        times.append(max(time for time in followed if time is not None))
    return min(times) + WAIT if times else None


@pytest.mark.parametrize("seed", range(12))
def test_a_window_closes_as_the_rule_says(harness: ServiceHarness, seed: int) -> None:
    random_ = random.Random(seed)
    harness.create(default_reward=0.0, reward_wait_seconds=WAIT)
    names = ["a", "b", "c"][: 1 + seed % 3]
    positions: dict[int, tuple[str, int]] = {}
    at: dict[tuple[str, int], float] = {}
    measured: set[tuple[str, int]] = set()
    for _ in range(60):
        harness.now += 1.0
        absent = sorted(set(at) - measured)
        if absent and random_.random() < 0.45:
            name, round = random_.choice(absent)
            harness.reward(1.0, name, round=round)
            measured.add((name, round))
        else:
            decision = harness.decide(random_.choice(names))
            positions[decision.position] = (decision.trajectory, decision.round)
            at[decision.trajectory, decision.round] = decision.at
        for open_window in harness.session.schedule.open:
            window = open_window.window
            if len(positions) >= window.due:
                assert open_window.overdue_at == expected(
                    positions, at, measured, (window.first, window.last, window.due)
                )


def test_rounds_that_wait_cost_a_decision_nothing(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    closed_at = Reader.closed_at

    def counted(reader: Reader, key: tuple[str, str], first: int, last: int) -> float | None:
        asked.append((first, last))
        return closed_at(reader, key, first, last)

    monkeypatch.setattr(Reader, "closed_at", counted)
    harness.create(default_reward=0.0, reward_wait_seconds=WAIT)
    harness.rounds(200, rewarded=False)
    windows = [open_window.window for open_window in harness.session.schedule.open]
    begun = [(w.first, w.last) for w in windows if w.due <= 200]
    assert len(begun) > 4
    assert asked == begun
    harness.reward(1.0, round=10)
    assert asked[len(begun) :] == [(9, 12)]


def test_late_rewards_read_a_long_window_a_few_times(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read is of all its rounds, in everybody's transaction: once for each halving."""
    read: list[int] = []
    closed_at = Reader.closed_at

    def counted(self: Reader, key: SessionKey, first: int, last: int) -> float | None:
        read.append(last)
        return closed_at(self, key, first, last)

    harness.create(algorithm="anytime", default_reward=0.0, reward_wait_seconds=WAIT, horizon=2)
    harness.rounds(600, rewarded=False)
    [*waiting, ahead] = [one.window for one in harness.session.schedule.open]
    assert ahead.last > 600
    monkeypatch.setattr(Reader, "closed_at", counted)
    for round in range(1, 301):
        harness.reward(1.0, round=round)
    for window in waiting:
        if window.last - window.first >= SHORT:
            assert read.count(window.last) <= 10
    assert any(window.last > 400 for window in waiting)
