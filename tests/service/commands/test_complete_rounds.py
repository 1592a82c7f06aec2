"""When a round is complete: by its value, the time of a sum, a default, a span."""

from lhb_engine.history import FitWindow
from service.commands.erase_trajectory import erase_trajectory
from service.rounds.retention import count_complete
from tests.service.histories import read_history
from tests.service.service_harness import ServiceHarness


def test_sums_close_by_time_and_nothing_received_counts_zero(harness: ServiceHarness) -> None:
    harness.create(reward_mode="sum")
    for round in range(1, 5):
        harness.decide()
        harness.reward(1.0, round=round, reward_id=f"a{round}")
        harness.reward(0.5, round=round, reward_id=f"b{round}") if round == 3 else None
    assert harness.session.fit_due is None
    harness.decide()
    session = harness.session
    due = session.schedule.current
    assert due is not None
    assert (due.known.measured, due.known.decided, due.known.closed_at) == (5, 5, harness.now)
    with harness.store.reader() as reader:
        values = (
            read_history(reader, session, due.window, due.known).trajectories[""].measurements.value
        )
    assert values.tolist() == [1.0, 1.5, 1.0]


def test_a_default_reward_closes_rounds_and_a_true_value_replaces_it_later(
    harness: ServiceHarness,
) -> None:
    harness.create(default_reward=-1.0)
    harness.rounds(2)
    harness.rounds(2, rewarded=False)
    harness.decide()
    session = harness.session
    due = session.schedule.current
    assert due is not None
    harness.reward(5.0, round=3)
    with harness.store.reader() as reader:
        history = read_history(reader, session, due.window, due.known).trajectories[""].measurements
    assert history.value.tolist() == [1.0, -1.0, -1.0]
    harness.finish(4)
    assert harness.session.fit_due is None


def test_a_default_reward_completes_a_window_before_the_next_one_begins(
    harness: ServiceHarness,
) -> None:
    harness.create(default_reward=0.0, reward_wait_seconds=60.0)
    harness.rounds(2)
    harness.decide()
    harness.now += 10
    harness.decide()
    harness.now += 55
    harness.reward(1.0, round=4)
    assert harness.session.fit_due is None
    assert harness.session.wake_at == 1070.0
    harness.now += 5
    harness.tick()
    assert harness.session.fit_due == 4


def test_a_default_is_not_imputed_over_a_span_across_the_edge(harness: ServiceHarness) -> None:
    harness.create(default_reward=100.0, horizon=1, options={"L": 1})
    harness.rounds(6, rewarded=False)
    window = harness.session.schedule.open[-1].window
    assert (window.first, window.last) == (6, 7)
    harness.reward(2.0, first_round=5, last_round=6)
    harness.rounds(1)
    session = harness.session
    due = next(d for d in (session.schedule.current, *session.schedule.waiting) if d and d.key == 7)
    with harness.store.reader() as reader:
        measured = (
            read_history(reader, session, due.window, due.known).trajectories[""].measurements
        )
        assert (measured.first.tolist(), measured.value.tolist()) == ([7], [1.0])
        # a manifest that knows neither value imputes, where time has closed
        earlier = due.known._replace(measured=due.known.measured - 2)
        assert earlier.decided == 7
        measured = read_history(reader, session, due.window, earlier).trajectories[""].measurements
    assert (measured.first.tolist(), measured.value.tolist()) == ([6], [100.0])


def test_the_schedule_counts_the_rounds_of_all_trajectories(harness: ServiceHarness) -> None:
    harness.create()
    for trajectory in ("a", "b", "a"):
        harness.rounds(1, trajectory=trajectory)
    decision = harness.decide("b")
    assert (decision.round, decision.position) == (2, 4)
    harness.reward(1.0, round=2, trajectory="b")
    session = harness.session
    due = session.schedule.current
    assert due is not None
    assert due.known.measured == 4
    with harness.store.reader() as reader:
        history = read_history(reader, session, due.window, due.known)
    assert {key: part.numbering.tolist() for key, part in history.trajectories.items()} == {
        "a": [3],
        "b": [2, 4],
    }


def test_a_span_completes_the_rounds_it_covers(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(4, rewarded=False)
    harness.reward(6.0, first_round=1, last_round=3)
    assert harness.session.fit_due is None
    harness.reward(1.0, round=4)
    assert harness.session.fit_due == 4


def test_rounds_of_windows_that_overlap_are_counted_as_those_of_each_alone(
    harness: ServiceHarness,
) -> None:
    harness.create()
    for i in range(12):
        harness.rounds(1, trajectory="abc"[i % 3], rewarded=i % 4 != 3)
    harness.run_large(erase_trajectory(harness.key, "b"))
    windows = [FitWindow(1, first, last, 4, last) for first, last in ((1, 3), (1, 12), (4, 9))]
    with harness.store.reader() as reader:
        session = harness.session
        found = count_complete(reader, session, windows)
        assert found == [n for one in windows for n in count_complete(reader, session, [one])]
    assert found == [3, 10, 5]  # those at positions 4 and 12 are not complete; that at 8 is erased
