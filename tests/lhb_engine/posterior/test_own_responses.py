"""How trajectories' responses differ: against dense algebra, and by simulation."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.anytime_fit import OWN_SPREAD
from lhb_engine.agents.base import OptionError
from lhb_engine.agents.fit_past import RowsPast
from lhb_engine.design.aligned_rounds import align
from lhb_engine.history import FitWindow, Floats, History, Measurements, Trajectory
from lhb_engine.posterior.own_responses import (
    SHOWN,
    Evidence,
    Responses,
    _sweep,
    less_responses,
    spread_of,
)
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate_users
from lhb_engine.simulation.users import UserEnvironment, Visits
from tests.examples import repeats

DIM, WEIGHTS, NOISE = 3, np.array([0.5, 0.0, 1.0]), 0.3
THETA = np.array([0.6, 0.0, 0.8])
KNOWN = Predictor(WEIGHTS, THETA, 0.4, NOISE, 0, settled=True)


def drawn(seed: int, n_users: int, n_rounds: int, root: Floats) -> tuple[History, Floats]:
    """Users whose delta is `root` times a standard normal one, and these deltas."""
    rng, parts = np.random.default_rng(seed), {}
    deltas = rng.standard_normal((n_users, DIM)) @ root.T
    for i, delta in enumerate(deltas):
        contexts = rng.standard_normal((n_rounds, DIM))
        carried = np.stack([np.convolve(x, WEIGHTS)[:n_rounds] for x in contexts.T], axis=1)
        values = carried @ (THETA + delta) + 0.4 + NOISE * rng.standard_normal(n_rounds)
        rounds = np.arange(1, n_rounds + 1)
        measured = Measurements.single(rounds, values)
        parts[f"{i:04}"] = Trajectory(contexts, measured, positions=rounds + i * n_rounds)
    last = n_users * n_rounds
    return History(DIM, parts).over(FitWindow(1, 1, last, len(WEIGHTS), last)), deltas


RHO = 0.6
ALIKE = np.full((6, 6), RHO / (1.0 - RHO)) + np.eye(6)  # of six rounds of one level
LASTING = RHO ** np.abs(np.subtract.outer(np.arange(6), np.arange(6))) / (1.0 - RHO**2)


@pytest.mark.parametrize(
    ("rho", "levels", "errors"), [(0.0, 0, np.eye(6)), (RHO, 64, ALIKE), (RHO, 0, LASTING)]
)
def test_the_step_is_that_of_dense_algebra(rho: float, levels: int, errors: Floats) -> None:
    """Likelihood, mean and posterior means are those of the rows' whole covariance.

    Noise is independent, or beside levels, or autocorrelated; `errors` is its covariance.
    """
    history, _ = drawn(1, 4, 6, 0.5 * np.eye(DIM))
    history = replace(history, levels=levels)
    rows, known = align(history), replace(KNOWN, autocorrelation=rho)
    root = np.array([[0.4, 0.0, 0.0], [0.2, 0.3, 0.0], [0.0, 0.1, 0.5]])
    covariance, noise2 = root @ root.T, 0.2
    found = Evidence.of(rows, known, DIM)
    step = _sweep(found, [covariance], noise2, [np.zeros(4, np.int64)], shifts=True)
    cost, normal, right, blocks = 0.0, np.zeros((DIM, DIM)), np.zeros(DIM), []
    for part in history.trajectories.values():
        carried = np.stack([np.convolve(x, WEIGHTS)[:6] for x in part.contexts.T], axis=1)
        left = part.measurements.value - 0.4 - carried @ THETA
        whole = carried @ covariance @ carried.T + noise2 * errors
        blocks.append((carried, left, np.linalg.inv(whole)))
        normal += carried.T @ blocks[-1][2] @ carried
        right += carried.T @ blocks[-1][2] @ left
        cost += 0.5 * (np.linalg.slogdet(whole)[1] - np.linalg.slogdet(errors)[1])
    cost += 0.5 * np.linalg.slogdet(normal + 1e-9 * np.trace(normal) / DIM * np.eye(DIM))[1]
    shift = np.linalg.solve(normal, right)
    lefts = [left - carried @ shift for carried, left, _ in blocks]
    cost += 0.5 * sum(e @ inverse @ e for e, (*_, inverse) in zip(lefts, blocks, strict=True))
    assert step.shift == pytest.approx(shift, rel=1e-6)
    assert step.cost == pytest.approx(cost, rel=1e-9)
    deltas = Responses(covariance, noise2**0.5).deltas(found)
    for delta, (carried, left, inverse) in zip(deltas, blocks, strict=True):
        assert delta == pytest.approx(covariance @ carried.T @ inverse @ left, rel=1e-9)


def test_groups_are_those_of_dense_algebra() -> None:
    """Likelihood, means of groups and posterior means, and their errors, given all rows at once."""
    history, _ = drawn(1, 6, 5, 0.5 * np.eye(DIM))
    found = Evidence.of(align(history), KNOWN, DIM)
    place, noise2 = np.array([0, 1, 0, 1, 2, 2]), 0.2
    root = np.array([[0.4, 0.0, 0.0], [0.2, 0.3, 0.0], [0.0, 0.1, 0.5]])
    own, between = root @ root.T, root.T @ root
    step = _sweep(found, [own, between], noise2, [place, np.zeros(3, np.int64)], shifts=True)
    parts = history.trajectories.values()
    each = [
        np.stack([np.convolve(x, WEIGHTS)[:5] for x in part.contexts.T], axis=1) for part in parts
    ]
    carried = np.concatenate(each)
    left = np.concatenate([part.measurements.value for part in parts]) - 0.4 - carried @ THETA
    to_own, to_groups = np.zeros((30, 6 * DIM)), np.zeros((30, 3 * DIM))
    for i, rows in enumerate(each):
        to_own[5 * i : 5 * i + 5, DIM * i : DIM * i + DIM] = rows
        to_groups[5 * i : 5 * i + 5, DIM * place[i] : DIM * place[i] + DIM] = rows
    users, groups = np.kron(np.eye(6), own), np.kron(np.eye(3), between)
    whole = to_own @ users @ to_own.T + to_groups @ groups @ to_groups.T + noise2 * np.eye(30)
    inverse = np.linalg.inv(whole)
    normal = carried.T @ inverse @ carried
    shift = np.linalg.solve(normal, carried.T @ inverse @ left)
    rest = inverse @ (left - carried @ shift)
    cost = np.linalg.slogdet(whole)[1] + np.linalg.slogdet(normal)[1] + left @ rest
    assert step.shift == pytest.approx(shift, rel=1e-6)
    assert step.cost == pytest.approx(0.5 * cost, rel=1e-9)
    means = (groups @ to_groups.T @ rest).reshape(3, DIM)
    assert step.tiers[1].mean == pytest.approx(shift + means, rel=1e-6)
    assert step.tiers[0].mean == pytest.approx(
        shift + means[place] + (users @ to_own.T @ rest).reshape(6, DIM), rel=1e-6
    )
    flat = carried @ carried.T * 1e6  # of a mean of which nothing is known
    apart = np.kron(np.eye(3)[place], np.eye(DIM))
    at = to_own @ users + to_groups @ groups @ apart.T + 1e6 * np.tile(carried, 6)
    prior = users + apart @ groups @ apart.T + 1e6 * np.tile(np.eye(DIM), (6, 6))
    doubt = prior - at.T @ np.linalg.solve(whole + flat, at)
    assert step.tiers[0].doubt[4] == pytest.approx(doubt[12:15, 12:15], rel=1e-3)


def test_a_level_beside_an_own_response_is_that_of_dense_algebra() -> None:
    """Its mean and its error are those given all errors of the trajectory."""
    history, _ = drawn(7, 1, 9, 0.5 * np.eye(DIM))
    part = next(iter(history.trajectories.values()))
    tau = (RHO / (1.0 - RHO)) ** 0.5
    agent = make_agent("anytime", dim=DIM, horizon=3, own=True, levels=True)
    agent.theta, own = THETA, Responses(0.2 * np.eye(DIM), NOISE).to_json()
    agent.prediction = replace(KNOWN, autocorrelation=RHO, own=own)
    carried = np.stack([np.convolve(x, WEIGHTS)[:9] for x in part.contexts.T], axis=1)
    both = np.column_stack([carried, np.ones(9)])
    prior = np.diag([0.2, 0.2, 0.2, (tau * NOISE) ** 2])
    precise = np.linalg.inv(np.linalg.inv(prior) + both.T @ both / NOISE**2)
    left = part.measurements.value - 0.4 - carried @ THETA
    mean = precise @ both.T @ left / NOISE**2
    said = agent.level("", part, tau * NOISE)
    assert said == pytest.approx((mean[3], precise[3, 3] ** 0.5), rel=1e-9)
    theta, error = agent.response("", part)
    assert theta == pytest.approx(THETA + mean[:3], rel=1e-9)
    assert error == pytest.approx(np.diag(precise)[:3] ** 0.5, rel=1e-9)


def test_where_levels_do_not_differ_own_responses_are_the_same() -> None:
    """Equal to the bit: a spread of 0 changes no row."""
    history, _ = drawn(8, 20, 30, 0.5 * np.eye(DIM))
    parts = {  # less its mean error, so that no level stands out
        name: replace(part, measurements=replace(part.measurements, value=_centred(part)))
        for name, part in history.trajectories.items()
    }
    history = replace(history, trajectories=parts)
    told = {"dim": DIM, "horizon": 3, "own": True, "profiles": "shared"}
    agents = [make_agent("anytime", **told, levels=levels) for levels in (False, True)]
    found = [agent.fit(history).to_json() for agent in agents]
    assert found[1].pop("levels")["spread"] == 0.0
    assert found[0].pop("levels") is None
    assert found[0] == found[1]


def _centred(part: Trajectory) -> Floats:
    value = part.measurements.value
    carried = np.stack([np.convolve(x, WEIGHTS)[: len(value)] for x in part.contexts.T], axis=1)
    return value - (value - carried @ THETA).mean()


def test_spans_and_unordered_parts_are_summed_by_trajectory() -> None:
    """A total over two rounds is one row of its trajectory."""
    history, _ = drawn(2, 3, 8, np.eye(DIM))
    parts = dict(history.trajectories.items())
    one = parts["0001"]
    value = one.measurements.value
    totals = np.array([value[:2].sum(), value[2:].sum()])
    both = Measurements(np.array([1, 3]), np.array([2, 8]), totals)
    parts["0001"] = replace(one, measurements=both)
    found = Evidence.of(align(replace(history, trajectories=parts)), KNOWN, DIM)
    assert found.n_rows.tolist() == [8, 2, 8]
    carried = np.stack([np.convolve(x, WEIGHTS)[:8] for x in one.contexts.T], axis=1)
    rows = np.stack([carried[:2].sum(axis=0) / 2**0.5, carried[2:].sum(axis=0) / 6**0.5])
    assert found.gram[1] == pytest.approx(rows.T @ rows)


def test_an_own_response_taken_out_leaves_noise() -> None:
    """Of users with many rounds nothing is left of their deltas."""
    history, _ = drawn(3, 8, 200, np.eye(DIM))
    rows = align(history)
    known = replace(KNOWN, own=Responses(np.eye(DIM), NOISE).to_json())
    left = known.residuals(less_responses(rows, known))[rows.number > 0]
    assert left.std() == pytest.approx(NOISE, rel=0.05)
    assert known.residuals(rows)[rows.number > 0].std() > 3 * NOISE
    assert less_responses(rows, KNOWN) is rows


def test_bands_count_that_the_spread_is_estimated() -> None:
    """Most where two thirds of a variance are left: by (15.3), with D and A diagonal."""
    known = {"covariance": np.eye(DIM).tolist(), "noise": 1.0}
    unsure = known | {"intervals": [[0.5, np.sqrt(1.0 + 1.96 * 0.4)]] * DIM}
    gram = np.diag([0.0, 1.0, 99.0])[None]
    found = Evidence(gram, np.zeros((1, DIM)), np.ones(1), np.ones(1), np.array(["a"]))
    widths = []
    for said in (known, unsure):
        own = Responses.of(said)
        assert own is not None
        widths.append(own.errors(found)[0])
    left = np.array([1.0, 0.5, 0.01])
    assert widths[0] == pytest.approx(np.sqrt(left))
    assert widths[1] ** 2 == pytest.approx(left * (1.0 + 0.4**2 * left * (1.0 - 0.75 * left)))


@pytest.mark.parametrize("seed", [0, *repeats(1, 2, 3)])
def test_own_responses_about_a_wrong_lag_do_not_keep_it(seed: int) -> None:
    """Users' contexts differ by user, so that what pays two rounds later seems to pay at once."""
    rng, parts = np.random.default_rng(seed), {}
    rounds, last = np.arange(1, 7), 180
    for i in range(30):
        theta = THETA + rng.standard_normal(DIM)
        contexts = rng.standard_normal(DIM) + 0.5 * rng.standard_normal((6, DIM))
        values = np.append([0.0, 0.0], contexts[:4] @ theta) + NOISE * rng.standard_normal(6)
        measured = Measurements.single(rounds, values)
        parts[f"{i:04}"] = Trajectory(contexts, measured, positions=rounds + 6 * i)
    history = History(DIM, parts).over(FitWindow(1, 1, last, 3, last))
    wrong = replace(KNOWN, lag_weights=np.array([1.0, 0.0, 0.0]), intercept=0.0, last_round=90)
    spread = spread_of(Evidence.of(align(history), wrong, DIM), shifts=True)
    assert spread.gains[0] > 2 * SHOWN
    agent = make_agent("anytime", dim=DIM, horizon=3, own=True, profiles="shared")
    agent.theta, agent.prediction = THETA, replace(wrong, own=spread.to_json())
    found = agent.fit(history)
    assert found.lag_weights[0] < 0.1
    assert found.lag_weights[2] == pytest.approx(1.0, abs=0.4)
    assert found.own["gain"] > 2 * spread.gains[0]


def test_acceptance_judges_a_new_direction_about_its_own_responses() -> None:
    """Rows less what the installed one's responses add would speak against any other."""
    history, _ = drawn(6, 8, 60, 0.5 * np.eye(DIM))
    agent = make_agent("anytime", dim=DIM, horizon=len(WEIGHTS), own=True, zero_start=True)
    own = Responses(np.eye(DIM), NOISE).to_json()
    turned = np.array([1.0, 0.0, 0.0])
    agent.prediction = replace(KNOWN, theta=turned, own=own, last_round=100)
    assert history.window is not None
    past = RowsPast(agent, history.window, align(agent.told(history)))
    assert past.later is not None
    new = replace(KNOWN, own=own).in_units(past.units)
    assert not past.later.is_better_than(new, agent.settings.acceptance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "last", "n_users"),
    [(0.15, 1.4, 60), (0.6, 1.4, 60), (0.2, 1.4, 12), (0.6, 1.4, 12), (0.6, 0.0, 60)],
)
def test_intervals_hold(size: float, last: float, n_users: int) -> None:
    """Of the spread of each feature, and of users' own theta: (0.95 +- 2.5 errors)."""
    root = size * np.diag([0.6, 1.0, last])
    inside, near = [], []
    for seed in range(150):
        history, deltas = drawn(seed, n_users, 20, root)
        found = Evidence.of(align(history), KNOWN, DIM)
        said = spread_of(found, shifts=True)
        assert said is not None
        low, high = np.array(said.to_json()["intervals"]).T
        inside.append((low <= np.diag(root)) & (np.diag(root) <= high))
        own = said.responses
        precise = np.linalg.inv(np.linalg.inv(own.covariance) + found.gram / own.noise**2)
        error = np.sqrt(np.einsum("nii->ni", precise))
        near.append(np.abs(own.deltas(found) - deltas) < 1.96 * error)
    assert 0.92 <= np.mean(inside) <= 0.98
    assert 0.93 <= np.mean(near) <= 0.97


def test_a_feature_that_works_for_all_alike_has_no_spread() -> None:
    """What the others differ by says nothing of it."""
    history, _ = drawn(5, 60, 20, np.diag([0.3, 0.3, 0.0]))
    said = spread_of(Evidence.of(align(history), KNOWN, DIM), shifts=True)
    assert said is not None
    low, high = np.array(said.to_json()["intervals"]).T
    assert low[2] == 0.0
    assert high[2] < 0.1
    assert (low[:2] > 0.2).all()


def test_only_named_features_have_a_spread() -> None:
    """Of these it is what is found without the others; a feature that is not named has none."""
    history, _ = drawn(5, 60, 20, np.diag([0.3, 0.3, 0.0]))
    found = Evidence.of(align(history), KNOWN, DIM)
    every, named, one = (
        spread_of(found, shifts=True, features=features) for features in ((), (0, 1), (0,))
    )
    left = np.array([0, 1])
    assert named.responses.covariance[2].any() is np.False_
    assert named.to_json()["intervals"][2] == [0.0, 0.0]
    assert named.responses.covariance[:2, :2] == pytest.approx(
        every.responses.covariance[:2, :2], abs=0.005
    )
    short = Evidence(found.gram[:, left][:, :, left], found.product[:, left], *found[2:])
    alone = spread_of(short, shifts=True)
    assert named.gains[0] == pytest.approx(alone.gains[0], rel=0.02)
    assert named.cost - one.cost < -SHOWN  # the other one differs, too
    assert (named.responses.errors(found)[:, 2] == 0.0).all()
    assert named.responses.deltas(found)[:, 2].any() is np.False_
    whole = spread_of(found, shifts=True, features=(0, 1, 2))
    assert whole.to_json() == every.to_json()


@pytest.mark.parametrize(
    ("own", "said"),
    [([], "one feature or more"), ([0, 0], "twice"), ([3], "no feature 3"), (["x"], "no feature")],
)
def test_features_that_cannot_be_named(own: list, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        make_agent("anytime", dim=DIM, horizon=3, own=own)


def in_groups(seed: int, apart: float) -> tuple[History, dict[str, Floats]]:
    """Six groups of ten users, whose means are so far apart, and these means."""
    history, _ = drawn(seed, 60, 20, 0.3 * np.eye(DIM))
    rng, parts, means = np.random.default_rng(seed), {}, {}
    for i, (name, part) in enumerate(history.trajectories.items()):
        mean = means.setdefault(f"{i % 6}", apart * rng.standard_normal(DIM))
        carried = np.stack([np.convolve(x, WEIGHTS)[:20] for x in part.contexts.T], axis=1)
        values = part.measurements.value + carried @ mean
        measured = replace(part.measurements, value=values)
        parts[f"{i % 6}/{name}"] = replace(part, measurements=measured)
    return replace(history, trajectories=parts), means


def test_a_group_s_mean_is_found_and_a_new_trajectory_begins_with_it() -> None:
    """One of a group that nobody knows begins with everybody's, of which less is known."""
    history, means = in_groups(5, 0.5)
    said = spread_of(Evidence.of(align(history), KNOWN, DIM), shifts=True, by="/")
    assert said is not None
    assert said.responses.groups is not None
    json = said.to_json()
    assert np.mean(json["spread"]) == pytest.approx(0.3, rel=0.2)
    low, high = np.array(json["groups"]["intervals"]).T
    assert (low < 0.5).all()
    assert (high > 0.5).all()
    assert json["groups"]["gain"] > 20
    agent = make_agent("anytime", dim=DIM, horizon=3, own=True, groups="/")
    agent.theta, agent.prediction = THETA, replace(KNOWN, own=said.responses.to_json())
    for name, mean in means.items():
        theta, error = agent.response(f"{name}/new", None)
        assert theta == pytest.approx(THETA + json["groups"]["means"][name])
        assert theta == pytest.approx(THETA - said.shift + mean, abs=0.4)
        assert agent.of(f"{name}/new", None).theta.tolist() == theta.tolist()
        assert (error > json["spread"]).all()
    theta, further = agent.response("elsewhere/new", None)
    assert theta.tolist() == THETA.tolist()
    assert (further > 1.3 * error).all()


@pytest.mark.slow
def test_intervals_of_groups_hold() -> None:
    """Of their means and spread: (0.95 +- 2.5 errors)."""
    spread, near = [], []
    for seed in range(60):
        history, means = in_groups(seed, 0.5)
        said = spread_of(Evidence.of(align(history), KNOWN, DIM), shifts=True, by="/")
        assert said is not None
        groups = said.to_json()["groups"]
        low, high = np.array(groups["intervals"]).T
        spread.append((low <= 0.5) & (high >= 0.5))
        for name, mean in means.items():
            error = np.array(groups["means"][name]) + said.shift - mean
            near.append(np.abs(error) < 1.96 * np.array(groups["errors"][name]))
    assert 0.92 <= np.mean(spread) <= 0.98
    assert 0.93 <= np.mean(near) <= 0.97


def test_groups_that_do_not_differ_change_nothing() -> None:
    found = Evidence.of(align(in_groups(6, 0.0)[0]), KNOWN, DIM)
    told, alike = (spread_of(found, shifts=True, by=by) for by in ("/", None))
    assert told.to_json() == alike.to_json()


def test_while_trajectories_are_not_shown_to_differ_everybodys_theta_decides() -> None:
    """The fit is that without `own`, and its spread is said beside it."""
    history, _ = drawn(9, 8, 40, 0.02 * np.eye(DIM))
    told = {"dim": DIM, "horizon": 3, "profiles": "shared"}
    alike, own = (make_agent("anytime", **told, own=one).fit(history) for one in (False, True))
    assert own.own is not None
    assert 0.0 < own.own["gain"] < SHOWN
    assert own.theta.tolist() == alike.theta.tolist()
    assert own.lag_weights.tolist() == alike.lag_weights.tolist()
    assert Predictor.of(own).own is None


@pytest.mark.parametrize(("size", "status"), [(0.3, "ok"), (0.0, "zero")])
def test_a_fit_that_would_only_check_is_a_whole_one_where_responses_are_shown(
    size: float, status: str
) -> None:
    """Where an earlier fit had not seen them, decisions by them do not wait for its turn."""
    history, _ = drawn(9, 40, 6, size * np.eye(DIM))
    agent = make_agent("anytime", dim=DIM, horizon=3, own=True, profiles="shared")
    earlier = agent.fit(history.over(FitWindow(1, 1, 200, 3, 200)))
    agent.install(replace(earlier, own=None))
    found = agent.fit(history)
    assert found.status == status
    assert agent.prediction.own is None
    agent.install(found)
    assert agent.responses_differ == (size > 0.0)


def test_few_trajectories_say_nothing() -> None:
    found = Evidence.of(align(drawn(4, 4, 30, np.eye(DIM))[0]), KNOWN, DIM)
    assert spread_of(found, shifts=True) is None


def test_an_agent_decides_for_each_by_their_own_theta() -> None:
    """Each user's regret is less than where all are decided for alike; units do not matter."""
    world = LongHorizonEnvironment.draw(
        dim=3, horizon=4, n_arms=5, noise=0.1, pattern="flat", sparsity=2, seed=3
    )
    users = UserEnvironment(world, Visits.draw(10, 18, seed=3), spread=1.0)
    alike, own = (
        simulate_users("anytime", users, seed=3, options={"own": told, "profiles": "shared"})
        for told in (False, True)
    )
    assert own.regret[-1] < 0.6 * alike.regret[-1]
    said = own.estimates[-1].own
    assert said is not None
    assert said["gain"] > 50
    assert np.mean(said["spread"]) == pytest.approx(1 / 3**0.5, rel=0.6)
    agent = make_agent("anytime", dim=3, horizon=4, own=True)
    again = type(agent).from_state(3, 4, agent.options, own.agent.state())
    assert again.prediction.own == own.agent.prediction.own
    assert alike.estimates[-1].own is None
    assert own.estimates[-1].no_intervals == OWN_SPREAD
