"""Choices that pay less, or more, for what was chosen before them."""

import numpy as np
import pytest

from benchmarks.worlds import Tires
from lhb_engine.agents import make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.estimate import Estimate
from lhb_engine.findings.check_scores import check_repetition
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.simulation.play import simulate
from tests.examples import repeats
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401


class Binds(Tires):
    """What people have had often pays more."""

    BY_REPETITION = 1.5


class Plain(Tires):
    """What people have had does not matter."""

    BY_REPETITION = 0.0


def fits(kind: type[Tires], seed: int) -> list[Estimate]:
    """Return the fits of a run from round 100 on that have a direction, with their findings."""
    world = kind.draw(dim=3, horizon=8, n_arms=4, noise=0.2, sparsity=2, seed=seed)
    agent = make_agent("anytime", dim=3, horizon=8)
    made = simulate(
        agent, world, n_rounds=500, seed=seed, run_fit=lambda one, past: one.checked_fit(past)
    ).estimates
    return [one for one in made if one.theta is not None and one.last_round > 100]


@pytest.mark.parametrize("seed", [1, *repeats(2, 3)])
@pytest.mark.parametrize(("kind", "pays"), [(Tires, "less"), (Binds, "more")])
def test_what_was_chosen_lately_is_found_and_no_gain_is_said(
    kind: type[Tires], pays: str, seed: int
) -> None:
    doubted = [one for one in fits(kind, seed) if "repetition" in codes(one)]
    assert len(doubted) > 1
    for one in doubted:
        [found] = [found for found in one.findings if found["code"] == "repetition"]
        assert f"pays {pays}" in found["message"]
        assert not codes(one) & {"trend", "horizon_short"}  # which repetition looks like
        assert one.in_doubt
        assert (one.gain, one.totals, one.intervals) == (None, None, None)
        assert one.no_totals == one.no_intervals == one.message == one.no_gain
        assert one.diagnostics["angle"] is None


def codes(estimate: Estimate) -> set[str]:
    """Return the codes of an estimate's findings."""
    return {found["code"] for found in estimate.findings}


@pytest.mark.parametrize(("until", "is_found"), [(800, True), (350, False)])
def test_it_shows_in_both_halves_of_the_rows(until: int, is_found: bool) -> None:
    """What acts early alone, as while an agent explores, is something else."""
    rng, theta, n = np.random.default_rng(5), np.array([0.6, 0.8, 0.0]), 800
    contexts, lately, paid = rng.uniform(-1.0, 1.0, (n, 3)), np.zeros(3), np.zeros(n)
    for t, context in enumerate(contexts):
        paid[t] = context @ theta - 1.5 * (t < until) * (context @ lately)
        lately += (context - lately) / 5
    rewards = paid + 0.1 * rng.standard_normal(n)
    known = Predictor(np.array([1.0]), theta, 0.0, 0.1, n, True)
    measured = Measurements.single(np.arange(1, n + 1), rewards)
    rows = align(History(3, {"": Trajectory(contexts, measured)}).over(FitWindow(1, 1, n, 1, n)))
    found = [*check_repetition(rows, known.residuals(rows), known)]
    assert [one.code for one in found] == ["repetition"] * is_found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_where_it_does_not_matter_nothing_is_found(seed: int) -> None:
    assert not any("repetition" in codes(one) for one in fits(Plain, seed))
