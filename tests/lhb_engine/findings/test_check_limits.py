"""Rewards that run into a limit, or bend, so that what is expected does not add up in them."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.worlds import Baseline
from lhb_engine.agents import make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.findings.check_limits import check_limits
from lhb_engine.findings.finding import Finding
from lhb_engine.history import FitWindow, Floats, History, Measurements, Trajectory
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.simulation.play import simulate
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401

N, THETA, WEIGHTS = 1000, np.array([0.6, 0.8, 0.0]), np.array([1.0, 0.5])
Measured = Callable[[Floats, np.random.Generator], Floats]


def found(measured: Measured, seed: int = 1, until: int = N) -> list[Finding]:
    """What is found where rewards up to a round are measured so of what is earned."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-0.6, 1.4, (N, 3))
    earned = np.convolve(contexts @ THETA, WEIGHTS)[:N]
    plain = earned + 0.3 * rng.standard_normal(N)
    rewards = np.where(np.arange(N) < until, measured(earned, rng), plain)
    rows = align(
        History(
            3, {"": Trajectory(contexts, Measurements.single(np.arange(1, N + 1), rewards))}
        ).over(FitWindow(1, 1, N, 2, N))
    )
    known = Predictor(WEIGHTS, THETA, 0.0, 0.3, N, True)
    return [*check_limits(rows, known.residuals(rows), known)]


def bent_choices(curve: Callable[[Floats], Floats], weights: Floats) -> list[Finding]:
    """What is found where each choice's own score bends, and least squares know the rest."""
    rng = np.random.default_rng(5)
    contexts = rng.uniform(-0.6, 1.4, (N, 3))
    rewards = np.convolve(curve(contexts @ THETA), weights)[:N] + 0.2 * rng.standard_normal(N)
    carried = [np.convolve(column, weights)[:N] for column in (*contexts.T, np.ones(N))]
    known = np.linalg.lstsq(np.column_stack(carried), rewards)[0]
    size = float(np.linalg.norm(known[:3]))
    measured = Measurements.single(np.arange(1, N + 1), rewards)
    history = History(3, {"": Trajectory(contexts, measured)})
    rows = align(history.over(FitWindow(1, 1, N, len(weights), N)))
    by = Predictor(weights * size, known[:3] / size, known[3], 0.2, N, True)
    return [*check_limits(rows, by.residuals(rows), by)]


@pytest.mark.parametrize("curve", [np.tanh, np.exp, lambda score: (score > 0.3).astype(float)])
def test_choices_whose_own_scores_bend_are_at_no_limit(curve: Callable[[Floats], Floats]) -> None:
    """Unless one lag pays: then nothing tells a curve of each from one of the sum."""
    assert not bent_choices(curve, WEIGHTS)
    assert not bent_choices(curve, np.full(3, 1 / 3))
    assert bent_choices(curve, np.array([0.0, 1.0]))


def noise(rng: np.random.Generator) -> Floats:
    return 0.3 * rng.standard_normal(N)


@pytest.mark.parametrize("share", [0.8, 0.95])
def test_rewards_that_are_cut_at_a_limit_are_counted(share: float) -> None:
    def cut(earned: Floats, rng: np.random.Generator) -> Floats:
        rewards = earned + noise(rng)
        return np.minimum(rewards, np.quantile(rewards, share))

    [one] = found(cut)
    assert one.code == "rewards_limited"
    assert one.message.startswith(f"{N - int(share * N)} of {N} rewards are equal to the largest")


@pytest.mark.parametrize(
    ("measured", "how"),
    [
        (lambda earned, rng: np.tanh(earned) + noise(rng), "less"),
        (lambda earned, rng: np.exp(earned) + noise(rng), "more"),
    ],
    ids=["tanh", "exp"],
)
def test_rewards_that_bend_are_found_where_both_halves_do(measured: Measured, how: str) -> None:
    [one] = found(measured)
    assert f"the {how} a further choice adds" in one.message
    assert not found(measured, until=N // 2)


@pytest.mark.parametrize(
    "measured",
    [
        lambda earned, rng: earned + noise(rng),
        lambda earned, rng: earned + 0.3 * rng.standard_t(3, N),
        lambda earned, rng: (rng.random(N) < 0.3 + 0.1 * earned).astype(float),
        lambda earned, rng: (rng.random(N) < 0.9 + 0.05 * earned).astype(float),
        lambda earned, rng: earned + 0.3 * (1.0 + np.abs(earned)) * rng.standard_normal(N),
        lambda earned, rng: np.clip(np.rint(3.0 + earned + noise(rng)), 1.0, 9.0),
        lambda earned, rng: np.where(rng.random(N) < 0.4 - 0.1 * earned, -rng.random(N), 0.0),
        lambda earned, rng: np.where(rng.random(N) < 0.3 + 0.1 * earned, 10.0, rng.random(N)),
    ],
    ids=[
        *("normal", "heavy tails", "clicks", "nearly always", "noise that grows", "few values"),
        *("costs of some", "one price, and little"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_straight_rewards_have_no_limit(measured: Measured, seed: int) -> None:
    assert not found(measured, seed)


class Capped(Baseline):
    """No reward is above what the best choices earn on average."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        top = 10.0 * float(np.linalg.norm(self.weights)) / np.sqrt(3.0) + 0.4
        return np.minimum(super().rewards(signals, first), top)


def test_no_gain_is_said_of_rewards_at_a_limit() -> None:
    world = Capped.draw(dim=3, horizon=4, n_arms=4, noise=0.1, sparsity=2, seed=1)
    agent = make_agent("anytime", dim=3, horizon=4)
    *_, last = simulate(
        agent, world, n_rounds=150, seed=1, run_fit=lambda one, past: one.checked_fit(past)
    ).estimates
    assert "rewards_limited" in [one["code"] for one in last.findings]
    assert (last.gain, last.no_gain) == (
        None,
        "Rewards run into a limit: what choices earn is not known.",
    )


def test_lag_profiles_are_checked_without_that_of_a_past_before_round_1() -> None:
    rng = np.random.default_rng(7)
    contexts = rng.uniform(-1, 1, (400, 2))
    rewards = np.convolve(contexts[:, 0], [1.0, 0.0, 0.5])[:400] + contexts[:, 1]
    measured = Measurements.single(np.arange(1, 401), rewards + 0.1 * rng.standard_normal(400))
    agent = make_agent("anytime", dim=2, horizon=3, profiles="each", zero_start=False)
    history = History(2, {"": Trajectory(contexts, measured)}).over(FitWindow(1, 1, 400, 3, 400))
    assert agent.checked_fit(history).status == "ok"
