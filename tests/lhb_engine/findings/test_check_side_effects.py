"""Whether trajectories end, and whether rewards come, after some choices rather than others."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lhb_engine.design.covariates import with_means
from lhb_engine.findings.check_side_effects import Rounds, check_missing, check_stay
from lhb_engine.findings.finding import Finding, Unchecked
from lhb_engine.history import Floats, Measurements, Parts, Trajectory
from lhb_engine.posterior.predictor import Predictor
from tests.examples import repeats

DIM, N = 3, 6000


def stay(some: dict[str, Trajectory], last: int) -> list[Finding | Unchecked]:
    return [*check_stay(Rounds.of(some, 1 + DIM, 4), last)]


def parts(leaves: Callable[[Floats, int], float], seed: int = 1) -> dict[str, Trajectory]:
    """Return 100 people's rounds; who leaves after a choice at some age is followed by another."""
    rng = np.random.default_rng(seed)
    came, here = 100, [str(i) for i in range(100)]
    rounds: dict[str, list[tuple[int, Floats]]] = {}
    for t in range(1, N + 1):
        i = int(rng.integers(len(here)))
        offers = rng.uniform(-1.0, 1.0, (4, DIM)) + rng.standard_normal(DIM)
        some = rounds.setdefault(here[i], [])
        some.append((t, with_means(offers[0], offers)))
        if rng.random() < leaves(offers[0] - offers.mean(axis=0), len(some)):
            here[i], came = str(came), came + 1
    return {
        key: part([row for _, row in some], [t for t, _ in some]) for key, some in rounds.items()
    }


def part(rows: list[Floats], positions: list[int], first: int = 1) -> Trajectory:
    """Return rounds whose covariates are what `with_means` adds."""
    every, nothing = np.array(rows), Measurements.single(np.zeros(0, np.int64), np.zeros(0))
    return Trajectory(every[:, :DIM], nothing, first, np.array(positions), every[:, DIM:])


@pytest.mark.parametrize(("sign", "word"), [(1.0, "sooner"), (-1.0, "later")])
def test_the_feature_that_people_leave_after_is_named(sign: float, word: str) -> None:
    [found] = stay(parts(lambda taken, _: 0.05 + sign * 0.04 * taken[1]), N)
    assert isinstance(found, Finding)
    assert (found.code, found.features) == ("trajectories_end", (1,))
    assert f"end {word} after choices with more of feature 1." in found.message


@pytest.mark.parametrize(
    "leaves",
    [lambda *_: 0.05, lambda _, age: float(age >= 12), lambda _, age: 0.3 / age],
    ids=["chance", "twelve rounds", "new ones"],
)
@pytest.mark.parametrize("seed", [2, *repeats(3)])
def test_ends_that_follow_from_no_choice_are_not_found(
    leaves: Callable[[Floats, int], float], seed: int
) -> None:
    assert not [*stay(parts(leaves, seed), N)]


def found_to_leave(
    leaves: Callable[[Floats, int, float], float], seed: int, n: int = 1200, moves: float = 0.0
) -> bool:
    """Whether ends are found to go with choices, which may move with age and time."""
    rng, users = np.random.default_rng(seed), 20
    chosen, whose, age = rng.normal(0.0, 0.5, (n, DIM)), np.arange(n) % users, np.ones(n, int)
    ends, came = np.arange(n) >= n - users, users
    for i in range(n):
        if i >= users:
            ended = ends[i - users]
            age[i] = 1 if ended else age[i - users] + 1
            whose[i] = came if ended else whose[i - users]
            came += int(ended)
        chosen[i] += moves * np.log2(age[i]) * i / n
        ends[i] |= rng.random() < leaves(chosen[i], int(age[i]), i / n)
    at = np.arange(1, n + 1)
    rounds = Rounds(
        chosen, 0.0 * chosen, np.zeros(n), ~ends, ends, age, at, whose, np.zeros((n, 0))
    )
    rounds = rounds.only(np.lexsort((at, whose)))
    return any(isinstance(one, Finding) for one in check_stay(rounds, n + 1000))


def test_few_rounds_tell_that_people_leave() -> None:
    """Compared with rounds of the same age and eighth of the session alone, in 28 of 40."""
    found = [found_to_leave(lambda x, *_: 0.08 * (1.0 + x[0].clip(-1, 1)), i) for i in range(40)]
    assert sum(found) >= 32


def test_ends_that_go_with_age_and_time_together_follow_from_no_choice() -> None:
    """Without parts of octaves and time, in 9 of 40."""
    some = [
        found_to_leave(lambda _, age, t: 0.02 + 0.15 * ((age < 8) == (t < 0.5)), i, 2400, 0.5)
        for i in range(20)
    ]
    assert sum(some) <= 1


def test_who_may_come_back_and_who_goes_on_in_another_part_has_not_left() -> None:
    """Everybody's last choice is unlike all before, and nobody has left."""
    rng, last = np.random.default_rng(4), np.full(DIM, 2.0)
    some = []
    for i in range(80):
        rows = [with_means(one[0], one) for one in rng.uniform(-1.0, 1.0, (9, 4, DIM))]
        rows.append(with_means(last, np.stack([last, -last])))
        at = (i + 1 + 80 * np.arange(10)).tolist()
        some += [(f"{i}", part(rows[:5], at[:5])), (f"{i}", part(rows[5:], at[5:], 6))]
    one = some[0][1]
    nothing = {"contexts": one.contexts[:0], "covariates": one.covariates[:0]}
    some.append(("nothing yet", replace(one, **nothing, positions=None)))
    joined = Parts.joined(some)
    assert [*stay(joined, 800)] == [Unchecked(("trajectories_end",), "rows")]
    assert not [*stay(joined, 4000)]  # a long time later: all had ten rounds


Comes = Callable[[Floats, Floats, int, float], float]


def measured(comes: Comes, n_users: int, seed: int = 5, n: int = 3000) -> list[Finding | Unchecked]:
    """What is missing where a reward comes by a choice and the one before, user and time.

    Users differ in what they get, and what is chosen moves with time, as an agent's choices do.
    """
    rng, some = np.random.default_rng(seed), {}
    each = n // n_users
    for user in range(n_users):
        rows, rounds, before = [], [], np.zeros(DIM)
        for i in range(1, each + 1):
            offers = rng.uniform(-1.0, 1.0, (4, DIM)) + rng.standard_normal(DIM)
            like = offers @ [user / n_users, i / each, 0.5]
            offers = offers[[like.argmax() if rng.random() < 0.5 else 0, 0, 1, 2, 3]]
            taken = offers[0] - offers[1:].mean(axis=0)
            rows.append(with_means(offers[0], offers[1:]))
            if rng.random() < comes(taken, before, user, i / each):
                rounds.append(i)
            before = taken
        at = np.arange(user + 1, n + 1, n_users)[:each].tolist()
        kept = np.array(rounds, np.int64)
        some[f"{user}"] = replace(
            part(rows, at), measurements=Measurements.single(kept, np.ones(len(kept)))
        )
    return [*check_missing(Rounds.of(some, 1 + DIM, 4), 4)]


@pytest.mark.parametrize("n_users", [1, 60, 3000])
def test_rewards_that_come_by_what_was_chosen_are_found_missing(n_users: int) -> None:
    [found] = measured(lambda taken, *_: 0.4 - 0.15 * taken[1], n_users)
    assert isinstance(found, Finding)
    assert (found.code, found.features) == ("rewards_missing", (1,))
    assert "Rewards come less often after choices with more of feature 1: " in found.message
    assert re.search(r" 1: \d+ of 2\d\d\d rounds have one", found.message)


def test_what_was_chosen_before_counts() -> None:
    [found] = measured(lambda _, before, *__: 0.4 + 0.15 * before[2], 1)
    assert isinstance(found, Finding)
    assert found.features == (2,)


@pytest.mark.parametrize("n_users", [60, *repeats(1, 3000)])
@pytest.mark.parametrize(
    "comes",
    [
        lambda *_: 0.4,
        lambda *_: 0.998,
        lambda _, __, user, at: 0.1 + 0.8 * (user % 2) * at,
        lambda taken, *_: 0.4 + 0.004 * taken[1],
    ],
    ids=["chance", "hardly any", "users and time", "hardly"],
)
def test_rewards_that_are_missing_by_no_choice_are_not_found(comes: Comes, n_users: int) -> None:
    assert not measured(comes, n_users)


def test_users_who_answer_less_the_longer_they_stay_do_so_by_no_choice() -> None:
    """Found in 7 of 10 as long as the sum of what was chosen before grew with age."""
    found = 0
    for seed in range(10):
        rng, some = np.random.default_rng(seed), {}
        for user in range(120):
            offers = rng.uniform(-1.0, 1.0, (40, 4, DIM))
            taken = offers[np.arange(40), offers[:, :, 0].argmax(axis=1)]
            at = (200 * (rng.integers(40) + np.arange(40)) + user + 1).tolist()
            kept = np.flatnonzero(rng.random(40) < np.exp(-np.arange(40) / 30)) + 1
            rows = [with_means(*one) for one in zip(taken, offers, strict=True)]
            told = Measurements.single(kept, np.ones(len(kept)))
            some[f"{user}"] = replace(part(rows, at), measurements=told)
        by = Predictor(np.full(24, 0.1), np.eye(DIM)[0], 0.0, 1.0, 2400, True)
        found += bool([*check_missing(Rounds.of(some, 1 + DIM, 24, by), 24)])
    assert found == 0


def test_rewards_that_are_late_while_choices_change_are_not_found_missing() -> None:
    """Ten sessions of 100 users and 45 days; with parts of an eighth some of them were found."""
    users, days = 100, 45
    day = np.repeat(np.arange(days), users)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        fits = np.sort(rng.choice(days, 6, replace=False))
        policy = rng.normal(0.0, 0.25, (7, DIM)).cumsum(axis=0)[np.searchsorted(fits, day)]
        n = len(day)
        chosen = policy * rng.uniform(0.5, 1.5, (n, 1)) + rng.normal(0.0, 0.3, (n, DIM))
        arrives = day + np.minimum(rng.geometric(0.25, n), 14)
        whose = np.tile(np.arange(users), days)
        beside = 0.0 * chosen, np.zeros(n)
        of_rounds = day == days - 1, day + 1, np.arange(n), whose, np.zeros((n, 0))
        rounds = Rounds(chosen, *beside, arrives < days, *of_rounds)
        assert not [*check_missing(rounds.only(np.lexsort((day, whose))), 4)]


def missing(comes: Callable[[Floats, np.random.Generator], Any], seed: int) -> bool:
    """Whether rewards are found missing in 550 rounds of five features that choices hardly vary."""
    rng, n, horizon = np.random.default_rng(seed), 550, 24
    chosen = rng.normal(0.0, 0.3, (n, 5))
    sums = np.concatenate([np.zeros((1, 5)), chosen.cumsum(axis=0)])
    at = np.arange(1, n + 1)
    before = sums[at - 1] - sums[np.maximum(at - horizon, 0)]
    come, told = np.asarray(comes(chosen, rng), bool), np.zeros((n, 0))
    rounds = Rounds(chosen, before, np.zeros(n), come, at == n, at, at, np.zeros(n, np.int64), told)
    return bool([*check_missing(rounds, horizon)])


def test_few_rounds_tell_that_rewards_are_missing() -> None:
    """85 of the first 100 seeds; by sums of errors over parts, which are few, 53 were found."""
    found = [
        missing(lambda by, rng: rng.random(len(by)) < 0.5 + 0.4 * by[:, 0], i) for i in range(40)
    ]
    assert sum(found) >= 28


def test_rewards_that_are_missing_in_bursts_are_by_no_choice() -> None:
    """In 3 of the first 300 seeds; as if errors did not last, in 81."""
    bursts = [
        missing(lambda by, rng: np.cumsum(rng.random(len(by)) < 0.05) % 2, i) for i in range(60)
    ]
    assert sum(bursts) <= 2


def test_rewards_that_are_missing_while_an_arm_hardly_changes_are_by_no_choice() -> None:
    """In 4 of 60 seeds as if the 10 rounds in which another one is chosen were many."""
    found = 0
    for seed in range(60):
        rng, n = np.random.default_rng(seed), 2000
        chosen, whose = np.zeros((n, DIM)), np.zeros(n, np.int64)
        chosen[rng.integers(n, size=10)] = rng.normal(0.0, 0.3, (10, DIM))
        before, at = np.cumsum(chosen, axis=0) - chosen, np.arange(1, n + 1)
        before[24:] -= np.cumsum(chosen, axis=0)[:-24]
        come = np.cumsum(rng.random(n) < 0.05) % 2 == 0
        rounds = Rounds(chosen, before, np.zeros(n), come, at == n, at, at, whose, np.zeros((n, 0)))
        found += bool([*check_missing(rounds, 24)])
    assert found == 0


@pytest.mark.parametrize(("by", "of_12"), [(0.0, (12, 0)), (-0.2, (0, 12))])
def test_what_is_told_of_a_round_is_no_choice(by: float, of_12: tuple[int, int]) -> None:
    """At night rewards seldom come, and offers are others; untold that looks like a choice."""
    found = np.zeros(2, int)
    for seed in range(12):
        rng, n = np.random.default_rng(seed), 2000
        at, whose = np.arange(1, n + 1), np.zeros(n, np.int64)
        night = at % 24 < 8
        chosen = rng.normal([0.5, 0.0, 0.0], 0.4, (n, DIM))
        chosen *= np.where(night, 0.4, 1.0)[:, None]
        come = rng.random(n) < np.where(night, 0.2, 0.7) + by * (chosen[:, 0] - 0.4)
        beside = 0.0 * chosen, np.zeros(n), come, at == n, at, at, whose
        for i, told in enumerate((np.zeros((n, 0)), 1e200 * night[:, None])):
            found[i] += bool([*check_missing(Rounds(chosen, *beside, told), 24)])
    assert tuple(found) == of_12


def test_rounds_after_the_last_reward_may_still_wait() -> None:
    """None of the later half has one, and what is chosen there is unlike the first half's."""
    assert not measured(lambda *at: float(at[3] < 0.5) * 0.6, 60)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rewards_that_come_by_what_is_expected_of_a_round_are_found_missing(sign: float) -> None:
    """By lags that neither a choice nor the sum of those before tells."""
    rng, n, rows = np.random.default_rng(3), 3000, []
    for _ in range(n):
        offers = rng.uniform(-1.0, 1.0, (4, DIM))
        rows.append(with_means(offers[0], offers))
    one = part(rows, [*range(1, n + 1)])
    assert one.covariates is not None
    taken = one.contexts[:, 1] - one.covariates[:, -DIM:][:, 1]
    weights = np.array([0.0, 1.0, -1.0])
    earned = np.convolve(taken, weights)[:n]
    kept = np.flatnonzero(rng.random(n) < 0.4 + 0.2 * sign * earned) + 1
    some = {"": replace(one, measurements=Measurements.single(kept, np.ones(len(kept))))}
    assert not [*check_missing(Rounds.of(some, 1 + DIM, 4), 4)]
    by = Predictor(weights, np.array([0.0, 1.0, 0.0]), 0.0, 1.0, n, True)
    [found] = check_missing(Rounds.of(some, 1 + DIM, 4, by), 4)
    assert isinstance(found, Finding)
    how = "more" if sign > 0.0 else "less"
    assert f"Rewards come {how} often where choices are to pay more: " in found.message
    assert found.features == ()
    profiles = replace(by, lag_weights=np.outer(weights, by.theta))
    assert [*check_missing(Rounds.of(some, 1 + DIM, 4, profiles), 4)] == [found]
