"""The agents of the paper's comparison do what docs/model.md 6 says."""

import numpy as np
import pytest

from lhb_engine.agents import fit_windows, make_agent
from lhb_engine.agents.confidence_ellipsoid import Ellipsoid
from lhb_engine.agents.fit_windows import growing_windows
from lhb_engine.agents.oracle_w import filtered_contexts
from lhb_engine.agents.sa_gd import descend
from lhb_engine.agents.sw_mp import matching_scores
from lhb_engine.design.fit_rows import measured_rows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate

DIM, HORIZON = 3, 12
THETA = np.array([0.6, -0.64, 0.48])


def played(weights, n=120, noise=0.0, seed=0):
    """Rounds with random contexts in the model."""
    rng = np.random.default_rng(seed)
    xi = rng.uniform(-1, 1, (n, DIM))
    reward = np.convolve(xi @ THETA, weights)[:n] + noise * rng.standard_normal(n)
    return History(DIM, {"": Trajectory(xi, Measurements.single(np.arange(1, n + 1), reward))})


def lags(**at):
    weights = np.zeros(HORIZON)
    for lag, value in at.items():
        weights[int(lag[1:])] = value
    return weights


def windows_of(agent, n):
    out, n_rounds = [], 0
    while (window := agent.next_fit(n_rounds)).due <= n:
        out.append(window)
        n_rounds = window.due
    return out


@pytest.mark.parametrize("name", ["sw_mp", "sa_gd", "ucb_mp"])
@pytest.mark.parametrize("horizon", [12, 100, 37])
def test_baselines_fit_at_ad_lassos_boundaries_on_whole_epochs_or_its_rows(name, horizon):
    theirs = windows_of(make_agent("ad_lasso", dim=2, horizon=horizon), 4000)
    whole = windows_of(make_agent(name, dim=2, horizon=horizon), 4000)
    shared = windows_of(make_agent(name, dim=2, horizon=horizon, rows="ad_lasso"), 4000)
    assert shared == theirs
    assert [w.due for w in whole] == [w.due for w in theirs]
    first = 1
    for window in whole:
        if window.due > horizon >= first:
            first = horizon + 1  # what round h cuts off belongs to no epoch
        assert window.first == first
        assert window.last == window.due
        first = window.due + 1


def test_matching_scores_are_the_papers():
    rng = np.random.default_rng(2)
    design = LaggedDesign(rng.uniform(-1, 1, (40, DIM)), HORIZON)
    y = rng.standard_normal(40)
    blocks = design.toarray().reshape(40, HORIZON, DIM)
    expected = [
        np.linalg.norm(y @ blocks[:, k]) / np.linalg.norm(blocks[:, k], ord=2)
        for k in range(HORIZON)
    ]
    assert np.allclose(matching_scores(design, y), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["sw_mp", "ucb_mp"])
@pytest.mark.parametrize("lag", range(HORIZON))
def test_matching_pursuit_finds_a_single_lag_exactly(name, lag):
    agent = make_agent(name, dim=DIM, horizon=HORIZON)
    history = played(lags(**{f"k{lag}": 0.7})).over(FitWindow(1, 13, 60, HORIZON, 60))
    estimate = agent.fit(history)
    assert estimate.active_lags == (lag,)
    assert estimate.theta == pytest.approx(THETA)
    assert estimate.lag_weights[lag] == pytest.approx(0.7)


def test_sa_gd_recovers_theta_and_w_without_noise():
    weights = lags(k1=0.5, k4=0.3, k9=0.2)
    agent = make_agent("sa_gd", dim=DIM, horizon=HORIZON, tol=0.0, n_steps=2000)
    estimate = agent.fit(played(weights).over(FitWindow(1, 13, 112, HORIZON, 112)))
    assert np.allclose(estimate.theta, THETA, atol=1e-8)
    assert np.allclose(estimate.lag_weights, weights, atol=1e-8)


def test_sa_gd_keeps_as_many_lags_as_it_is_told():
    weights = lags(k1=0.5, k4=0.3, k9=0.2)
    agent = make_agent("sa_gd", dim=DIM, horizon=HORIZON, s=2)
    history = played(weights, noise=0.1)
    estimate = agent.fit(history.over(FitWindow(1, 13, 112, HORIZON, 112)))
    assert estimate.active_lags == (1, 4)


def test_a_descent_never_raises_the_loss():
    rng = np.random.default_rng(4)
    design = LaggedDesign(rng.uniform(-1, 1, (60, DIM)), HORIZON)
    y = rng.standard_normal(60)
    theta, weights = THETA, rng.standard_normal(HORIZON)
    losses = []
    for n_steps in range(1, 12):
        a, w, made = descend(design, y, theta, weights, n_steps, 0.0)
        assert made == n_steps
        assert np.linalg.norm(a) == pytest.approx(1)
        losses.append(np.linalg.norm(y - design.toarray() @ np.outer(w, a).ravel()))
    assert (np.diff(losses) <= 1e-12).all()


def test_the_ellipsoid_is_ridge_regression():
    rng = np.random.default_rng(5)
    x, r = rng.uniform(-1, 1, (30, DIM)), rng.standard_normal(30)
    ellipsoid = Ellipsoid(DIM, 0.5)
    for context, reward in zip(x, r, strict=True):
        ellipsoid.update(context, reward)
    gram = 0.5 * np.eye(DIM) + x.T @ x
    arms = rng.uniform(-1, 1, (7, DIM))
    spread = np.sqrt(np.einsum("ki,ij,kj->k", arms, np.linalg.inv(gram), arms))
    expected = arms @ np.linalg.solve(gram, x.T @ r) + 2.0 * spread
    assert np.allclose(ellipsoid.upper_bounds(arms, 2.0), expected, rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 5, 10, 33])
def test_equal_arms_have_equal_upper_bounds_wherever_they_stand(dim):
    rng = np.random.default_rng(6)
    ellipsoid = Ellipsoid(dim, 1.0)
    for _ in range(2 * dim):
        ellipsoid.update(rng.uniform(-1, 1, dim), rng.standard_normal())
    arms = rng.uniform(-1, 1, (9, dim))
    scores = ellipsoid.upper_bounds(arms, 0.7)
    order = rng.permutation(9)
    assert np.array_equal(ellipsoid.upper_bounds(arms[order], 0.7), scores[order])
    assert np.array_equal(ellipsoid.upper_bounds(np.stack([arms, arms[order]]), 0.7)[0], scores)
    for arm in range(9):
        assert (
            ellipsoid.upper_bounds(np.repeat(arms[arm : arm + 1], 5, 0), 0.7) == scores[arm]
        ).all()


def test_ucb_mp_pairs_a_reward_with_the_context_of_its_lag():
    agent = make_agent("ucb_mp", dim=DIM, horizon=HORIZON)
    weights = lags(k4=1.0)
    history = played(weights)
    agent.install(agent.fit(history.over(FitWindow(1, 13, 60, HORIZON, 60))))
    part = history.trajectories[""]
    expected = Ellipsoid(DIM, agent.options.ridge)
    for t in range(61, 91):
        agent.observe(history, "", t, float(part.measurements.value[t - 1]))
        expected.update(part.contexts[t - 5], float(part.measurements.value[t - 1]))
    assert np.array_equal(agent.ellipsoid.inverse, expected.inverse)
    assert np.array_equal(agent.ellipsoid.moment, expected.moment)


def test_lin_ucb_learns_where_lag_0_alone_pays_and_nothing_where_it_does_not():
    def regret(lag):
        weights = lags(**{f"k{lag}": 1.0})
        env = LongHorizonEnvironment(THETA, weights, n_arms=5, seed=3)
        return simulate("lin_ucb", env, n_rounds=600, seed=0).regret[-1]

    env = LongHorizonEnvironment(THETA, lags(k0=1.0), n_arms=5, seed=3)
    uniform = simulate("uniform", env, n_rounds=600, seed=0).regret[-1]
    assert regret(0) < 0.05 * uniform
    assert regret(5) > 0.3 * uniform


def test_oracle_w_sees_the_filtered_contexts():
    weights = lags(k0=0.2, k3=0.5, k11=0.3)
    history = played(weights)
    rows = measured_rows(history.over(FitWindow(1, 1, 120, HORIZON, 120)))
    xi = history.trajectories[""].contexts
    expected = np.stack([np.convolve(xi[:, i], weights)[:120] for i in range(DIM)], axis=1)
    assert np.allclose(filtered_contexts(rows, weights), expected, atol=1e-14)


def test_oracle_w_finds_theta_without_noise_and_says_when_it_cannot():
    weights = lags(k9=1.0)
    agent = make_agent("oracle_w", dim=DIM, horizon=HORIZON, weights=weights.tolist())
    history = played(weights)
    window = FitWindow(1, 13, 60, HORIZON, 60)
    assert agent.fit(history.over(window)).theta == pytest.approx(THETA)
    early = FitWindow(1, 1, 9, HORIZON, 9)  # no reward yet carries lag 9
    growing = make_agent(
        "oracle_w", dim=DIM, horizon=HORIZON, weights=weights.tolist(), schedule="growing"
    )
    assert growing.fit(history.over(early)).status == "insufficient_data"


def test_the_growing_schedule_is_fixed():
    windows = growing_windows(7)
    assert [next(windows).due for _ in range(8)] == [8, 10, 12, 14, 17, 20, 24, 29]
    assert fit_windows.default_first_quarter(100) == 8


@pytest.mark.parametrize("name", ["ucb_mp", "lin_ucb"])
def test_in_epoch_learners_see_every_reward_once_in_order(name, monkeypatch):
    seen = []
    kind = type(make_agent(name, dim=DIM, horizon=HORIZON))
    original = kind.observe

    def spy(self, history, trajectory, round, reward):
        part = history.trajectories[trajectory]
        assert len(part.contexts) == round
        assert part.measurements.value[-1] == reward
        seen.append(round)
        original(self, history, trajectory, round, reward)

    monkeypatch.setattr(kind, "observe", spy)
    env = LongHorizonEnvironment.draw(dim=DIM, horizon=HORIZON, seed=1)
    simulate(name, env, n_rounds=80, seed=0)
    assert seen == list(range(1, 81))


def test_ucb_mp_learns_anew_after_round_h_and_keeps_its_lag():
    agent = make_agent("ucb_mp", dim=2, horizon=4)
    agent.install(Estimate("ok", np.eye(4)[1], theta=np.array([0.6, 0.8]), active_lags=(1,)))
    contexts = np.arange(12.0).reshape(6, 2)
    rounds = np.arange(1, 7)
    past = History(2, {"": Trajectory(contexts, Measurements.single(rounds, np.ones(6)))})
    for t in (2, 3):
        agent.observe(past, "", t, 1.0)
    assert agent.ellipsoid.moment.any()
    agent.observe(past, "", 4, 1.0)
    assert not agent.ellipsoid.moment.any()
    again = type(agent).from_state(2, 4, agent.options, agent.state())
    for t in (5, 6):
        again.observe(past, "", t, 1.0)
    assert again.lag == 1
    assert again.ellipsoid.moment.tolist() == (contexts[3] + contexts[4]).tolist()


def test_ucb_mp_starts_its_ellipsoid_anew_with_each_estimate():
    agent = make_agent("ucb_mp", dim=DIM, horizon=HORIZON)
    history = played(lags(k2=1.0))
    fresh = agent.ellipsoid.to_json()
    for lag in (2, 5):
        weights = lags(**{f"k{lag}": 1.0})
        agent.install(Estimate("ok", weights, theta=THETA, active_lags=(lag,)))
        assert agent.ellipsoid.to_json() == fresh
        agent.observe(history, "", 40, 1.0)
        assert agent.ellipsoid.to_json() != fresh


def test_ucb_mp_starts_anew_after_round_h_also_where_its_reward_is_missing():
    history = played(lags(k2=1.0))
    found = Estimate("ok", lags(k2=1.0), theta=THETA, active_lags=(2,))
    states = []
    for before in ((), (HORIZON - 1,)):
        agent = make_agent("ucb_mp", dim=DIM, horizon=HORIZON)
        agent.install(found)
        for round in (*before, HORIZON + 1, HORIZON + 2):
            agent.observe(history, "", round, 1.0)
        states.append(agent.ellipsoid.to_json())
    assert states[0] == states[1]


@pytest.mark.parametrize(("rows", "n_rows"), [("ad_lasso", 16), ("epoch", 32)])
def test_the_first_epoch_is_fitted_on_two_of_its_quarters_or_on_all_of_it(rows, n_rows):
    agent = make_agent("sw_mp", dim=DIM, horizon=64, L=8, rows=rows)
    window = agent.next_fit(0)
    assert window.due == 32
    assert agent.fit(played(lags(k2=1.0)).over(window)).n_rows == n_rows


def test_sa_gd_keeps_the_largest_in_size():
    """With s = 2 of the weights 1, -0.8 and 0.3 the third goes, not the second."""
    agent = make_agent("sa_gd", dim=DIM, horizon=HORIZON, s=2)
    window = FitWindow(1, 1, 400, HORIZON, 400)
    estimate = agent.fit(played(lags(k1=1.0, k4=-0.8, k7=0.3), n=400).over(window))
    assert np.flatnonzero(estimate.lag_weights).tolist() == [1]
    assert estimate.active_lags == (1,)
    assert estimate.sign_margin == pytest.approx(0.2 / 1.8, abs=0.05)  # (2.3)
