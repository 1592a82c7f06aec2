"""The anytime agent: what it finds, what it says it cannot, and how it decides meanwhile."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from lhb_engine.agents import anytime_fit, make_agent
from lhb_engine.agents.anytime import Anytime
from lhb_engine.agents.fit_windows import anytime_windows
from lhb_engine.estimate import Estimate
from lhb_engine.findings.finding import Finding, Unchecked, unchecked_json
from lhb_engine.history import LATEST, FitWindow, Measurements
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from tests.examples import repeats
from tests.lhb_engine.played_histories import DIM, HORIZON, KINDS, LAG_WEIGHTS, THETA, history


def fit(past, **options):
    return make_agent("anytime", dim=DIM, horizon=HORIZON, **options).fit(past)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("baseline", [0.0, 10.0])
def test_it_finds_direction_and_lags(kind, baseline):
    estimate = fit(history(**{"n": 600, **KINDS[kind]}, baseline=baseline))
    assert estimate.status == "ok"
    assert estimate.theta @ THETA > 0.99
    assert set(estimate.active_lags) == {2, 7}
    np.testing.assert_allclose(estimate.lag_weights, LAG_WEIGHTS, atol=0.06)
    assert estimate.intercept == pytest.approx(baseline, abs=0.05)


def test_units_change_nothing():
    past = history()
    (part,) = past.trajectories.values()
    measured = replace(part.measurements, value=part.measurements.value * 2.0**20)
    other = replace(part, contexts=part.contexts * 2.0**10, measurements=measured)
    plain, scaled = fit(past), fit(replace(past, trajectories={"0": other}))
    np.testing.assert_allclose(plain.theta, scaled.theta, rtol=1e-12)
    np.testing.assert_allclose(scaled.lag_weights, plain.lag_weights * 2.0**10, rtol=1e-9)


def test_features_of_unequal_scale():
    scale = np.array([1000.0, 1.0, 0.01])
    past = history(n=500)
    (part,) = past.trajectories.values()
    estimate = fit(replace(past, trajectories={"0": replace(part, contexts=part.contexts * scale)}))
    found = estimate.theta * scale
    assert found @ THETA / np.linalg.norm(found) > 0.99


def test_a_lag_is_active_above_95_percent_of_the_draws(monkeypatch):
    whole = anytime_fit.AnytimeFit._posterior

    def posterior(self, data, form=None):
        found, rho = whole(self, data, form)
        inclusion = np.zeros(len(found.inclusion))
        inclusion[[2, 5, 7]] = 0.96, 0.94, 0.6
        return replace(found, inclusion=inclusion), rho

    monkeypatch.setattr(anytime_fit.AnytimeFit, "_posterior", posterior)
    assert fit(history()).active_lags == (2,)


def test_fits_are_early_ones_up_to_two_and_a_half_horizons_and_close_from_then_on():
    windows = anytime_windows(1000, None)
    due = [next(windows).due for _ in range(140)]
    growth = {a: b / a for a, b in pairwise(due)}
    assert {round(g, 2) for n, g in growth.items() if 1000 <= n < 2500} == {1.15}
    assert {round(g, 2) for n, g in growth.items() if n >= 2500} == {1.04}
    assert due[-1] > 20000


def test_signed_lag_weights():
    weights = np.zeros(HORIZON)
    weights[[1, 4]] = 0.8, -0.3
    estimate = fit(history(n=500, weights=weights), signed=True)
    assert estimate.theta @ THETA > 0.99
    np.testing.assert_allclose(estimate.lag_weights, weights, atol=0.06)
    assert estimate.sign_margin == pytest.approx(0.5 / 1.1, abs=0.1)


def test_where_lag_weights_cancel_no_direction_stands_out():
    weights = np.zeros(HORIZON)
    weights[[1, 4]] = 0.5, -0.5
    unsure = [fit(history(n=300, weights=weights, seed=s), signed=True) for s in range(4)]
    assert any(not e.diagnostics["stands_out"] and "no direction" in e.message for e in unsure)


@pytest.mark.parametrize("n", [5, *repeats(20)])
def test_pure_noise_is_called_noise(n):
    """At most one false lag in ten fits, and no angle where no direction stands out."""
    plain = {"n": 600, "weights": np.zeros(HORIZON), "noise": 1.0}
    found = [fit(history(**plain, seed=s)) for s in range(n)]
    noise = [e for e in found if "no direction stands out from the noise" in e.message]
    assert len(noise) >= 0.8 * n
    assert all(e.diagnostics["angle"] is None and e.intervals["drawn"] for e in noise)
    assert sum(len(e.active_lags) for e in found) <= 0.1 * n


@pytest.mark.parametrize(
    ("value", "contexts", "reason"), [(3.0, 1.0, "equal"), (None, 0.0, "contexts")]
)
def test_degenerate_data_have_a_reason(value, contexts, reason):
    past = history()
    (part,) = past.trajectories.values()
    m = part.measurements
    if value is not None:
        m = replace(m, value=np.full(len(m), value))
    part = replace(part, contexts=part.contexts * contexts, measurements=m)
    estimate = fit(replace(past, trajectories={"0": part}))
    assert estimate.status == "insufficient_data"
    assert reason in estimate.message


def test_propensities_of_an_exploration_floor():
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, epsilon=0.4)
    agent.theta = THETA
    contexts = np.random.default_rng(0).uniform(-1, 1, (4, DIM))
    choices = [agent.choose(contexts, Draw(0, "", t)) for t in range(1, 4001)]
    arms = np.array([choice.arm for choice in choices])
    for arm in range(4):
        (propensity,) = {c.propensity for c in choices if c.arm == arm}
        error = np.sqrt(propensity * (1 - propensity) / len(arms))
        assert abs(float((arms == arm).mean()) - propensity) < 4 * error


def test_the_schedule_grows_and_a_memory_bounds_its_steps():
    whole = [w for w, _ in zip(anytime_windows(100, None), range(60), strict=False)]
    steps = np.diff([w.due for w in whole])
    assert (steps <= np.ceil(0.4 * np.array([w.due for w in whole[:-1]]))).all()
    assert all(w.first == 1 for w in whole)
    short = [w for w, _ in zip(anytime_windows(100, 50), range(100), strict=False)]
    assert all(w.last - w.first + 1 == min(w.last, 50) for w in short)
    assert np.diff([w.due for w in short]).max() == 10
    for after in (0, 8, 100, 333, 500):
        expected = next(w for w in short if w.due > after)
        assert next(anytime_windows(100, 50, after)) == expected
    assert next(anytime_windows(100, 8, 10**9)).due - 10**9 in (1, 2)


@pytest.mark.parametrize(
    ("dim", "horizon", "options", "n"),
    [
        (20, 50, {}, 10**6),
        (20, 51, {}, LATEST),
        (20, 51, {"memory": 2 * LATEST}, 2 * LATEST),
        (2, 5, {"own": True}, LATEST),
        (2, 5, {"own": True, "memory": 2 * LATEST}, LATEST),
        (2, 5, {"own": True, "memory": 100}, 100),
    ],
)
def test_fits_look_back_on_the_latest_rounds_where_sums_cannot_tell_all(dim, horizon, options, n):
    agent = make_agent("anytime", dim=dim, horizon=horizon, **options)
    window = agent.fit_now(10**6)
    assert window.last - window.first + 1 == n
    due = agent.next_fit(10**6)
    assert due.last - due.first + 1 == (n if n < 10**6 else due.due)
    assert agent.keeps_sums == (n == 10**6)


def test_another_process_gives_the_same_bits():
    code = (
        "import json; from tests.lhb_engine.agents.test_anytime import fit, history;"
        "print(json.dumps(fit(history(keep=0.6)).to_json()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == json.loads(json.dumps(fit(history(keep=0.6)).to_json()))


@pytest.mark.slow
def test_it_comes_close_to_the_oracle_that_knows_w():
    """Lag weights sum to 2.5, where nothing may take them to sum to 1.

    Over 24 other seeds the ratio is 1.22. Of four seeds at a time, 95 in 100 stay below 1.69.
    """
    regret = {"anytime": 0.0, "oracle_w": 0.0, "uniform": 0.0}
    for seed in range(4):
        drawn = LongHorizonEnvironment.draw(dim=3, horizon=30, sparsity=3, seed=seed)
        world = LongHorizonEnvironment(drawn.theta, 2.5 * drawn.weights, seed=seed)
        for name in regret:
            truth = {"weights": world.weights.tolist(), "schedule": "growing"}
            options = truth if name == "oracle_w" else {}
            run = simulate(name, world, n_rounds=600, seed=seed, options=options)
            regret[name] += run.regret[-1]
    assert regret["anytime"] < 1.75 * regret["oracle_w"]
    assert regret["anytime"] < 0.05 * regret["uniform"]


def turned(before, after, last):
    """The rewards of one history up to round `last`, and those of another from then on."""
    old, new = before.trajectories["0"], after.trajectories["0"]
    parts = old.measurements.between(1, last), new.measurements.between(last + 1, new.last_round)
    joined = Measurements(
        *(np.concatenate([getattr(p, f) for p in parts]) for f in ("first", "last", "value"))
    )
    return replace(before, trajectories={"0": replace(old, measurements=joined)})


@pytest.mark.parametrize("kind", ["complete", *repeats("missing", "spans")])
def test_an_alarm_where_the_world_has_turned_and_none_where_it_has_not(kind):
    def after(past, n):
        agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
        agent.install(agent.fit(past.over(FitWindow(1, 1, n, HORIZON, n))))
        kept = agent.options, agent.state()
        return (type(agent).from_state(DIM, HORIZON, *kept) for _ in range(2))

    whole = FitWindow(2, 1, 500, HORIZON, 500)
    alarms = 0
    for seed in range(5):
        past = history(n=500, seed=seed, **KINDS[kind])
        one, two = after(past, 300)
        calm = one.fit(past.over(whole))
        assert calm.diagnostics["held_out_error"] < 2.0
        alarms += calm.diagnostics["alarm"]
        other = history(n=500, seed=seed, theta=-THETA, **KINDS[kind])
        late = two.fit(turned(past, other, 300).over(whole))
        assert late.diagnostics["alarm"]
        assert "predicted badly" in late.message or late.status == "zero"
    assert alarms <= 1


def test_no_rewards_at_all_are_too_few():
    estimate = fit(history(n=20, keep=0.0))
    assert estimate.status == "insufficient_data"
    assert estimate.n_missing == 20


def test_it_decides_by_every_direction_until_another_fit_has_one():
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    assert agent.deciding == "exploring"
    faint = agent.fit(history(n=40, weights=np.zeros(HORIZON), noise=1.0))
    assert (faint.status, faint.diagnostics["stands_out"]) == ("ok", False)
    agent.install(faint)
    again = type(agent).from_state(DIM, HORIZON, agent.options, agent.state())
    for known in (agent, again):
        assert known.deciding == "learning"
    contexts = np.random.default_rng(0).uniform(-1, 1, (80, 4, DIM))
    draws = [Draw(0, "", t) for t in range(1000, 1080)]
    choices = [again.choose(c, draw) for c, draw in zip(contexts, draws, strict=True)]
    assert not any(choice.explored for choice in choices)
    best = [int(np.argmax(c @ faint.theta)) for c in contexts]
    assert [choice.arm for choice in choices] == best == agent.choose_many(contexts, draws).tolist()
    agent.install(agent.fit(history(n=60).over(FitWindow(1, 1, 60, HORIZON, 60))))
    assert agent.deciding == "in_use"


@pytest.mark.slow
def test_no_direction_stands_out_from_pure_noise_for_long():
    """Of 1000 rounds of it the second half is decided by a guess, and is said to be.

    Intervals of what choices earn hold nothing: all of these 238 do, and 0.958 of such as are 0.8
    times as wide.
    """
    guessed, last, earned = [], [], []
    for seed in range(7):
        world = LongHorizonEnvironment(THETA, np.zeros(HORIZON), n_arms=4, noise=1.0, seed=seed)
        played: list[bool] = []
        plain = Anytime.choose_many

        def watched(agent, contexts, draws, played=played, plain=plain):
            played += [agent.deciding != "in_use" for _ in draws]
            return plain(agent, contexts, draws)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Anytime, "choose_many", watched)
            run = simulate("anytime", world, n_rounds=1000, seed=seed)
        guessed.append(np.mean(played[500:]))
        last.append(played[-1])
        earned += [found.gain["over_chance"] for found in run.estimates if found.gain is not None]
    assert np.mean(guessed) > 0.8
    assert np.mean(last) >= 7 / 8
    assert len(earned) > 200
    assert np.mean([one["low"] <= 0.0 <= one["high"] for one in earned]) >= 0.97


def test_a_direction_that_the_last_rounds_speak_against_is_not_installed(monkeypatch):
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    past = history(n=90)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 60, HORIZON, 60))))
    whole = past.over(FitWindow(2, 1, 90, HORIZON, 90))
    assert agent.fit(whole).status == "ok"
    true = anytime_fit.rank_one_posterior

    def wrong(*args, **options):
        return replace(true(*args, **options), theta=np.array([0.6, 0.8, 0.0]))

    monkeypatch.setattr(anytime_fit, "rank_one_posterior", wrong)
    estimate = agent.fit(whole)
    assert estimate.status == "zero"
    assert estimate.theta is None
    assert estimate.message.endswith("speak against a new one: it stays.")
    kept = agent.theta
    agent.install(estimate)
    assert agent.theta is kept
    turned = history(n=90, theta=np.array([0.6, 0.8, 0.0]))
    assert agent.fit(turned.over(FitWindow(2, 1, 90, HORIZON, 90))).status == "ok"


def test_a_lag_is_called_active_by_nearly_all_draws(monkeypatch):
    plain = anytime_fit.rank_one_posterior

    def sampled(*args, **options):
        found = plain(*args, **options)
        return replace(found, inclusion=np.array([0.5, 0.9, 0.94, 0.96, 1.0] + [0.0] * 7))

    monkeypatch.setattr(anytime_fit, "rank_one_posterior", sampled)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    assert agent.fit(history()).active_lags == (3, 4)


def test_where_trajectories_decide_by_their_own_directions_no_gain_is_said():
    estimate = fit(history(n=60), own=True)
    assert (estimate.gain, estimate.no_gain) == (None, anytime_fit.OWN_DIRECTIONS)


def test_no_finding_advises_what_is_told():
    seasons = [{"period": 84, "harmonics": 2}]
    agent = make_agent("anytime", dim=2, horizon=3, seasonality=seasons, trend=True, memory=100)
    for code, period, is_said in (
        ("trend", None, True),
        ("lags_change", None, True),
        ("levels_differ", None, False),
        ("season", 84.2, True),
        ("season", 42.1, True),
        ("season", 28.1, False),  # a third harmonic, of which nothing is told
        ("season", 50.0, False),
        ("season", 168.0, False),
    ):
        assert agent.options.says(Finding(code, "", period=period)) == is_said, (code, period)


def test_what_is_found_is_told_once_and_a_season_with_its_parts():
    def season(period, harmonics=1):
        return Finding("season", "", period=period, harmonics=harmonics).to_json()

    def advised(findings, **told):
        return make_agent("anytime", dim=2, horizon=3, **told).options.advised(findings)

    week, half = {"period": 7.0, "harmonics": 3}, {"period": 3.5, "harmonics": 1}
    trend = Finding("trend", "").to_json()
    assert advised([trend, season(7.0, 3)]) == {"trend": True, "seasonality": [week]}
    assert advised([trend, season(7.0, 3)], adopts=False) == {}
    assert advised([trend], trend=True) == {}
    levels = Finding("levels_differ", "").to_json()
    assert advised([levels]) == {"levels": True}
    assert advised([levels], levels=True) == advised([levels], adopts=False) == {}
    assert advised([season(7.0, 3)], seasonality=[half]) == {"seasonality": [week]}
    assert advised([season(30.0)], seasonality=[week])["seasonality"] == [
        week,
        {"period": 30.0, "harmonics": 1},
    ]
    assert advised([season(6.8)], seasonality=[week]) == {}  # the week changes
    three = [{"period": 5.0 * k} for k in (1, 3, 9)]
    assert advised([season(100.0)], seasonality=three) == {}
    assert advised([Finding("arms_alike", "").to_json()]) == {}


def test_what_was_forecast_and_did_not_come_is_in_doubt():
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    estimate = agent.fit(history(n=600))
    agent.install(estimate)
    assert agent.deciding == "in_use"
    short = [Finding("earns_less", "").to_json()]
    zero = Estimate("zero", np.zeros(HORIZON), findings=short)
    agent.install(zero)
    again = Anytime.from_state(DIM, HORIZON, agent.options, json.loads(json.dumps(agent.state())))
    assert (agent.deciding, again.deciding) == ("in_doubt", "in_doubt")
    assert again.prediction.found == ["earns_less"]
    agent.install(replace(zero, findings=[], diagnostics={"alarm": True}))
    assert agent.deciding == "in_doubt"
    agent.install(replace(zero, findings=[]))
    assert agent.deciding == "in_use"
    for missing, says in (("turns", "in_use"), ("rows", "learning")):  # whose rewards these are
        left_open = unchecked_json([Unchecked(("rewards_of_others",), missing)])
        agent.install(zero.with_checks([], left_open))
        assert agent.deciding == says
        assert (estimate.with_checks([], left_open).totals is None) == (says == "learning")
    agent.prediction = replace(agent.prediction, stands_out=False, in_doubt=True)
    assert agent.deciding == "learning"
