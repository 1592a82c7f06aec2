"""When a fit is due, rule by rule (docs/architecture.md, A fit).

ad_lasso with horizon 4 fits 2..4, 9..12, 21..28.
"""

import json
import random
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents.fit_windows import anytime_windows
from service.commands.decisions import Blocked
from service.fits import when_due
from service.fits.fit_row import MAX_WAITING
from service.session.records import SessionRow
from service.writer.unit_of_work import UnitOfWork
from tests.service.histories import read_history
from tests.service.service_harness import OK, ZERO, ServiceHarness


def test_due_as_soon_as_the_window_is_complete(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(4, rewarded=False)
    for round in (1, 4, 3):
        harness.reward(1.0, round=round)
        assert harness.session.fit_due is None
    harness.reward(1.0, round=2)
    assert harness.session.fit_due == 4
    assert {key: due for key, (due, _) in harness.effects.due.items()} == {harness.key: 4}


def test_rewards_that_come_before_the_boundary_count_too(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(3)
    decision = harness.decide()
    assert (decision.next_fit_round, decision.epoch, decision.model_version) == (4, 1, 0)
    assert harness.session.fit_due is None
    harness.reward(1.0, round=4)
    assert harness.session.fit_due == 4


def test_a_missing_reward_makes_it_due_at_the_first_decision_beyond(
    harness: ServiceHarness,
) -> None:
    harness.create()
    harness.rounds(3)
    harness.decide()
    decision = harness.decide()
    assert decision.epoch == 2
    assert harness.session.fit_due == 4
    assert harness.session.schedule.current is not None
    assert harness.session.schedule.current.reason == "overdue"


def test_the_manifest_is_fixed_when_the_fit_becomes_due(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(3)
    harness.decide()
    harness.decide()
    session = harness.session
    due = session.schedule.current
    assert due is not None
    assert due.known.measured == 3
    harness.reward(7.0, round=4)
    with harness.store.reader() as reader:
        history = read_history(reader, session, due.window, due.known)
        later = read_history(reader, session, due.window)
    assert history.trajectories[""].measurements.first.tolist() == [2, 3]
    assert later.trajectories[""].measurements.first.tolist() == [2, 3, 4]


def test_waiting_time_starts_at_the_first_decision_beyond(harness: ServiceHarness) -> None:
    harness.create(reward_wait_seconds=60.0)
    harness.rounds(3)
    harness.decide()
    harness.now += 500
    harness.tick()
    assert harness.session.fit_due is None
    harness.decide()
    assert harness.session.wake_at == harness.now + 60
    assert harness.effects.timed == {harness.key: harness.now + 60}
    harness.now += 59
    harness.tick()
    harness.decide()
    assert harness.session.fit_due is None
    harness.now += 1
    harness.tick()
    assert harness.session.fit_due == 4
    assert harness.session.wake_at is None


def test_a_window_does_not_put_off_the_timer_of_the_one_before(harness: ServiceHarness) -> None:
    harness.create(reward_wait_seconds=60.0)
    harness.rounds(3)
    harness.decide()
    harness.decide()  # beyond the first window, which waits for round 4
    first = harness.now + 60
    harness.rounds(6)
    harness.decide()
    harness.now += 30
    harness.decide()  # beyond the second one, which waits for round 12
    assert [window.overdue_at for window in harness.session.schedule.open] == [
        first,
        first + 30,
        None,
    ]
    assert harness.effects.timed == {harness.key: first}


def test_a_late_reward_within_the_waiting_time_completes_the_window(
    harness: ServiceHarness,
) -> None:
    harness.create(reward_wait_seconds=60.0)
    harness.rounds(3)
    harness.decide()
    harness.decide()
    harness.reward(1.0, round=4)
    due = harness.session.schedule.current
    assert due is not None
    assert due.reason == "complete"
    assert due.known.measured == 4


def test_two_due_at_once_the_later_is_fitted_and_the_earlier_skipped(
    harness: ServiceHarness,
) -> None:
    harness.create()
    harness.rounds(4)
    assert harness.session.fit_due == 4
    harness.rounds(8)
    assert [due.key for due in harness.session.schedule.waiting] == [12]
    harness.rounds(16)
    harness.finish(4)
    assert harness.session.fit_due == 28
    harness.finish(28)
    assert harness.statuses == [(1, "ok"), (3, "ok"), (2, "skipped")]
    assert harness.session.model_version == 2
    assert harness.session.fit_due is None


def test_where_the_later_yields_nothing_the_earlier_is_skipped_too(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(28)
    harness.finish(4, ZERO)
    harness.finish(28, ZERO)
    assert harness.session.fit_due is None
    assert harness.statuses == [(1, "zero"), (3, "zero"), (2, "skipped")]
    assert harness.session.model_version == 0


def remembering(harness: ServiceHarness, **more: Any) -> None:
    """A session with a fit due every other round."""
    harness.create(algorithm="anytime", options={"memory": 10}, **more)


def test_fits_that_wait_do_not_pile_up(harness: ServiceHarness) -> None:
    remembering(harness)
    harness.rounds(200)
    schedule = harness.session.schedule
    assert len(schedule.waiting) == MAX_WAITING
    assert harness.session.fit_due == 8  # the one at work is not taken back
    skipped = [record for record in harness.estimates if record.status == "skipped"]
    assert all("given up" in str(record.reason) for record in skipped)
    assert max(record.due for record in skipped) < min(due.key for due in schedule.waiting)
    n_due = len(skipped) + MAX_WAITING + 1
    assert n_due == sum(1 for _ in takewhile(lambda w: w.due <= 200, anytime_windows(4, 10)))
    latest = max(due.key for due in schedule.waiting)
    harness.finish(8)
    assert harness.session.fit_due == latest


def test_what_a_reward_completes_is_stored_where_others_are_closed_beside_it(
    harness: ServiceHarness,
) -> None:
    """A window that is closed by default rewards writes the session before the last one counts."""
    harness.create(algorithm="anytime", default_reward=0.5, reward_wait_seconds=60.0)
    drawn, left = random.Random(1), dict[str, list[int]](a=[], b=[])
    for _ in range(60):
        harness.now += 1
        key = drawn.choice("ab")
        left[key].append(harness.decide(key).round)
        key = drawn.choice("ab")
        if left[key] and drawn.random() < 0.6:
            harness.reward(1.0, key, round=left[key].pop(drawn.randrange(len(left[key]))))
            known = harness.store.sessions.get(harness.key)
            assert known is not None
            assert harness.session.n_complete == known.n_complete


def test_windows_whose_rewards_never_come_do_not_pile_up(harness: ServiceHarness) -> None:
    remembering(harness, reward_wait_seconds=1e6)
    harness.rounds(200, rewarded=False)
    schedule = harness.session.schedule
    assert len(schedule.open) == MAX_WAITING + 1
    assert (schedule.waiting, schedule.current) == ([], None)
    assert {record.status for record in harness.estimates} == {"skipped"}
    for round in range(191, 201):  # what is still open can be completed
        harness.reward(1.0, round=round)
    assert harness.session.fit_due == 200


def test_an_estimate_never_goes_backwards(harness: ServiceHarness) -> None:
    harness.create(reward_wait_seconds=1e6)
    harness.rounds(3)
    harness.decide()
    harness.rounds(8)
    assert harness.session.fit_due == 12
    harness.finish(12)
    assert harness.statuses == [(2, "ok"), (1, "skipped")]
    harness.reward(1.0, round=4)
    assert harness.session.fit_due is None


def test_zero_is_recorded_keeps_theta_and_the_model_version(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(4)
    harness.finish(4, OK)
    first = harness.decide()
    assert first.model_version == 1
    assert np.frombuffer(first.scores).tolist() == [0.6, 0.8]
    harness.reward(1.0, round=5)
    harness.rounds(7)
    harness.finish(12, ZERO)
    second = harness.decide()
    assert second.model_version == 1
    assert second.scores == first.scores
    assert harness.statuses == [(1, "ok"), (2, "zero")]
    assert harness.session.estimate == 1


def test_a_failed_fit_is_recorded_and_tried_again_later(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(4)
    assert harness.finish(4, None, "out of memory") == "failed"
    assert harness.estimates[0].reason == "out of memory"
    assert harness.session.fit_due is None
    assert harness.decide().model_version == 0
    assert harness.session.wake_at == harness.now + 10
    harness.now += 10
    harness.tick()
    assert harness.session.fit_due == 4
    harness.finish(4, None)
    harness.now += 19
    harness.tick()
    assert harness.session.fit_due is None
    harness.now += 1
    harness.tick()
    harness.finish(4, None)
    assert harness.session.fit_due is None
    assert harness.session.wake_at is None
    assert harness.statuses == [(1, "failed")] * 3


def test_a_result_that_comes_twice_is_installed_once(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(4)
    assert harness.finish(4) == "ok"
    assert harness.finish(4) is None
    assert harness.statuses == [(1, "ok")]


def test_blocking_decisions_wait_for_fits_and_never_for_rewards(harness: ServiceHarness) -> None:
    harness.create(refit="blocking")
    harness.rounds(4)
    assert harness.decide_or_block() == Blocked(4)
    assert harness.session.n_rounds == 4
    harness.finish(4)
    assert harness.decide().round == 5
    harness.reward(1.0, round=5)
    harness.rounds(6)
    harness.decide()
    assert harness.decide().round == 13
    assert harness.decide_or_block() == Blocked(12)


def test_windows_that_wait_for_rewards_cost_later_decisions_nothing(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the decisions that begin a window, or come after a wait, look for a fit that is due."""
    looked: list[int] = []
    mark_due = when_due.mark_due

    def noted(uow: UnitOfWork, session: SessionRow, now: float) -> None:
        looked.append(session.n_rounds)
        mark_due(uow, session, now)

    monkeypatch.setattr(when_due, "mark_due", noted)
    harness.create(reward_wait_seconds=100.0)
    harness.rounds(60, rewarded=False)
    begun = [one.window.due for one in harness.session.schedule.open[:-1]]
    assert looked == begun
    assert len(begun) > 3
    harness.now += 100.0
    harness.decide()
    assert looked == [*begun, 61]
    assert harness.session.fit_due == begun[-2]


def test_a_blocking_decision_is_not_held_up_by_a_failed_fit(harness: ServiceHarness) -> None:
    harness.create(refit="blocking")
    harness.rounds(4)
    harness.finish(4, None)
    assert harness.decide().model_version == 0


def test_a_clock_that_goes_back_changes_nothing(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(3)
    harness.decide()
    harness.now -= 900
    decision = harness.decide()
    assert decision.at == 1000.0
    assert harness.session.fit_due == 4


def test_the_estimate_says_what_it_used(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(4)
    harness.finish(4)
    record = harness.estimates[0]
    manifest = json.loads(record.manifest)
    assert (manifest["measured"], manifest["decided"]) == (4, 4)
    assert manifest["window"] == {"epoch": 1, "first": 2, "last": 4, "n_lags": 1, "due": 4}
    assert (record.parent, record.model_version) == (0, 1)
    assert json.loads(record.fingerprint or "") == {"numpy": "0"}


def test_everything_survives_a_restart(harness: ServiceHarness, tmp_path: Path) -> None:
    harness.create()
    harness.rounds(12)
    harness.finish(4)
    before = harness.session
    harness.store.close()
    again = ServiceHarness(tmp_path)
    again.key = harness.key
    assert again.session == before
    assert again.session.fit_due == 12
    assert np.frombuffer(again.decide().scores).tolist() == [0.6, 0.8]
    harness.store = again.store
