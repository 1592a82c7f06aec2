"""When a fit is due, DESIGN 5 rule by rule; ad_lasso with horizon 4 fits 2..4, 9..12, 21..28."""

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from lhb_engine.agents.anytime import anytime_windows
from service.commands.decisions import Blocked
from service.fits.schedule import MOST_WAITING
from tests.service.service_harness import OK, ZERO, Room


def test_due_as_soon_as_the_window_is_complete(room: Room) -> None:
    room.create()
    room.rounds(4, rewarded=False)
    for round in (1, 4, 3):
        room.reward(1.0, round=round)
        assert room.session.fit_due is None
    room.reward(1.0, round=2)
    assert room.session.fit_due == 4
    assert room.effects.due == {room.key: 4}


def test_rewards_that_come_before_the_boundary_count_too(room: Room) -> None:
    room.create()
    room.rounds(3)
    decision = room.decide()
    assert (decision.next_fit_round, decision.epoch, decision.model_version) == (4, 1, 0)
    assert room.session.fit_due is None
    room.reward(1.0, round=4)
    assert room.session.fit_due == 4


def test_a_missing_reward_makes_it_due_at_the_first_decision_beyond(room: Room) -> None:
    room.create()
    room.rounds(3)
    room.decide()
    decision = room.decide()
    assert decision.epoch == 2
    assert room.session.fit_due == 4
    assert room.session.schedule.current is not None
    assert room.session.schedule.current.reason == "overdue"


def test_the_manifest_is_fixed_when_the_fit_becomes_due(room: Room) -> None:
    room.create()
    room.rounds(3)
    room.decide()
    room.decide()
    session = room.session
    due = session.schedule.current
    assert due is not None
    assert due.measured == {"": 3}
    room.reward(7.0, round=4)
    with room.store.reader() as reader:
        history = reader.history(session, due.window, due)
        later = reader.history(session, due.window)
    assert history.trajectories[""].measurements.first.tolist() == [2, 3]
    assert later.trajectories[""].measurements.first.tolist() == [2, 3, 4]


def test_waiting_time_starts_at_the_first_decision_beyond(room: Room) -> None:
    room.create(reward_wait_seconds=60.0)
    room.rounds(3)
    room.decide()
    room.now += 500
    room.tick()
    assert room.session.fit_due is None
    room.decide()
    assert room.session.wake_at == room.now + 60
    assert room.effects.timed == {room.key: room.now + 60}
    room.now += 59
    room.tick()
    room.decide()
    assert room.session.fit_due is None
    room.now += 1
    room.tick()
    assert room.session.fit_due == 4
    assert room.session.wake_at is None


def test_a_window_does_not_put_off_the_timer_of_the_one_before(room: Room) -> None:
    room.create(reward_wait_seconds=60.0)
    room.rounds(3)
    room.decide()
    room.decide()  # beyond the first window, which waits for round 4
    first = room.now + 60
    room.rounds(6)
    room.decide()
    room.now += 30
    room.decide()  # beyond the second one, which waits for round 12
    assert [window.overdue_at for window in room.session.schedule.open] == [first, first + 30, None]
    assert room.effects.timed == {room.key: first}


def test_a_late_reward_within_the_waiting_time_completes_the_window(room: Room) -> None:
    room.create(reward_wait_seconds=60.0)
    room.rounds(3)
    room.decide()
    room.decide()
    room.reward(1.0, round=4)
    due = room.session.schedule.current
    assert due is not None
    assert due.reason == "complete"
    assert due.measured == {"": 4}


def test_two_due_at_once_the_later_is_fitted_and_the_earlier_skipped(room: Room) -> None:
    room.create()
    room.rounds(4)
    assert room.session.fit_due == 4
    room.rounds(8)
    assert [due.key for due in room.session.schedule.waiting] == [12]
    room.rounds(16)
    room.finish(4)
    assert room.session.fit_due == 28
    room.finish(28)
    assert room.statuses == [(1, "ok"), (3, "ok"), (2, "skipped")]
    assert room.session.model_version == 2
    assert room.session.fit_due is None


def test_where_the_later_yields_nothing_the_earlier_follows(room: Room) -> None:
    room.create()
    room.rounds(28)
    room.finish(4, ZERO)
    room.finish(28, ZERO)
    assert room.session.fit_due == 12
    room.finish(12, OK)
    assert room.statuses == [(1, "zero"), (3, "zero"), (2, "ok")]
    assert room.session.model_version == 1


def remembering(room: Room, **more: Any) -> None:
    """A session with a fit due every other round."""
    room.create(algorithm="anytime", options={"memory": 10}, **more)


def test_fits_that_wait_do_not_pile_up(room: Room) -> None:
    remembering(room)
    room.rounds(200)
    schedule = room.session.schedule
    assert len(schedule.waiting) == MOST_WAITING
    assert room.session.fit_due == 8  # the one at work is not taken back
    skipped = [record for record in room.estimates if record.status == "skipped"]
    assert all("given up" in str(record.reason) for record in skipped)
    assert max(record.due for record in skipped) < min(due.key for due in schedule.waiting)
    n_due = len(skipped) + MOST_WAITING + 1
    assert n_due == sum(1 for _ in takewhile(lambda w: w.due <= 200, anytime_windows(4, 10)))
    latest = max(due.key for due in schedule.waiting)
    room.finish(8)
    assert room.session.fit_due == latest


def test_windows_whose_rewards_never_come_do_not_pile_up(room: Room) -> None:
    remembering(room, reward_wait_seconds=1e6)
    room.rounds(200, rewarded=False)
    schedule = room.session.schedule
    assert len(schedule.open) == MOST_WAITING + 1
    assert (schedule.waiting, schedule.current) == ([], None)
    assert {record.status for record in room.estimates} == {"skipped"}
    for round in range(191, 201):  # what is still open can be completed
        room.reward(1.0, round=round)
    assert room.session.fit_due == 200


def test_an_estimate_never_goes_backwards(room: Room) -> None:
    room.create(reward_wait_seconds=1e6)
    room.rounds(3)
    room.decide()
    room.rounds(8)
    assert room.session.fit_due == 12
    room.finish(12)
    assert room.statuses == [(2, "ok"), (1, "skipped")]
    room.reward(1.0, round=4)
    assert room.session.fit_due is None


def test_zero_is_recorded_keeps_theta_and_the_model_version(room: Room) -> None:
    room.create()
    room.rounds(4)
    room.finish(4, OK)
    first = room.decide()
    assert first.model_version == 1
    assert np.frombuffer(first.scores).tolist() == [0.6, 0.8]
    room.reward(1.0, round=5)
    room.rounds(7)
    room.finish(12, ZERO)
    second = room.decide()
    assert second.model_version == 1
    assert second.scores == first.scores
    assert room.statuses == [(1, "ok"), (2, "zero")]
    assert room.session.estimate == 1


def test_a_failed_fit_is_recorded_and_tried_again_later(room: Room) -> None:
    room.create()
    room.rounds(4)
    assert room.finish(4, None, "out of memory") == "failed"
    assert room.estimates[0].reason == "out of memory"
    assert room.session.fit_due is None
    assert room.decide().model_version == 0
    assert room.session.wake_at == room.now + 10
    room.now += 10
    room.tick()
    assert room.session.fit_due == 4
    room.finish(4, None)
    room.now += 19
    room.tick()
    assert room.session.fit_due is None
    room.now += 1
    room.tick()
    room.finish(4, None)
    assert room.session.fit_due is None
    assert room.session.wake_at is None
    assert room.statuses == [(1, "failed")] * 3


def test_a_result_that_comes_twice_is_installed_once(room: Room) -> None:
    room.create()
    room.rounds(4)
    assert room.finish(4) == "ok"
    assert room.finish(4) is None
    assert room.statuses == [(1, "ok")]


def test_blocking_decisions_wait_for_fits_and_never_for_rewards(room: Room) -> None:
    room.create(refit="blocking")
    room.rounds(4)
    assert room.decide_or_block() == Blocked(4)
    assert room.session.n_rounds == 4
    room.finish(4)
    assert room.decide().round == 5
    room.reward(1.0, round=5)
    room.rounds(6)
    room.decide()
    assert room.decide().round == 13
    assert room.decide_or_block() == Blocked(12)


def test_a_blocking_decision_is_not_held_up_by_a_failed_fit(room: Room) -> None:
    room.create(refit="blocking")
    room.rounds(4)
    room.finish(4, None)
    assert room.decide().model_version == 0


def test_a_clock_that_goes_back_changes_nothing(room: Room) -> None:
    room.create()
    room.rounds(3)
    room.decide()
    room.now -= 900
    decision = room.decide()
    assert decision.at == 1000.0
    assert room.session.fit_due == 4


def test_the_estimate_says_what_it_used(room: Room) -> None:
    room.create()
    room.rounds(4)
    room.finish(4)
    record = room.estimates[0]
    manifest = json.loads(record.manifest)
    assert manifest["measured"] == {"": 4}
    assert manifest["window"] == {"epoch": 1, "first": 2, "last": 4, "n_lags": 1, "due": 4}
    assert (record.parent, record.model_version) == (0, 1)
    assert json.loads(record.fingerprint or "") == {"numpy": "0"}


def test_everything_survives_a_restart(room: Room, tmp_path: Path) -> None:
    room.create()
    room.rounds(12)
    room.finish(4)
    before = room.session
    room.store.close()
    again = Room(tmp_path)
    again.key = room.key
    assert again.session == before
    assert again.session.fit_due == 12
    assert np.frombuffer(again.decide().scores).tolist() == [0.6, 0.8]
    room.store = again.store
