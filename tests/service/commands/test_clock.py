"""Sessions with a clock: slots of time, totals of them, late decisions."""

from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem, ProblemCode
from service.commands.decisions import void_decision
from service.rounds.reward import Reward
from tests.service.commands.slots import (
    CLOCK,
    begin,
    between,
    history_of,
    refused,
    slot_totals,
    sums,
    taken,
)
from tests.service.service_harness import ServiceHarness


def test_a_slot_has_the_sum_of_the_contexts_of_all_trajectories(harness: ServiceHarness) -> None:
    begin(harness)
    taken(harness, ("a", 1000.0), ("b", 1019.0), ("a", 1020.0), ("b", 1210.0))
    assert harness.session.schedule.n_slots == 5
    harness.now = 1300.0
    harness.reward(2.5, **between(960, 1080))
    history = history_of(harness, 5)
    assert list(history.trajectories) == [""]
    assert sums(history) == [2.0, 1.0, 0.0, 0.0, 1.0]
    rows = history.trajectories[""].measurements
    assert (rows.first.tolist(), rows.last.tolist(), rows.value.tolist()) == ([1], [2], [2.5])


def test_totals_of_trajectories_keep_them_apart(harness: ServiceHarness) -> None:
    begin(harness, clock={"totals": "trajectory"})
    taken(harness, ("a", 1000.0), ("b", 1019.0), ("a", 1020.0), ("c", 1021.0))
    harness.now = 1300.0
    harness.reward(2.5, "a", **between(960, 1020))
    harness.reward(1.5, "b", **between(960, 1020))
    history = history_of(harness, 2)
    found = {name: sums(history, name) for name in history.trajectories}
    assert found == {"a": [1.0, 1.0], "b": [1.0, 0.0]}
    refused(
        harness, ProblemCode.FUTURE_ROUND, "trajectory", trajectory="nobody", **between(960, 1020)
    )


def test_a_total_is_of_whole_slots_that_are_over(harness: ServiceHarness) -> None:
    begin(harness)
    taken(harness, ("a", 1000.0), ("a", 1190.0))
    refused(harness, ProblemCode.OUT_OF_RANGE, "from", **between(961, 1020))
    refused(harness, ProblemCode.OUT_OF_RANGE, "to", **between(960, 1021))
    refused(harness, ProblemCode.OUT_OF_RANGE, "from", **between(900, 1020))
    refused(harness, ProblemCode.INTERVAL_OPEN, "to", **between(960, 1200))
    refused(harness, ProblemCode.LAST_BEFORE_FIRST, "to", **between(1020, 960))
    refused(harness, ProblemCode.INVALID, "round", round=1)
    refused(harness, ProblemCode.INVALID, "event_id", event_id="~1")
    refused(harness, ProblemCode.INVALID, "trajectory", trajectory="a", **between(960, 1020))
    assert harness.session.n_measurements == 0
    harness.reward(3.0, **between(960, 1080))
    assert harness.reward(3.0, **between(960, 1080)).repeated == 1
    refused(harness, ProblemCode.REWARD_CONFLICT, "value", **between(960, 1080))
    refused(harness, ProblemCode.REWARD_CONFLICT, "from", **between(1020, 1140))
    harness.reward(2.0, correct=True, reward_id="refund", **between(960, 1080))
    assert history_of(harness, 4).trajectories[""].measurements.value.tolist() == [2.0]


def test_a_total_is_of_no_more_slots_than_a_fit_holds(harness: ServiceHarness) -> None:
    """Two to the 20th numbers: a hundred bytes of a request make no fit exceed its memory."""
    begin(harness, dim=8)
    harness.decide(contexts=np.ones((1, 8)), at=harness.now)
    most = 2**17
    harness.now = 960.0 + 60 * (most + 1)
    refused(harness, ProblemCode.OUT_OF_RANGE, "to", **between(960, 960 + 60 * (most + 1)))
    harness.reward(3.0, **between(960, 960 + 60 * most))


@pytest.mark.parametrize(("at", "code"), [(959.0, "out_of_range"), (2000.0, "out_of_range")])
def test_a_decision_is_not_before_the_first_slot_and_not_ahead(
    harness: ServiceHarness, at: float, code: str
) -> None:
    begin(harness)
    with pytest.raises(Problem) as caught:
        harness.decide(at=at)
    assert (caught.value.code, caught.value.field) == (code, "at")
    assert harness.session.n_rounds == 0


def test_a_decision_is_late_by_so_many_slots(harness: ServiceHarness) -> None:
    """By default the horizon. A total in its own body may make it too late: nothing is stored."""
    harness.create(algorithm="anytime", clock={"slot_seconds": 60, "start": 960.0, "totals": "all"})
    taken(harness, ("a", 961.0 + 60 * 9))
    assert harness.decide("a", forced_arm=0, at=960.0 + 60 * 5).at == 1260.0  # slot 6 of 10
    harness.now += 60.0
    total = Reward(1.0, "", **between(960.0 + 60 * 9, 960.0 + 60 * 10))
    for at, rewards in ((1259.9, []), (1260.0, [total])):
        with pytest.raises(Problem) as caught:
            harness.decide("a", forced_arm=0, at=at, rewards=rewards)
        assert (caught.value.code, caught.value.field) == (ProblemCode.OUT_OF_RANGE, "at")
    assert (harness.session.schedule.n_slots, harness.session.n_measurements) == (10, 0)
    harness.decide("a", forced_arm=0, at=1320.0, rewards=[total])
    assert harness.session.schedule.n_slots == 11
    harness.now = 1000.0  # another server's clock is behind
    assert harness.decide("a", forced_arm=0).at == 1320.0


def test_a_decision_has_a_time_only_where_there_is_a_clock(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime")
    with pytest.raises(Problem) as caught:
        harness.decide(at=990.0)
    assert caught.value.field == "at"


def test_a_void_decision_leaves_its_slot(harness: ServiceHarness) -> None:
    begin(harness)
    taken(harness, ("a", 970.0), ("a", 980.0), ("b", 990.0))
    slot_totals(harness, 1, 1)
    harness.run(void_decision(harness.key, "a", "~2", harness.agents))
    assert sums(history_of(harness, 1)) == [2.0]


EXCLUDED: list[tuple[dict[str, Any], str]] = [
    ({"reward_mode": "sum"}, "reward_mode"),
    ({"default_reward": 0.0}, "default_reward"),
    ({"clock": {"start": 5000.0}}, "clock.start"),
    ({"clock": {"start": 0.5}}, "clock.start"),
]


@pytest.mark.parametrize(("body", "field"), EXCLUDED)
def test_what_a_clock_excludes(harness: ServiceHarness, body: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as caught:
        begin(harness, **body)
    assert (caught.value.code, caught.value.field) == (ProblemCode.BAD_OPTION, field)


def test_an_agent_that_learns_from_each_reward_has_no_clock(harness: ServiceHarness) -> None:
    with pytest.raises(Problem) as caught:
        harness.create(algorithm="ucb_mp", clock=CLOCK)
    assert caught.value.field == "algorithm"


def test_covariates_come_with_totals_alone(harness: ServiceHarness) -> None:
    """A slot has many decisions, and which of them said it right nobody knows."""
    begin(harness, options={"covariates": ["rain", "sun"]})
    taken(harness, ("a", 1000.0), ("b", 1019.0))
    with pytest.raises(Problem) as caught:
        harness.decide("a", covariates={"rain": 1.0})
    assert (caught.value.code, caught.value.field) == (ProblemCode.INVALID, "covariates")
    assert harness.session.n_rounds == 2
    harness.now = 1300.0
    harness.reward(2.5, **between(960, 1080), covariates={"sun": 3.0})
    slot_totals(harness, 3, 4)
    found = history_of(harness, 5)
    assert found.groups == (1, 1)
    part = found.trajectories[""]
    assert part.covariates is not None
    assert not part.covariates.any()
    told = part.measurements.covariates
    assert told is not None
    assert str(told.tolist()) == "[[nan, 3.0], [nan, nan], [nan, nan]]"
