"""What `anytime` does when the world changes, and that it does nothing when it does not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import anytime_fit, make_agent
from lhb_engine.agents.fit_past import RowsPast
from lhb_engine.design.aligned_rounds import align
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.acceptance_and_alarm import LaterRows
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.posterior.smooth_profiles import SmoothChains
from tests.examples import repeats
from tests.lhb_engine.played_histories import DIM, HORIZON, LAG_WEIGHTS, THETA, history
from tests.lhb_engine.sized_agents import have_sizes

CHANGE = 301


def turned(n=420, seed=0, at=CHANGE, theta=-THETA):
    """Rounds of which theta is another one from round `at` on."""
    rng = np.random.default_rng(seed)
    xi = rng.uniform(-1, 1, (n, DIM))
    signal = np.where(np.arange(1, n + 1) < at, xi @ THETA, xi @ theta)
    reward = np.convolve(signal, LAG_WEIGHTS)[:n] + 0.05 * rng.standard_normal(n)
    part = Trajectory(xi, Measurements.single(np.arange(1, n + 1), reward))
    return History(DIM, {"0": part}).over(FitWindow(1, 1, n, HORIZON, n))


def agent_after(past, n):
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(past.over(FitWindow(1, 1, n, HORIZON, n))))
    return agent


def window(n):
    return FitWindow(2, 1, n, HORIZON, n)


@pytest.mark.parametrize("seed", [0, *repeats(1)])
def test_a_fit_after_a_change_looks_back_as_far_as_predicts_best(seed):
    past = turned(n=480, seed=seed)
    agent = agent_after(past, 300)
    estimate = agent.fit(past.over(window(480)))
    assert estimate.diagnostics["alarm"]
    assert CHANGE - 10 <= estimate.first_round <= CHANGE + 110
    assert estimate.n_rows == 480 - estimate.first_round + 1
    assert estimate.theta @ -THETA > 0.98
    agent.install(estimate)
    again = type(agent).from_state(
        DIM, HORIZON, agent.options, json.loads(json.dumps(agent.state()))
    )
    assert again.state() == agent.state()
    longer = turned(n=700, seed=seed)
    later = again.fit(longer.over(window(700)))
    assert later.first_round == estimate.first_round
    assert not later.diagnostics["alarm"]


@pytest.mark.parametrize(
    ("profiles", "zero_start"),
    [("each", True), ([[0, 1]], False), *repeats(("each", False), ([[0, 1]], True))],
)
def test_a_stored_agent_of_told_profiles_fits_after_a_change_as_one_that_was_not(
    profiles, zero_start
):
    """Its state says the form of the profiles: read as shared ones they stop the alarm's draws."""
    past = turned(n=480, seed=1)
    told = {"profiles": profiles, "zero_start": zero_start}
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, **told)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 300, HORIZON, 300))))
    state = json.loads(json.dumps(agent.state()))
    found = agent.fit(past.over(window(480))).to_json()
    assert found["diagnostics"]["alarm"]
    again = type(agent).from_state(DIM, HORIZON, agent.options, state)
    assert again.fit(past.over(window(480))).to_json() == found


@pytest.mark.parametrize("seed", [0, *repeats(1)])
def test_a_fit_after_a_change_looks_back_where_the_latest_rounds_are_not_measured(seed):
    """Rewards come 160 rounds late: none is measured in the later half of those since the fit."""
    past = turned(n=600, seed=seed)
    agent = agent_after(past, 300)
    part = past.trajectories["0"]
    late = replace(part, measurements=part.measurements.between(1, 440))
    estimate = agent.fit(replace(past, trajectories={"0": late}, window=window(600)))
    assert estimate.diagnostics["alarm"]
    assert CHANGE - 10 <= estimate.first_round <= CHANGE + 70
    assert estimate.theta @ -THETA > 0.98


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize(
    ("told", "first"), [({}, 1), ({}, 250), ({"profiles": "each"}, 1), ({"levels": True}, 1)]
)
def test_a_fit_goes_on_where_nothing_that_the_last_one_saw_earns_anything(
    told, first, sums, monkeypatch
):
    """Corrected to 0, or rare and gone with the older rounds of a memory; all later fits failed."""
    have_sizes(monkeypatch, latest=64 if sums else 10_000)
    past = turned(n=480)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, **told)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 300, HORIZON, 300))))
    part = past.trajectories["0"]
    value = np.where(np.arange(480) < 300, 0.0, part.measurements.value)
    silent = replace(part, measurements=replace(part.measurements, value=value))
    rows = replace(past, trajectories={"0": silent}, window=FitWindow(2, first, 480, HORIZON, 480))
    estimate, kept = agent.fit_keeping(replace(rows, measured_before=300), None)
    assert (kept is not None) == sums
    assert estimate.diagnostics["alarm"]
    assert estimate.theta @ -THETA > 0.85


def test_where_nothing_changes_all_rounds_count():
    for seed in range(5):
        past = history(n=700, seed=seed)
        estimate = agent_after(past, 300).fit(past.over(window(700)))
        assert estimate.first_round == 1
        assert "since_round" not in estimate.diagnostics
    agent = agent_after(past, 300)
    rows = RowsPast(agent, window(700), align(agent.told(past.over(window(700)))))
    assert anytime_fit.AnytimeFit(agent, rows)._look_back(1) == 1


@pytest.mark.parametrize("seed", [0, *repeats(1)])
def test_an_estimate_that_was_wrong_is_no_change_of_the_world(seed):
    """All rounds agree with one direction, but not with the one installed."""
    past = history(n=700, seed=seed)
    agent = agent_after(past, 300)
    assert agent.prediction is not None
    wrong = THETA + 0.6 * np.linalg.svd(THETA[np.newaxis])[2][-1]
    agent.prediction = replace(agent.prediction, theta=wrong / np.linalg.norm(wrong))
    rows = RowsPast(agent, window(700), align(agent.told(past.over(window(700)))))
    fit = anytime_fit.AnytimeFit(agent, rows)
    assert fit.past.later.check(fit._old_draws)["alarm"]  # the check alone cannot tell
    estimate = fit.estimate()
    assert estimate.diagnostics["alarm"] is False
    assert estimate.first_round == 1
    assert estimate.theta @ THETA > 0.99


def test_between_two_fits_a_direction_is_only_checked(monkeypatch):
    past = turned(n=420)
    agent = agent_after(past, 250)

    def never(*args, **options):
        raise AssertionError("no chains are needed")

    with monkeypatch.context() as patch:
        patch.setattr(anytime_fit, "rank_one_posterior", never)
        checked = agent.fit(past.over(window(290)))
    assert checked.status == "zero"
    assert checked.message.startswith("The direction predicts as well as it should: it stays")
    assert checked.diagnostics["held_out_rows"] == 40
    assert agent.fit(turned(n=340, at=281)).diagnostics["alarm"]  # sooner where the check fails
    assert agent.fit(history(n=350)).status == "ok"  # 1.4 times as many rounds
    have_sizes(monkeypatch, latest=200)
    agent = agent_after(past, 250)
    assert agent.fit(past.over(window(290))).status == "ok"  # from sums all rounds cost the same


def test_after_a_log_a_fit_says_what_choices_earn_as_soon_as_it_can():
    """A log has chosen arms alone; with four context sets a direction is not only checked."""
    past = turned(n=420).over(window(290))
    known = agent_after(turned(n=420), 250).prediction
    assert known is not None
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.prediction, agent.theta = (
        Predictor.from_json(json.loads(json.dumps(known.to_json()))),
        THETA,
    )
    sets = {260 + i: np.eye(DIM) for i in range(4)}
    estimate = agent.fit(replace(past, sets=sets))
    assert (estimate.status, estimate.no_gain) == ("ok", None)
    del sets[260]
    assert agent.fit(replace(past, sets=sets)).status == "zero"
    agent.install(estimate)
    assert agent.prediction is not None
    assert agent.prediction.has_sets


@pytest.mark.parametrize("memory", [200, None])
def test_a_window_that_moves_is_looked_back_on_at_every_fit(memory):
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, memory=memory)
    agent.install(agent.fit(history(n=250).over(FitWindow(1, 51, 250, HORIZON, 250))))
    assert agent.fit(history(n=290).over(FitWindow(2, 91, 290, HORIZON, 290))).status == "ok"


def test_an_alarm_is_raised_only_beyond_what_the_draws_allow():
    past = history(n=200)
    agent = agent_after(past, 100)
    since = LaterRows.after(agent.prediction, align(agent.told(past)))
    sure = (np.tile(THETA, (8, 1)), np.tile(LAG_WEIGHTS, (8, 1)))
    unsure = (THETA + 0.6 * np.random.default_rng(0).standard_normal((8, DIM)), sure[1])
    wrong = Predictor.from_json({**agent.prediction.to_json(), "theta": [0.6, -0.2, 0.77]})
    errors = LaterRows.after(wrong, align(agent.told(past)))
    assert not since.check(lambda: sure)["alarm"]
    assert errors.check(lambda: sure)["alarm"]
    assert not errors.check(lambda: unsure)["alarm"]


@pytest.mark.parametrize(("lost", "stays"), [("all", True), ("sign", False)])
def test_where_rewards_are_lost_for_a_while_the_direction_stays(lost, stays, monkeypatch):
    """Rows without any signal speak for no other direction; those with another sign do."""
    past = history(n=400, seed=1)
    agent, part = agent_after(past, 300), past.trajectories["0"]
    value = part.measurements.value.copy()
    if lost == "all":
        value[320:] = 4.0
    else:
        value[320:] *= -1.0
    measured = replace(part.measurements, value=value)
    cut = replace(past, trajectories={"0": replace(part, measurements=measured)})
    estimate = agent.fit(cut.over(window(400)))
    assert estimate.diagnostics["alarm"]
    assert estimate.in_doubt
    assert (estimate.message == anytime_fit.LOST) == stays
    assert (estimate.theta is None) == stays
    if stays:  # rows that are all alike, since what looks like a turn
        monkeypatch.setattr(anytime_fit, "turned_since", lambda *arguments: 330)
        assert agent.fit(cut.over(window(400))).message == anytime_fit.LOST


@pytest.mark.parametrize(
    ("contexts", "rewards", "zero_start"),
    [(1e-180, 1.0, True), (1.0, 1e-180, True), (1.0, 1e-180, False)],
)
def test_what_was_found_at_another_size_is_compared_with_nothing(contexts, rewards, zero_start):
    """Squares of the old lag weights, or of the old noise, are no numbers in the new units."""
    past, is_late = history(n=160), np.arange(160) >= 80
    part = past.trajectories["0"]
    value = np.where(is_late, 1.0, rewards) * part.measurements.value
    xi = np.where(is_late, 1.0, contexts)[:, np.newaxis] * part.contexts
    part = replace(part, contexts=xi, measurements=replace(part.measurements, value=value))
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, zero_start=zero_start)
    past = replace(past, trajectories={"0": part})
    agent.install(agent.fit(past.over(FitWindow(1, 1, 80, HORIZON, 80))))
    assert agent.prediction is not None
    assert np.isfinite(agent.fit(past.over(window(160))).theta).all()


def test_a_chain_whose_evidence_is_no_number_is_not_drawn(monkeypatch):
    """One context far beyond the others leaves a matrix that is no covariance, by rounding."""
    monkeypatch.setattr(SmoothChains, "evidence", lambda chains: np.full(chains.n_chains, np.nan))
    agent = agent_after(history(n=160), 160)
    assert agent.prediction is not None
