"""An application that ran before round 1: what `anytime` finds, says and decides."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import OptionError, make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.presample import with_presample
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.rank_one_posterior import expected_presample
from tests.lhb_engine.played_histories import (
    DIM,
    HORIZON,
    LAG_WEIGHTS,
    THETA,
    history,
    rewards_of,
)

OFFSET = 3.0  # of all contexts


def running(n=120, n_parts=1, seed=0, spans=(), presample=True):
    """A history whose contexts have mean 3, before round 1 as after."""
    found = history(n=n, n_parts=n_parts, seed=seed, spans=spans)
    rng, parts = np.random.default_rng(seed + 1), {}
    for key, part in found.trajectories.items():
        contexts, m = part.contexts + OFFSET, part.measurements
        before = rng.uniform(-0.1, 0.1, (HORIZON, DIM)) + OFFSET
        whole = np.concatenate([before, contexts]) if presample else contexts
        rewards = rewards_of(whole)[-n:] + 0.05 * rng.standard_normal(n)
        value = np.add.reduceat(rewards, m.first - 1)
        parts[key] = replace(part, contexts=contexts, measurements=replace(m, value=value))
    return replace(found, trajectories=parts)


def agent(**options):
    return make_agent("anytime", dim=DIM, horizon=HORIZON, **options)


@pytest.mark.parametrize(
    "shape", [{}, {"n": 15, "n_parts": 20}, {"n": 400, "spans": (1, 2)}, {"n": 600}], ids=str
)
def test_what_was_chosen_before_round_1_is_found(shape):
    past = running(**shape)
    estimate = agent(zero_start=False).fit(past)
    assert estimate.theta @ THETA > 0.999
    assert estimate.theta.shape == (DIM,)
    assert set(estimate.active_lags) == {2, 7}
    np.testing.assert_allclose(estimate.lag_weights, LAG_WEIGHTS, atol=0.06)
    score = estimate.diagnostics["score_before"]
    assert score == pytest.approx(OFFSET * THETA.sum(), abs=0.1)
    told, assumed = (abs(1 - e.theta @ THETA) for e in (estimate, agent().fit(past)))
    assert told < 1e-3
    if shape.get("n_parts"):
        assert assumed > 2 * told


def test_the_presample_is_first_taken_to_be_like_what_came_since():
    # 10 rows of 12 lags: with a prior about 0 the mean cosine is 0.74
    found = [agent(zero_start=False).fit(running(n=10, seed=10 * i)) for i in range(8)]
    assert np.mean([estimate.theta @ THETA for estimate in found]) > 0.9


def test_where_nothing_was_chosen_before_nothing_is_lost():
    past = running(presample=False)
    shared = {"profiles": "shared"}  # of few rows, theta's intervals are these alone
    free, plain = agent(zero_start=False, **shared).fit(past), agent(**shared).fit(past)
    assert free.diagnostics["score_before"] == pytest.approx(0.0, abs=0.05)
    assert "score_before" not in plain.diagnostics
    for estimate in (free, plain):
        assert estimate.theta @ THETA > 0.999
    of_all_lags = agent(zero_start=False).fit(running(n=200)).intervals
    assert "drawn" not in of_all_lags
    widths = [np.ptp(e.intervals["theta"], axis=1) for e in (free, plain)]
    # small first rewards tell of theta only where it is known that nothing came before
    assert (widths[0] < 2 * widths[1]).all()
    assert (widths[0] > 0.9 * widths[1]).all()


def test_later_fits_go_on_from_it():
    past, found = running(n=500), agent(zero_start=False)
    for due in (120, 200, 320, 500):
        window = FitWindow(1, 1, due, HORIZON, due)
        estimate = found.checked_fit(past.over(window))
        found.install(estimate)
        assert not estimate.diagnostics.get("alarm", False)
    assert estimate.findings == []
    assert found.theta.shape == (DIM,)
    assert found.prediction.theta.shape == (DIM + 1,)
    again = type(found).from_state(DIM, HORIZON, found.options, found.state())
    window = FitWindow(1, 1, 500, HORIZON, 500)
    assert again.fit(past.over(window)).to_json() == found.fit(past.over(window)).to_json()
    memory = agent(zero_start=False, memory=200, profiles="shared")
    memory.install(memory.fit(past.over(window)))
    late = FitWindow(2, 301, 500, HORIZON, 500)
    estimate = memory.fit(past.over(late))
    assert estimate.theta @ THETA > 0.999
    assert "drawn" not in estimate.intervals


def test_units_change_nothing_but_the_score():
    past = running()
    [part] = past.trajectories.values()
    larger = replace(part, contexts=part.contexts * 2.0**20)
    plain = agent(zero_start=False).fit(past)
    scaled = agent(zero_start=False).fit(replace(past, trajectories={"0": larger}))
    np.testing.assert_allclose(plain.theta, scaled.theta, atol=1e-9)
    scores = [e.diagnostics["score_before"] for e in (plain, scaled)]
    assert scores[1] == pytest.approx(scores[0] * 2.0**20, rel=1e-6)


def test_levels_and_a_presample_together():
    past = running(n=20, n_parts=60)
    drawn = np.random.default_rng(0).normal(0, 3, 60)
    parts = {}
    for (key, part), level in zip(past.trajectories.items(), drawn, strict=True):
        m = part.measurements
        parts[key] = replace(part, measurements=replace(m, value=m.value + level))
    estimate = agent(zero_start=False, levels=True).fit(replace(past, trajectories=parts))
    assert estimate.theta @ THETA > 0.999
    low, high = estimate.levels["interval"]
    assert low < drawn.std() < high


def test_arms_that_never_change_are_drawn_without_the_presample():
    past = running(n=200)
    [part] = past.trajectories.values()
    fixed = np.repeat(part.contexts[:1], 200, axis=0)
    fixed[:20] = part.contexts[:20]
    estimate = agent(zero_start=False).fit(
        replace(past, trajectories={"0": replace(part, contexts=fixed)})
    )
    assert estimate.candidates is None or estimate.candidates.shape[1] == DIM


def test_a_wrong_start_is_named():
    with pytest.raises(OptionError) as refused:
        agent(zero_start=0)
    assert refused.value.option == "zero_start"


def test_a_presample_is_expected_at_the_mean_of_the_contexts():
    """In units of the feature that stands for it, with the contexts' spread about that mean."""
    contexts = np.random.default_rng(0).uniform(-1, 1, (400, DIM)) + OFFSET
    part = Trajectory(contexts, Measurements.single(np.arange(1, 401), np.ones(400)))
    window = FitWindow(1, 1, 400, HORIZON, 400)
    rows = align(with_presample(History(DIM, {"": part}).over(window)))
    found = expected_presample(rows, 2.0)
    np.testing.assert_allclose(found.share, contexts.mean(axis=0) / 2.0, rtol=1e-6)
    np.testing.assert_allclose(found.spread, contexts.std(axis=0), rtol=1e-6)
