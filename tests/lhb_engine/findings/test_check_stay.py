"""Whether trajectories end sooner, or later, after some choices."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.design.covariates import with_means
from lhb_engine.findings.check_stay import check_stay
from lhb_engine.findings.finding import Finding, Unchecked
from lhb_engine.history import Floats, Measurements, Trajectory

DIM, N = 3, 6000


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
    [found] = check_stay(parts(lambda taken, _: 0.05 + sign * 0.04 * taken[1]), 1 + DIM, N)
    assert isinstance(found, Finding)
    assert (found.code, found.features) == ("trajectories_end", (1,))
    assert f"end {word} after choices with more of feature 1." in found.message


@pytest.mark.parametrize(
    "leaves",
    [lambda *_: 0.05, lambda _, age: float(age >= 12), lambda _, age: 0.3 / age],
    ids=["chance", "twelve rounds", "new ones"],
)
@pytest.mark.parametrize("seed", [2, 3])
def test_ends_that_follow_from_no_choice_are_not_found(
    leaves: Callable[[Floats, int], float], seed: int
) -> None:
    assert not [*check_stay(parts(leaves, seed), 1 + DIM, N)]


def test_who_may_come_back_and_who_goes_on_in_another_part_has_not_left() -> None:
    """Everybody's last choice is unlike all before, and nobody has left."""
    rng, last = np.random.default_rng(4), np.full(DIM, 2.0)
    some = {}
    for i in range(80):
        rows = [with_means(one[0], one) for one in rng.uniform(-1.0, 1.0, (9, 4, DIM))]
        rows.append(with_means(last, np.stack([last, -last])))
        at = (i + 1 + 80 * np.arange(10)).tolist()
        some |= {f"{i}": part(rows[:5], at[:5]), f"{i}\0more": part(rows[5:], at[5:], 6)}
    some["nothing yet"] = replace(some["0"], contexts=np.zeros((0, DIM)), positions=None)
    assert [*check_stay(some, 1 + DIM, 800)] == [Unchecked(("trajectories_end",), "rows")]
    assert not [*check_stay(some, 1 + DIM, 4000)]  # a long time later: all had ten rounds
