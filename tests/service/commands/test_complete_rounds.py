"""When a round is complete: by its value, the time of a sum, a default, a span."""

from tests.service.service_harness import Room


def test_sums_close_by_time_and_nothing_received_counts_zero(room: Room) -> None:
    room.create(reward_mode="sum")
    for round in range(1, 5):
        room.decide()
        room.reward(1.0, round=round, reward_id=f"a{round}")
        room.reward(0.5, round=round, reward_id=f"b{round}") if round == 3 else None
    assert room.session.fit_due is None
    room.decide()
    session = room.session
    due = session.schedule.current
    assert due is not None
    assert due.closed == {"": 4}
    with room.store.reader() as reader:
        values = reader.history(session, due.window, due).trajectories[""].measurements.value
    assert values.tolist() == [1.0, 1.5, 1.0]


def test_a_default_reward_closes_rounds_and_a_true_value_replaces_it_later(room: Room) -> None:
    room.create(default_reward=-1.0)
    room.rounds(2)
    room.rounds(2, rewarded=False)
    room.decide()
    session = room.session
    due = session.schedule.current
    assert due is not None
    room.reward(5.0, round=3)
    with room.store.reader() as reader:
        history = reader.history(session, due.window, due).trajectories[""].measurements
    assert history.value.tolist() == [1.0, -1.0, -1.0]
    room.finish(4)
    assert room.session.fit_due is None


def test_a_default_reward_completes_a_window_before_the_next_one_begins(room: Room) -> None:
    room.create(default_reward=0.0, reward_wait_seconds=60.0)
    room.rounds(2)
    room.decide()
    room.now += 10
    room.decide()
    room.now += 55
    room.reward(1.0, round=4)
    assert room.session.fit_due is None
    assert room.session.wake_at == 1070.0
    room.now += 5
    room.tick()
    assert room.session.fit_due == 4


def test_a_default_is_not_imputed_over_a_span_across_the_edge(room: Room) -> None:
    room.create(default_reward=100.0, horizon=1, options={"L": 1})
    room.rounds(6, rewarded=False)
    window = room.session.schedule.open[-1].window
    assert (window.first, window.last) == (6, 7)
    room.reward(2.0, first_round=5, last_round=6)
    room.rounds(1)
    session = room.session
    due = next(d for d in (session.schedule.current, *session.schedule.waiting) if d and d.key == 7)
    with room.store.reader() as reader:
        measured = reader.history(session, due.window, due).trajectories[""].measurements
        assert (measured.first.tolist(), measured.value.tolist()) == ([7], [1.0])
        due.measured[""] -= 2  # a manifest that knows neither value imputes, where time has closed
        due.closed[""] = 6
        measured = reader.history(session, due.window, due).trajectories[""].measurements
    assert (measured.first.tolist(), measured.value.tolist()) == ([6], [100.0])


def test_the_schedule_counts_the_rounds_of_all_trajectories(room: Room) -> None:
    room.create()
    for trajectory in ("a", "b", "a"):
        room.rounds(1, trajectory=trajectory)
    decision = room.decide("b")
    assert (decision.round, decision.position) == (2, 4)
    room.reward(1.0, round=2, trajectory="b")
    session = room.session
    due = session.schedule.current
    assert due is not None
    assert due.measured == {"a": 2, "b": 2}
    with room.store.reader() as reader:
        history = reader.history(session, due.window, due)
    assert {key: part.numbering.tolist() for key, part in history.trajectories.items()} == {
        "a": [3],
        "b": [2, 4],
    }


def test_a_span_completes_the_rounds_it_covers(room: Room) -> None:
    room.create()
    room.rounds(4, rewarded=False)
    room.reward(6.0, first_round=1, last_round=3)
    assert room.session.fit_due is None
    room.reward(1.0, round=4)
    assert room.session.fit_due == 4
