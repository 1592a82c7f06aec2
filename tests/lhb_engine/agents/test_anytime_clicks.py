"""Clicks have a baseline: what they are on average is no sign of a good direction."""

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, Floats, History, Measurements, Trajectory

N = 300


def estimate(rewards: Floats, seed: int, profiles: str) -> Estimate:
    """Return the fit of rounds in which the first feature was chosen high, as by a direction."""
    contexts = np.array([0.6, 0.0]) + 0.2 * np.random.default_rng(seed).uniform(-1, 1, (N, 2))
    rounds = Trajectory(contexts, Measurements.single(np.arange(1, N + 1), rewards))
    history = History(2, {"": rounds}).over(FitWindow(1, 1, N, 6, N))
    return make_agent("anytime", dim=2, horizon=6, profiles=profiles).fit(history)


def clicks(seed: int) -> Floats:
    return (np.random.default_rng([seed, 1]).random(N) < 0.03).astype(np.float64)


@pytest.mark.parametrize("profiles", ["shared", "each"])
def test_clicks_always_have_a_baseline_and_other_rewards_by_evidence(profiles: str) -> None:
    always = estimate(clicks(1), 1, profiles).diagnostics["baseline_probability"]
    assert always == pytest.approx(1.0)
    noise = np.random.default_rng(2).standard_normal(N)
    assert estimate(noise, 2, profiles).diagnostics["baseline_probability"] < 0.9


def test_clicks_that_nothing_brings_speak_for_no_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a baseline their mean is what the chosen feature earned, and stays chosen for."""
    seeds = range(8)

    def along() -> float:
        thetas = [estimate(clicks(seed), seed, "shared").theta for seed in seeds]
        return float(np.mean([theta[0] for theta in thetas if theta is not None]))

    with_baseline = along()
    monkeypatch.setattr("lhb_engine.agents.anytime_fit.are_repeated", lambda rows: False)
    assert with_baseline < along() - 0.2
