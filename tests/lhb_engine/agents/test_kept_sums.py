"""A fit from sums of the past is that from all rows, to the bit, whatever arrives in what order."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from lhb_engine.agents import fit_past, make_agent
from lhb_engine.agents.base import NeedsAllRows
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moments import Moments
from lhb_engine.design.session_sums import KeptSums
from lhb_engine.history import SIZES, FitWindow, History, Measurements, Parts, Trajectory, joined
from tests.examples import repeats
from tests.lhb_engine.draw_little import draw_little
from tests.lhb_engine.played_histories import DIM, HORIZON, THETA, history
from tests.lhb_engine.sized_agents import have_sizes

OPTIONS = {
    "": {},
    "season": {"seasonality": ({"period": 24},), "trend": True},
    "past": {"zero_start": False},
    "named": {"covariates": ("rain", "wind")},
    "levels": {"levels": True},
    "profiles": {"profiles": "chosen"},
    "products": {"zero_start": False},
}


@pytest.fixture(autouse=True)
def _small_grains(monkeypatch):
    """The past is sums from 300 rounds on."""
    have_sizes(monkeypatch, grain=64, latest=300)


def played(kind, n=1600, seed=0):
    """All rounds with their measurements, in an order of arrival with much delay."""
    rng = np.random.default_rng(seed)
    made = {
        "one": {"n": n},
        "missing": {"n": n, "keep": 0.6, "noise": 0.2},
        "spans": {"n": n, "spans": (1, 1, 1, 4)},
        "users": {"n": 20, "n_parts": n // 20},
        "mixed": {"n": n // 4, "n_parts": 4, "spans": (1, 1, 3), "keep": 0.9},
    }[kind]
    past = history(seed=seed, **made)
    owner = np.repeat(np.arange(len(past.trajectories)), n // len(past.trajectories))
    if kind == "mixed":
        rng.shuffle(owner)
    parts, at = {}, {}
    for i, (key, part) in enumerate(past.trajectories.items()):
        positions = np.flatnonzero(owner == i) + 1
        parts[key] = replace(part, positions=positions)
        at[key] = positions[part.measurements.last - 1] + rng.exponential(
            15, len(part.measurements)
        )
    order = np.argsort(np.argsort(np.concatenate(list(at.values())))) + 1
    arrived, start = np.sort(np.concatenate(list(at.values()))), 0
    for key, part in parts.items():
        stop = start + len(part.measurements)
        measured = replace(part.measurements, position=order[start:stop])
        parts[key], start = replace(part, measurements=measured), stop
    return History(DIM, parts), arrived


def known(past, window, measured):
    """What a fit may read."""
    parts = {}
    for key, part in past.trajectories.items():
        rows = part.measurements
        parts[key] = replace(part, measurements=rows.chosen(rows.position <= measured))
    found = replace(past, trajectories=parts).over(window)
    used = [part.measurements.position for part in found.trajectories.values()]
    unused = np.setdiff1d(np.arange(1, measured + 2), np.concatenate(used))
    return replace(found, unsettled=int(unused[0]))


def read(past, window, measured, kept):
    """What the service reads where sums are kept: the rows after them and of the latest rounds.

    Where there are levels, it reads the rows of the stretches that have new ones, too.
    """
    whole = known(past, window, measured)
    parts: list[tuple[str, Trajectory]] = []
    for name, part in whole.trajectories.items():
        rows = part.measurements
        number = part.numbering[rows.first - part.first_round]
        new = rows.position > kept.n_settled
        latest = number > window.last - 300
        stretch = (rows.first - 1) // SIZES.stretch(HORIZON)
        beside = np.isin(stretch, stretch[new]) if past.levels else new
        needed = needed_rounds(rows.chosen(new | latest | beside), window.n_lags)
        every = np.ones(len(rows), bool)
        parts += Parts.of({name: part}).cut(*needed, every).items()
    return replace(whole, trajectories=Parts.joined(parts))


def levelled(past, spread=3.0):
    """Tell a history of levels: each trajectory's own."""
    rng, parts = np.random.default_rng(6), {}
    for key, part in past.trajectories.items():
        rows = part.measurements
        level = spread * rng.standard_normal() * (rows.last - rows.first + 1)
        parts[key] = replace(part, measurements=replace(rows, value=rows.value + level))
    return replace(past, trajectories=parts, levels=1)


def corrected(past, arrived, share=0.2):
    """Some values are corrected, soon or much later, a few of them again."""
    rng, parts, at = np.random.default_rng(8), {}, {}
    for key, part in past.trajectories.items():
        rows = part.measurements
        times = [arrived[rows.position - 1]]
        order = np.arange(len(rows))
        some = order
        for _ in range(3):
            before = times[-1][-len(some) :]
            chosen = rng.random(len(some)) < share
            some, before = some[chosen], before[chosen]
            times.append(before + rng.exponential(rng.choice([5.0, 300.0], len(some))))
            order = np.append(order, some)
        at[key] = np.concatenate(times)
        again = np.arange(len(order)) >= len(rows)
        new = rows.chosen(order)
        value = np.where(again, new.value + 0.02 * rng.normal(size=len(order)), new.value)
        parts[key] = replace(part, measurements=replace(new, value=value))
    every = np.concatenate([*at.values()])
    position, start = np.argsort(np.argsort(every)) + 1, 0
    for key, part in parts.items():
        rows = replace(part.measurements, position=position[start : start + len(at[key])])
        rows = rows.chosen(np.lexsort((rows.position, rows.first)))
        parts[key], start = replace(part, measurements=rows), start + len(at[key])
    return replace(past, trajectories=parts), np.sort(every)


def beside_of(past):
    """Tell a history of covariates: each round's, and of half of the rewards their own."""
    rng, parts = np.random.default_rng(5), {}
    for key, part in past.trajectories.items():
        rows = part.measurements
        own = np.where(rng.random((len(rows), 2)) < 0.5, np.nan, rng.normal(size=(len(rows), 2)))
        told = rng.normal(size=(len(part.contexts), 2))
        rows = replace(rows, value=rows.value + rng.normal(size=len(rows)), covariates=own)
        parts[key] = replace(part, covariates=told, measurements=rows)
    return replace(past, trajectories=parts, groups=(1, 1))


# each kind, each option, and corrections of half of both
CHAINS = [
    *(("users", "", False), ("missing", "season", True), ("mixed", "named", True)),
    *(("one", "profiles", False), ("spans", "levels", False), ("one", "products", True)),
]
OTHER_CHAINS = [
    (kind, options, is_corrected)
    for kind, options in [
        *product(["one", "missing", "spans", "users", "mixed"], ["", "season"]),
        ("mixed", "named"),
        *product(["one", "mixed"], ["profiles"]),
        *product(["one", "spans", "users", "mixed"], ["levels"]),
    ]
    for is_corrected in (False, True)
    if not {(kind, options, False), (kind, options, True)} & {*CHAINS}
]


@pytest.mark.parametrize(("kind", "options", "is_corrected"), [*CHAINS, *repeats(*OTHER_CHAINS)])
def test_a_chain_of_fits_is_that_from_all_rows(kind, options, is_corrected, monkeypatch):
    draw_little(monkeypatch)
    past, arrived = played(kind)
    if is_corrected:
        past, arrived = corrected(past, arrived)
    past = beside_of(past) if options == "named" else past
    past = levelled(past) if options == "levels" else past
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, **OPTIONS[options])
    agent.products = ((0, 1), (2, 2)) if options == "products" else ()
    kept, before, n_from_sums, n_rows = None, None, 0, []
    due = 139  # fits go on from sums as late as from 300 rounds on
    while due <= 1500:
        window = FitWindow(1, 1, due, HORIZON, due)
        measured = int(np.searchsorted(arrived, due + 20.0))
        whole = replace(known(past, window, measured), measured_before=before)
        estimate, sums = agent.fit_keeping(whole, None)
        if kept is not None:
            some = replace(read(past, window, measured, kept), measured_before=before)
            found = sums
            again, sums = agent.fit_keeping(some, kept)
            assert again.to_json() == estimate.to_json()
            for one, other in ((sums.total, found.total), (sums.kept.settled, found.kept.settled)):
                assert one.to_bytes() == other.to_bytes()
            n_from_sums += 1
            n_rows.append(sum(len(part.measurements) for part in some.trajectories.values()))
        agent.install(estimate)
        if estimate.theta is not None:
            before = measured
        if sums is not None:
            kept = sums.after(estimate.theta is not None)
        due = int(due * 1.15) + 3
    assert n_from_sums > 8
    assert kept.n_settled > 300
    assert n_rows[-1] < (1000 if is_corrected else 800)  # of some 1900 or 1500
    assert agent.theta[:DIM] @ THETA > (0.9 if options == "named" else 0.99)
    assert len(agent.theta) == DIM + len(agent.products)


def test_settled_grains_are_those_that_were_used_whole():
    """A round beyond the window that was measured early keeps its grain from being settled."""
    past, arrived = played("one")
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    window = FitWindow(1, 1, 700, HORIZON, 700)
    measured = int(np.searchsorted(arrived, 900.0))
    found = known(past, window, measured)
    kept = agent.fit_keeping(found, None)[1].kept
    [part] = known(past, FitWindow(1, 1, 1600, HORIZON, 1600), measured).trajectories.values()
    beyond = part.measurements.position[part.measurements.first > 700].min()
    assert kept.n_settled == (beyond - 1) // 64 * 64 < measured
    assert kept.settled.n_rows == kept.n_settled


@pytest.mark.parametrize("kind", ["one", "mixed"])
def test_from_sums_and_from_rows_agree(kind):
    """Past the latest rounds a fit says what it said from rows, and as surely."""
    past, _ = played(kind)
    window = FitWindow(1, 1, 1600, HORIZON, 1600)
    whole = past.over(window)
    summed, _ = make_agent("anytime", dim=DIM, horizon=HORIZON).fit_keeping(whole, None)
    with pytest.MonkeyPatch.context() as patch:
        have_sizes(patch, latest=10_000)
        rows = make_agent("anytime", dim=DIM, horizon=HORIZON).fit(whole)
    assert summed.n_rows == rows.n_rows
    assert summed.n_missing == rows.n_missing
    np.testing.assert_allclose(summed.theta, rows.theta, atol=1e-9)
    np.testing.assert_allclose(summed.lag_weights, rows.lag_weights, atol=1e-9)
    assert summed.active_lags == rows.active_lags
    assert "drawn" not in summed.intervals
    widths = [np.ptp(e.intervals["theta"], axis=1) for e in (summed, rows)]
    assert (np.abs(np.log(widths[0] / widths[1])) < 0.25).all()


def test_where_the_latest_rewards_are_equal_covariates_have_no_share_of_their_variance():
    past, _ = played("one")
    [part] = past.trajectories.values()
    rows = part.measurements
    silent = replace(rows, value=np.where(rows.first > 1200, 0.0, rows.value))
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, seasonality=[{"period": 7}])
    whole = History(DIM, {"0": replace(part, measurements=silent)})
    found = agent.fit(whole.over(FitWindow(1, 1, 1600, HORIZON, 1600)))
    assert found.effects["share"][0] == 0.0


def test_a_world_that_turns_is_noticed():
    """Sums know of an alarm, and of the window after it."""
    past, _ = played("one", n=3000)
    [part] = past.trajectories.values()
    measured = part.measurements
    late = measured.first > 2000
    turned = replace(measured, value=np.where(late, -measured.value, measured.value))
    past = History(DIM, {"0": replace(part, measurements=turned)})
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    for due in (1200, 1990, 2300, 2800):
        window = FitWindow(1, 1, due, HORIZON, due)
        estimate = agent.fit(past.over(window))
        agent.install(estimate)
        if due == 2300:
            assert estimate.diagnostics["alarm"]
    assert agent.theta @ THETA < -0.99
    assert agent.prediction.since_round > 1900


def test_where_the_latest_rows_are_of_some_trajectories_windows_begin_in_all_their_rounds():
    past, _ = played("users")
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 1400, HORIZON, 1400))))
    window = FitWindow(2, 1, 1600, HORIZON, 1600)
    whole = agent.told(past.over(window))
    some = replace(whole, chosen=frozenset([*whole.trajectories][-15::2]))

    def earliest(history):
        found = fit_past.sums_of(agent, history, None)
        _, parts = fit_past.SummedPast(agent, window, *found).earlier_parts(1)
        return min(start for start in parts if start > 1)

    assert earliest(whole) == earliest(some) == 1302


def needed_rounds(rows, n_lags):
    """The rounds that rows of one trajectory need, as ranges."""
    return joined(np.zeros(len(rows), np.int64), *rows.needed_rounds(n_lags))


def ranges(owner, first, last):
    return list(zip(owner.tolist(), first.tolist(), last.tolist(), strict=True))


def test_needed_rounds_are_what_rows_and_their_pairs_need():
    rows = Measurements(np.array([30, 5, 60]), np.array([30, 7, 60]), np.zeros(3))
    assert ranges(*needed_rounds(rows, 10)) == [(0, 1, 10), (0, 20, 31), (0, 50, 61)]
    rows = Measurements.single(np.array([12, 20]), np.zeros(2))
    assert ranges(*needed_rounds(rows, 10)) == [(0, 2, 21)]


@pytest.mark.parametrize("seed", range(20))
def test_ranges_of_many_trajectories_are_joined_as_those_of_each(seed):
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, 5 if seed % 3 else 1, 200)
    first = rng.integers(1, 30_000 if seed % 2 else 400, 200)
    last = first + rng.choice([0, 0, 0, 1, 30], 200)
    expected = []
    for i, start, stop in sorted(zip(*map(np.ndarray.tolist, (owner, first, last)), strict=True)):
        before = expected[-1] if expected else (-1, 0, 0)
        if before[0] == i and start <= before[2] + 1:
            expected[-1] = i, before[1], max(before[2], stop)
        else:
            expected.append((i, start, stop))
    assert ranges(*joined(owner, first, last)) == expected


def test_the_latest_rounds_are_cut_alike_from_more_and_from_less():
    past, _ = played("mixed")
    window = FitWindow(1, 1, 1600, HORIZON, 1600)
    whole = past.over(window)
    some = whole.since(900)
    for round in (1000, 1400):
        one, other = align(whole.since(round)), align(some.since(round))
        assert (one.contexts == other.contexts).all()
        assert (one.position == other.position).all()
        assert (one.before == other.before).all()


@pytest.mark.parametrize(("contexts", "rewards"), [(1e160, 1.0), (1e-170, 1.0), (1.0, 1e-170)])
def test_squares_that_no_float_holds_are_left_to_rows(contexts, rewards):
    past, _ = played("one")
    [part] = past.trajectories.values()
    rows = replace(part.measurements, value=part.measurements.value * rewards)
    scaled = replace(part, contexts=part.contexts * contexts, measurements=rows)
    window = FitWindow(1, 1, 1600, HORIZON, 1600)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    whole = History(DIM, {"": scaled}).over(window)
    found, sums = agent.fit_keeping(whole, None)
    assert sums is None
    assert found.theta @ THETA > 0.99
    none = KeptSums(1, 0, 0, Moments.zero(1, DIM, agent.covariates.groups), None)
    with pytest.raises(NeedsAllRows):
        agent.fit_keeping(whole, none)
