"""The sums of a comparison, step by step, against all rows at once."""

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.evaluation.lift import GroupSums, Lift, always_valid_quantile
from service.api.trajectories import in_force
from service.commands.erase_trajectory import erase_trajectory, sweep
from service.commands.sessions import change_session
from service.lift import add_to_sums
from service.lift.add_to_sums import next_step
from service.lift.exact import ONE, exact, fraction, nearest
from service.lift.sums import NO_ROW, LiftSums, Row
from service.lift.watch import keep_lift
from service.session.records import DecisionRow, LiftSumsRow
from service.session.trial import Trial
from service.transfer.file_format import export_session
from tests.examples import repeats
from tests.service.service_harness import OK, ServiceHarness

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
HOLDOUT = {"share": 0.5, "policy": "uniform", "planned_rounds": 1000, "guard": False}


def sum_up(harness: ServiceHarness, **most: int) -> LiftSums:
    while True:
        with harness.store.reader() as reader:
            step = next_step(reader, harness.session, **most)
            if step is None:
                found = reader.lift_sums(harness.key)
                assert found is not None
                return LiftSums.loads(found.sums)
        assert harness.run(keep_lift(harness.key, step)) is not None


def units_of(
    harness: ServiceHarness, default: float | None
) -> dict[str, dict[tuple[str, int], list[float]]]:
    """The rule written out, on all rows at once: totals by group and unit.

    What a trajectory earned before the first round of either group is its past.
    """
    horizon, since = harness.session.horizon, harness.session.trial.since
    found: dict[str, dict[tuple[str, int], list[float]]] = {"agent": {}, "control": {}, "past": {}}
    with harness.store.reader() as reader:
        named = [(*harness.key, one.key) for one in reader.trajectories(harness.key)]
        every = [one for key in named for one in reader.decisions(key, 0, 10_000)]
        first = min((one.position for one in every if one.played_by in found), default=10**6)
        for trajectory in list(reader.trajectories(harness.key)):
            key = (*harness.key, trajectory.key)
            rounds = {one.round: one for one in reader.decisions(key, 0, 10_000)}
            unit = {}
            for round, one in rounds.items():
                block = 0 if trajectory.key else (round - 1) // (2 * horizon) + 1
                is_mixed = block > 0 and (round - 1) % (2 * horizon) < horizon - 1
                if one.played_by in found and not is_mixed and one.position > since:
                    unit[round] = (str(one.played_by), (trajectory.key, block))
                elif one.played_by == "caller" and trajectory.key and one.position < first:
                    unit[round] = ("past", (trajectory.key, 0))
            values: dict[int, float | None] = dict.fromkeys(rounds, default)
            begun = set[int]()
            for one in in_force(list(reader.measurement_log(key))):
                span = range(one.first_round, one.last_round + 1)
                if len({unit.get(round) for round in span}) > 1:
                    values |= dict.fromkeys(span)
                    continue
                for round in span:
                    before = (values[round] or 0.0) if round in begun else 0.0
                    values[round] = before + one.value / len(span)
                    begun.add(round)
            for round, value in values.items():
                if round in unit and value is not None:
                    group, name = unit[round]
                    row = found[group].setdefault(name, [0.0, 0.0, 0.0])
                    row[0] += 1
                    row[1] += value
                    row[2] += predicted(rounds[round])
    pasts = found.pop("past")
    for units in found.values():
        for name, row in units.items():
            n, reward, _ = pasts.get(name, [0.0, 0.0, 0.0])
            row += [row[0] * n / (n + 4), row[0] * reward / (n + 4)]
    return found


def predicted(decision: DecisionRow) -> float:
    scores = np.frombuffer(decision.scores)
    return float(scores.mean()) if decision.model_version and len(scores) else 0.0


def play(
    harness: ServiceHarness,
    rng: random.Random,
    n: int,
    given: dict[str, int],
    *,
    by_caller: bool = False,
) -> None:
    """Rounds of several trajectories; rewards come late, over spans, in pieces, or never.

    `given` is each trajectory's last round that a reward has named.
    """
    is_sum = harness.session.reward_mode == "sum"
    for _ in range(n):
        name = rng.choice(list(given))
        what: dict[str, Any] = {"contexts": ARMS + rng.random()}
        if rng.random() < 0.1:
            what = rng.choice([{"contexts": None}, {**what, "forced_arm": 1}])
        if by_caller:
            what = {"contexts": ARMS + rng.random(), "forced_arm": 0}
        decision = harness.decide(name, **what)
        if is_sum and rng.random() < 0.8:
            round = rng.randint(1, decision.round)
            harness.reward(rng.gauss(1, 1), name, round=round, reward_id=f"{decision.position}")
        elif not is_sum and decision.round > given[name] + 3:
            first = given[name] + 1 + (rng.random() < 0.2)
            given[name] = first + rng.randint(0, 1)
            more = {"reward_id": f"{name}{first}"}
            span = {"first_round": first, "last_round": given[name]}
            harness.reward(rng.gauss(1, 1), name, **span, **more)
            if rng.random() < 0.3:
                again = {"correct": True, "reward_id": f"{name}{first} again"}
                harness.reward(rng.gauss(1, 1), name, **span, **again)
                harness.reward(9.0, name, replaces=again["reward_id"], reward_id=f"{name}{first}!")
        if harness.session.fit_due is not None:
            harness.finish(harness.session.fit_due, OK)


SUM: dict[str, Any] = {"reward_mode": "sum"}
CLOSINGS = [{}, {"default_reward": 0.5}, SUM, {**SUM, "default_reward": -0.7}]
WHOSE = [[""], [f"u{i}" for i in range(12)], ["", "a", "b"]]
EACH = [*zip(CLOSINGS, [*WHOSE, WHOSE[-1]], strict=True)]
OTHERS = [both for both in product(CLOSINGS, WHOSE) if both not in EACH]


@pytest.mark.parametrize(("mode", "trajectories"), [*EACH, *repeats(*OTHERS)])
def test_steps_of_any_size_sum_what_all_rows_say(
    harness: ServiceHarness, mode: Any, trajectories: list[str]
) -> None:
    rng, given = random.Random(7), dict.fromkeys(trajectories, 0)
    harness.create(holdout=HOLDOUT, horizon=3, options={"L": 1}, **mode)
    default = mode.get("default_reward", 0.0 if "reward_mode" in mode else None)
    play(harness, rng, 50, given, by_caller=True)
    for n_rounds, n_rewards in ((1, 2), (50, 7), (2000, 1000)):
        play(harness, rng, 80, given)
        sums = sum_up(harness, n_rounds=n_rounds, n_rewards=n_rewards)
        assert_sums(harness, sums, default)
    assert sums.groups["agent"].n_trajectories > 0 < sums.groups["control"].n_trajectories
    assert (sums.n_left_out > 0) == ("reward_mode" not in mode)
    assert abs(nearest(sums.groups["agent"].totals[2])) > 1  # there were predictions


def assert_sums(harness: ServiceHarness, sums: LiftSums, default: float | None) -> None:
    """The sums are those of the rows that are there."""
    for group, units in units_of(harness, default).items():
        rows = np.array([row for row in units.values() if row[0]]).reshape(-1, 5)
        expected, found = GroupSums.of(*rows.T), sums.groups[group]
        assert found.n_trajectories == expected.n_trajectories
        totals = np.array([nearest(one) for one in found.totals])
        products = np.array([[float(fraction(one, 2)) for one in row] for row in found.products])
        np.testing.assert_allclose(totals, expected.totals, atol=1e-9)
        np.testing.assert_allclose(products, expected.products, atol=1e-8)


@pytest.mark.parametrize("trajectories", [["", "a", "b"], [f"u{i}" for i in range(6)]])
def test_an_erased_trajectory_leaves_the_sums(
    harness: ServiceHarness, trajectories: list[str]
) -> None:
    """At once, and its key may begin anew."""
    rng, given = random.Random(11), dict.fromkeys(trajectories, 0)
    harness.create(holdout=HOLDOUT, horizon=3, options={"L": 1})
    play(harness, rng, 30, given, by_caller=True)
    harness.decide(trajectories[-1], contexts=ARMS)  # the first round of a group stays
    play(harness, rng, 120, given)
    before = sum_up(harness).rounds
    play(harness, rng, 3, given)  # not all of it is summed
    for name in trajectories[:2]:
        slices = erase_trajectory(harness.key, name)
        assert harness.run(next(slices))
        with harness.store.reader() as reader:
            row = reader.lift_sums(harness.key)
        assert row is not None
        assert LiftSums.loads(row.sums).rounds < before
        harness.run_large(sweep(harness.key))
        given[name] = 0
        assert_sums(harness, sum_up(harness), None)
    play(harness, rng, 60, given)
    assert_sums(harness, sum_up(harness), None)


def totals(n_rounds: int, reward: float) -> Row:
    """Those of a unit without predictions, and without a past."""
    return n_rounds * ONE, exact(reward), 0, 0, 0


@pytest.mark.parametrize(
    ("typed", "mode"),
    [(1e9, {}), (1e12, {"default_reward": 0.1}), (-1.7e308, {}), (1e-320, {"default_reward": 0.1})],
)
def test_nothing_is_left_of_a_reward_that_was_typed_wrong(
    harness: ServiceHarness, mode: Any, typed: float
) -> None:
    """Corrected or erased, the sums are those of a session in which it never was, to the bit."""
    found = []
    for wrong in (None, typed):
        rng = random.Random(3)
        harness.create(holdout=HOLDOUT, horizon=3, options={"L": 1}, **mode)
        for i in range(84):
            name, value = f"u{i}", 0.1 + rng.random()
            harness.decide(name, contexts=ARMS)
            is_wrong = wrong is not None and i in (40, 41)
            harness.reward(wrong if wrong is not None and is_wrong else value, name, round=1)
            if is_wrong:
                sum_up(harness)
                harness.reward(value, name, round=1, correct=True, reward_id="again")
        for name in ("u41", "u42"):
            sum_up(harness)
            harness.run_large(erase_trajectory(harness.key, name))
        sums = sum_up(harness)
        result = sums.lift(Trial(share=0.5))
        assert isinstance(result, Lift)
        found.append((json.loads(sums.dumps())["groups"], result))
    assert found[0] == found[1]


@pytest.mark.parametrize("typed", [1e12, 1e160, 1.7e308])
def test_while_a_reward_is_wrong_there_is_an_answer(harness: ServiceHarness, typed: float) -> None:
    """An interval as wide as it has to be, or why there is none."""
    harness.create(holdout=HOLDOUT, horizon=3, options={"L": 1})
    for i in range(90):
        harness.decide(f"u{i}", contexts=ARMS)
        harness.reward(typed if i > 87 else 1.0, f"u{i}", round=1)
    for adjusts in (True, False):
        found = sum_up(harness).lift(Trial(share=0.5), adjusts=adjusts)
        if typed < 1e100:
            assert isinstance(found, Lift)
            assert found.high - found.low > typed / 90
        else:
            assert "too large" in str(found)


def test_a_step_is_stored_once(harness: ServiceHarness) -> None:
    """Another process may have taken the same one."""
    harness.create(holdout=HOLDOUT)
    harness.decide("a", contexts=ARMS)
    harness.reward(1.0, "a", round=1)
    with harness.store.reader() as reader:
        one, two = (next_step(reader, harness.session) for _ in range(2))
    assert harness.run(keep_lift(harness.key, one)) is not None  # type: ignore[arg-type]
    assert harness.run(keep_lift(harness.key, two)) is None  # type: ignore[arg-type]
    sums = sum_up(harness)
    assert sums.rounds == 1


def test_a_long_span_is_left_out(harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_to_sums, "MOST_SPAN", 4)
    harness.create(holdout=HOLDOUT, horizon=50)
    for _ in range(10):
        harness.decide("a", contexts=ARMS)
    harness.reward(9.0, "a", first_round=1, last_round=5)
    harness.reward(4.0, "a", first_round=6, last_round=9)
    sums = sum_up(harness)
    assert (sums.rounds, sums.n_left_out) == (4, 1)


def test_a_shadow_is_compared_where_there_was_a_choice(harness: ServiceHarness) -> None:
    harness.create(mode="shadow", options={"L": 1})
    agree, scores = 0, []
    for round in range(1, 41):
        contexts = ARMS[:1] if round % 10 == 0 else np.roll(ARMS, round, axis=0)
        decision = harness.decide(contexts=contexts, forced_arm=0)
        harness.reward(1.0, round=round)
        if harness.session.fit_due is not None:
            harness.finish(harness.session.fit_due, OK)
        if round % 10:
            agree += decision.agent_arm == 0
            if decision.model_version:
                row = np.frombuffer(decision.scores)
                scores.append((row[0], row[decision.agent_arm]))
    shadow = sum_up(harness).shadow
    assert (shadow.n_rounds, shadow.n_agree, shadow.n_scored) == (36, agree, len(scores))
    caller, agent = np.sum(scores, axis=0)
    assert (shadow.score, shadow.agent_score) == pytest.approx((caller, agent))
    assert 0 < agree < 36 > len(scores) > 0
    assert agent > caller


def test_the_line_keeps_a_bounded_number_of_points() -> None:
    rng = np.random.default_rng(1)
    sums, trial = LiftSums(), Trial(share=0.5)
    for i in range(1000):
        sums.move("agent", NO_ROW, totals(1, 1.0 + rng.normal()))
        sums.move("control", NO_ROW, totals(1, rng.normal()))
        sums.add_point(trial, float(i))
    rounds = [point[0] for point in sums.points]
    assert 100 <= len(rounds) <= 200
    assert rounds == sorted(rounds)
    assert LiftSums.loads(sums.dumps()).points == sums.points


def test_sums_are_stored_with_their_watermarks(harness: ServiceHarness) -> None:
    harness.create(holdout=HOLDOUT)
    for _ in range(3):
        harness.decide("a", contexts=ARMS)
    harness.reward(1.0, "a", round=2)
    sum_up(harness)
    with harness.store.reader() as reader:
        row = reader.lift_sums(harness.key)
        assert isinstance(row, LiftSumsRow)
        assert row[:5] == (*harness.key, 0, 3, 1)
        assert reader.unsummed(("", ""), 10) == []
    harness.decide("a", contexts=ARMS)
    with harness.store.reader() as reader:
        assert reader.unsummed(("", ""), 10) == [harness.key]
        assert reader.unsummed(harness.key, 10) == []


def test_a_comparison_that_begins_anew_has_the_past_of_the_first(
    harness: ServiceHarness, tmp_path: Path
) -> None:
    """Of units, not of what groups earned since; an import, which sums all anew, has the same."""
    rng, given = random.Random(5), dict.fromkeys([f"u{i}" for i in range(6)], 0)
    harness.create(holdout={**HOLDOUT, "guard": True}, options={"L": 1})
    play(harness, rng, 60, given, by_caller=True)
    play(harness, rng, 30, given)
    sum_up(harness)
    harness.run(change_session(harness.key, {"guard": "armed"}))
    play(harness, rng, 60, given)
    sums = sum_up(harness)
    assert nearest(sums.groups["agent"].totals[4]) != 0.0
    assert_sums(harness, sums, None)
    with harness.store.reader() as reader:
        exported = b"".join(export_session(reader, harness.session))
    session, _ = harness.import_file(tmp_path, exported)
    harness.key = session.key
    again = json.loads(sum_up(harness).dumps())
    assert again["groups"] == json.loads(sums.dumps())["groups"]
    assert again["past_to"] == sums.past_to


def line_of(lasting: float, growth: float) -> LiftSums:
    """A line of 60 days, whose squared error has a part that rounds of the same units leave."""
    rounds = np.arange(1, 61) * 100.0
    units = 30.0 * (1.0 + growth * (rounds / 100.0 - 1.0))
    squares = (lasting + (1.0 - lasting) * (units / rounds) / (units[-1] / 6000.0)) / units
    half = np.sqrt(squares) * always_valid_quantile(rounds / 1000)
    days = 86_400.0 * np.arange(60)
    ends = zip(rounds, half, days, units, strict=True)
    return LiftSums(points=[[n, 0.0, -h, h, at, m] for n, h, at, m in ends])


@pytest.mark.parametrize("lasting", [0.0, 0.6, 1.0])
def test_the_line_says_what_more_rounds_of_the_same_units_leave(lasting: float) -> None:
    trial, line = Trial(share=0.5, planned_rounds=1000), line_of(lasting, 0.0)
    assert line.narrowing(trial).lasting == pytest.approx(lasting, abs=1e-9)
    assert line.narrowing(trial).growth == 0.0
    assert line.rounds_a_day() == pytest.approx(100.0)
    old = LiftSums(points=[one[:5] for one in line.points])  # of versions that kept no units
    few = LiftSums(points=line.points[-2:])
    assert few.narrowing(trial) == old.narrowing(trial) == (None, 0.0)
    assert LiftSums(points=line.points[-1:]).rounds_a_day() is None
    assert LiftSums().rounds_a_day() is None


def test_where_units_come_with_the_rounds_the_error_falls_with_their_root() -> None:
    trial, line = Trial(share=0.5, planned_rounds=1000), line_of(0.6, 1.0)
    found = line.narrowing(trial)
    assert (found.lasting, found.growth) == (None, pytest.approx(1.0))  # a unit's rounds stay
    assert found.by(np.array([4.0])) == pytest.approx([0.5])
