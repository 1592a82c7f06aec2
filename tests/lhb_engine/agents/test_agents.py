import numpy as np
import pytest

from lhb_engine.agents import fit_windows, make_agent
from lhb_engine.design.fit_rows import differenced_rows, measured_rows
from lhb_engine.history import History, Measurements, Trajectory
from lhb_engine.randomness import Draw


def world(seed, n, dim=3, lag=4, noise=0.01, baseline=0.0):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(dim)
    theta /= np.linalg.norm(theta)
    contexts = rng.uniform(-1, 1, (n, dim))
    reward = np.concatenate([np.zeros(lag), contexts @ theta])[:n]
    return contexts, reward + noise * rng.standard_normal(n) + baseline, theta


def history(contexts, rewards, keep=None):
    rounds = np.arange(1, len(contexts) + 1)
    keep = np.ones(len(rounds), dtype=bool) if keep is None else keep
    single = Measurements.single(rounds[keep], rewards[keep])
    return History(contexts.shape[1], {"": Trajectory(contexts, single)})


def fit(agent, past, n_rounds):
    return agent.fit(past.over(agent.next_fit(n_rounds)))


def test_first_phase_differences_away_a_baseline():
    contexts, rewards, theta = world(0, 224, baseline=7.0)
    agent = make_agent("doubling_lasso", dim=3, horizon=100)
    estimate = fit(agent, history(contexts, rewards), 100)
    assert estimate.design == "differenced"
    assert estimate.n_rows == 32
    assert estimate.n_missing == 0
    assert estimate.theta @ theta > 0.99
    assert estimate.lag_weights.argmax() == 4


def test_full_phase_uses_the_later_half():
    contexts, rewards, theta = world(1, 300)
    agent = make_agent("ad_lasso", dim=3, horizon=100)
    estimate = fit(agent, history(contexts, rewards), 299)
    assert (estimate.design, estimate.n_rows) == ("full", 100)
    assert estimate.theta @ theta > 0.999
    assert estimate.active_lags == (4,)
    assert estimate.lag_weights.shape == (100,)
    assert estimate.duality_gap <= 1e-6


def test_missing_partners_are_dropped_and_counted():
    contexts, rewards, theta = world(2, 224)
    keep = np.ones(224, dtype=bool)
    keep[[200, 201, 130]] = False  # two of the fourth quarter, one of the second
    agent = make_agent("doubling_lasso", dim=3, horizon=100)
    estimate = fit(agent, history(contexts, rewards, keep), 100)
    assert estimate.design == "differenced"
    assert estimate.n_rows == 32 - 3
    assert estimate.theta @ theta > 0.99


def test_too_few_pairs_fall_back_to_the_undifferenced_quarters():
    contexts, rewards, theta = world(3, 224, baseline=2.0)
    keep = np.arange(224) % 4 != 0
    keep[128:160] = np.arange(32) % 4 == 0  # the second quarter pairs with nothing of the fourth
    agent = make_agent("doubling_lasso", dim=3, horizon=100)
    estimate = fit(agent, history(contexts, rewards, keep), 100)
    assert estimate.design == "undifferenced"
    assert estimate.n_rows == 8 + 24
    assert estimate.n_missing == 64 - 32
    assert estimate.intercept == pytest.approx(2.0, abs=0.2)
    assert estimate.theta @ theta > 0.95


def test_without_the_fallback_too_few_pairs_give_no_estimate():
    contexts, rewards, _ = world(3, 224, baseline=2.0)
    keep = np.arange(224) % 4 != 0
    keep[128:160] = np.arange(32) % 4 == 0
    agent = make_agent("doubling_lasso", dim=3, horizon=100, fallback=False)
    estimate = fit(agent, history(contexts, rewards, keep), 100)
    assert estimate.status == "insufficient_data"
    assert estimate.design == "differenced"


def test_two_trajectories_are_never_differenced():
    contexts, rewards, theta = world(4, 448)
    parts = {
        key: Trajectory(
            contexts[half],
            Measurements.single(np.arange(1, 225), rewards[half]),
            positions=2 * np.arange(224) + offset,
        )
        for key, half, offset in (("a", slice(224), 1), ("b", slice(224, 448), 2))
    }
    agent = make_agent("doubling_lasso", dim=3, horizon=20)
    estimate = fit(agent, History(3, parts), 100)
    assert estimate.design == "undifferenced"
    assert estimate.theta @ theta > 0.95


def test_spans_are_rows_of_the_same_model():
    contexts, rewards, theta = world(5, 882, baseline=10.0)
    first = np.arange(1, 883, 7)
    totals = rewards.reshape(-1, 7).sum(axis=1)
    past = History(3, {"": Trajectory(contexts, Measurements(first, first + 6, totals))})
    agent = make_agent("ad_lasso", dim=3, horizon=14, fit_intercept=True)
    estimate = fit(agent, past, 881)
    assert estimate.theta @ theta > 0.99
    assert estimate.intercept == pytest.approx(10.0, abs=0.1)


@pytest.mark.parametrize(
    ("rewards", "keep", "why"),
    [
        (np.full(300, 3.0), None, "equal"),
        (np.zeros(300), None, "equal"),
        (np.arange(300.0), np.arange(300) < 204, "measured rows"),
    ],
)
def test_too_little_to_learn_from_gives_a_reason(rewards, keep, why):
    contexts, *_ = world(6, 300)
    agent = make_agent("ad_lasso", dim=3, horizon=100)
    estimate = fit(agent, history(contexts, rewards, keep), 299)
    assert estimate.status == "insufficient_data"
    assert why in estimate.message
    assert estimate.theta is None


def test_theory_with_c_1_is_zero_everywhere_here():
    """As docs/model.md 5 says; a smaller multiplier is not."""
    contexts, rewards, _ = world(7, 300, noise=0.1)
    for c, status in ((1.0, "zero"), (0.01, "ok")):
        agent = make_agent("ad_lasso", dim=3, horizon=100, reg="theory", c=c)
        for n_rounds in (0, 40, 299):
            estimate = fit(agent, history(contexts, rewards), n_rounds)
            assert estimate.status == status
            assert (estimate.lam > estimate.lambda_max) == (status == "zero")


def test_theory_follows_the_formulas():
    contexts, rewards, _ = world(8, 300)
    agent = make_agent("ad_lasso", dim=3, horizon=100, reg="theory", c=0.5, gamma=0.2)
    past = history(contexts, rewards)
    doubling = 0.5 * 3 * np.sqrt(2 * np.log(2**2 * 3 * 8 / 0.2) / (2 * 8))
    assert fit(agent, past, 32).lam == pytest.approx(doubling)
    full = 2 * 0.5 * np.sqrt(2 * 3 * np.log(2 * 100 / 0.2) / 100)
    assert fit(agent, past, 96).lam == pytest.approx(full)


def test_a_zero_estimate_keeps_theta():
    contexts, rewards, _ = world(9, 300)
    agent = make_agent("ad_lasso", dim=3, horizon=100)
    agent.install(fit(agent, history(contexts, rewards), 299))
    theta = agent.theta
    loud = make_agent("ad_lasso", dim=3, horizon=100, reg="theory")
    agent.install(fit(loud, history(contexts, rewards), 299))
    assert agent.theta is theta


def test_whole_epoch_play_equals_round_by_round():
    for dim in (1, 5, 10, 33):
        rng = np.random.default_rng(dim)
        agent = make_agent("ad_lasso", dim=dim, horizon=12)
        contexts = rng.integers(-1, 2, (50, 6, dim)).astype(float)  # ties are common
        draws = [Draw(1, "", t) for t in range(1, 51)]
        for theta in (None, np.ones(dim)):
            agent.theta = theta
            arms = agent.choose_many(contexts, draws)
            singly = [agent.choose(c, d).arm for c, d in zip(contexts, draws, strict=True)]
            assert arms.tolist() == singly


def test_a_measured_round_without_partner_is_not_missing():
    contexts, rewards, _ = world(2, 224)
    keep = np.ones(224, dtype=bool)
    keep[[200, 201, 130]] = False
    past = history(contexts, rewards, keep)
    agent = make_agent("doubling_lasso", dim=3, horizon=100)
    window = agent.next_fit(100)
    quarter = fit_windows.quarter_of(window)
    paired = differenced_rows(past.over(window), quarter)
    assert paired.design.n_rows == quarter - 3
    assert paired.n_missing == 3
    assert paired.n_missing == measured_rows(past.over(window), quarters=quarter).n_missing


def test_a_choice_explores_where_nothing_tells_the_arms_apart():
    agent = make_agent("ad_lasso", dim=2, horizon=5)
    contexts = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert agent.choose(contexts, Draw(0, "", 1)).explored
    assert not agent.choose(contexts[:1], Draw(0, "", 1)).explored
    for theta in ([1.0, 0.0], [0.0, 1.0]):  # two best arms, or one
        agent.theta = np.array(theta)
        assert not agent.choose(contexts, Draw(0, "", 1)).explored
    assert agent.choose(contexts[:2], Draw(0, "", 1)).explored
