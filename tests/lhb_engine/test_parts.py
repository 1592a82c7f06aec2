"""Many parts of trajectories in few arrays, and the trajectories that the latest rows are of."""

import tracemalloc

import numpy as np
import pytest

from lhb_engine.history import FitWindow, History, Measurements, Parts, Trajectory, latest_keys
from tests.lhb_engine.agents.test_kept_sums import played

DIM = 2


def trajectories(seed, n=6, told=True):
    """Trajectories of different first rounds and lengths; some values reach out of them."""
    rng, found = np.random.default_rng(seed), {}
    for i in range(n):
        first, length, m = (
            int(rng.integers(1, 9)),
            int(rng.integers(1, 12)),
            int(rng.integers(0, 6)),
        )
        start = np.sort(rng.integers(first - 1, first + length, m))
        values = rng.standard_normal(m)
        rows = Measurements(start, start + rng.integers(0, 3, m), values, rng.permutation(m) + 1)
        numbers = np.sort(rng.choice(100, length, replace=False)) + 1
        beside = rng.standard_normal((length, 3)) if told else None
        contexts = rng.standard_normal((length, DIM))
        found[f"u{i}"] = Trajectory(contexts, rows, first, numbers, beside)
    return found


def assert_equal(one, other):
    assert one.first_round == other.first_round
    for name in ("contexts", "numbering", "covariates"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("first", "last", "value", "position"):
        given = getattr(one.measurements, name), getattr(other.measurements, name)
        np.testing.assert_array_equal(*given)


@pytest.mark.parametrize("told", [True, False])
def test_parts_are_the_trajectories_that_were_given(told):
    given = trajectories(1, told=told)
    parts = Parts.of(given)
    assert list(parts) == list(given)
    assert len(parts) == len(given)
    assert Parts.of(parts) is parts
    assert len(Parts.of({})) == 0
    for name, one in given.items():
        assert_equal(parts[name], one)
    some = parts.some(np.arange(len(parts)) % 2 == 1)
    assert list(some) == list(given)[1::2]


@pytest.mark.parametrize("seed", range(10))
def test_a_window_is_cut_from_all_as_from_each(seed):
    given, window = trajectories(seed), FitWindow(1, 30, 70, 3, 70)
    cut = History(DIM, given).cut(window).trajectories
    expected = {}
    for name, one in given.items():
        inside = np.flatnonzero((one.numbering >= 30) & (one.numbering <= 70))
        if len(inside):
            start, stop = max(0, inside[0] - 2), inside[-1] + 1
            first, last = one.first_round + inside[0], one.first_round + inside[-1]
            expected[name] = Trajectory(
                one.contexts[start:stop],
                one.measurements.between(first, last),
                one.first_round + start,
                one.numbering[start:stop],
                one.covariates[start:stop],
            )
    assert list(cut) == list(expected)
    for name, one in expected.items():
        assert_equal(cut[name], one)


def test_covariates_are_of_every_round_or_of_none():
    given = trajectories(2)
    given["u3"] = trajectories(2, told=False)["u3"]
    with pytest.raises(ValueError, match="every round needs 3 covariates"):
        Parts.of(given)


def test_one_trajectory_is_no_copy():
    contexts = np.zeros((100_000, 32))
    rows = Measurements.single(np.arange(1, 100_001), np.zeros(100_000))
    history = History(32, {"": Trajectory(contexts, rows)})
    tracemalloc.start()
    cut = history.over(FitWindow(1, 1, 100_000, 10, 100_000))
    assert tracemalloc.get_traced_memory()[1] < contexts.nbytes
    tracemalloc.stop()
    assert np.shares_memory(cut.trajectories[""].contexts, contexts)


def test_all_trajectories_are_read_where_that_is_little():
    spans = {f"u{i}": (20, 21) for i in range(10)}
    assert latest_keys(spans, 4, 100) is None
    assert latest_keys(spans, 4, 99) is not None
    assert latest_keys({}, 4, 99) is None


def test_some_trajectories_of_a_fleet_are_drawn_by_their_keys():
    """The rounds read are bounded, none depends on the order, and another fleet has others."""
    spans = {f"u{i}": (20, 21) for i in range(20_000)}
    found = latest_keys(spans, 8, 65_536)
    assert len(found) == 65_536 // 18
    assert latest_keys(dict(reversed(spans.items())), 8, 65_536) == found
    numbers = np.array([int(name[1:]) for name in found])
    assert abs(numbers.mean() - 10_000) < 4 * 20_000 / np.sqrt(12 * len(found))
    longer = latest_keys(dict.fromkeys(spans, (20, 22)), 8, 65_536)
    assert len(longer & found) > 0.9 * len(longer)  # a later fit looks at the same ones


def test_a_long_trajectory_beside_a_fleet_is_read():
    """It has most of the latest rounds, and hardly any before them."""
    fleet = {f"u{i}": (20, 20) for i in range(12_768)}
    for key in ("", "a", "b", "c", "d"):
        assert key in latest_keys({**fleet, key: (1001, 21_000)}, 8, 65_536)
    assert latest_keys({"a": (1, 1000)}, 8, 99) == {"a"}


def test_a_trajectory_that_is_too_much_to_read_leaves_room_for_the_others():
    fleet = {f"u{i}": (20, 20) for i in range(4000)}
    found = latest_keys({**fleet, "pool": (1, 70_000)}, 8, 65_536)
    assert "pool" not in found
    assert len(found) == 65_536 // 17


def test_chances_are_in_proportion_to_rows_in_what_is_read():
    busy = {f"busy{i}": (101, 116) for i in range(3000)}  # 16 of 32 rounds are rows
    quiet = {f"quiet{i}": (101, 101) for i in range(3000)}  # 1 of 17
    found = latest_keys(busy | quiet, 8, 40_000)
    n_busy = sum(name.startswith("busy") for name in found)
    assert 0.75 < n_busy / (len(found) - n_busy) / 8.5 < 1.33


def test_the_latest_rows_are_of_the_chosen_trajectories():
    past, _ = played("mixed")
    window = FitWindow(1, 1, 1600, 12, 1600)
    name = next(iter(past.trajectories))
    whole = History(past.dim, past.trajectories, window, groups=past.groups)
    one = History(past.dim, {name: past.trajectories[name]}, window, groups=past.groups)
    chosen = History(
        past.dim, past.trajectories, window, groups=past.groups, chosen=frozenset([name])
    )
    found, expected = chosen.latest(64).trajectories, one.latest(64).trajectories
    assert list(found) == list(expected)
    for key in expected:
        assert_equal(found[key], expected[key])
    assert len(whole.latest(64).trajectories) > len(found)
