"""A newcomer's toys: rewards without noise are fitted and decided by; nothing untrue is said."""

from typing import Any

import numpy as np
import pytest

from benchmarks.worlds import FixedArms, OneHot
from lhb_engine.agents import make_agent
from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from tests.examples import repeats

TRUE = {"features_alike", "never_differs"}  # of arms that never change


class WholeNumbers(FixedArms):
    """Rewards are rounded, which is no sum of what features pay."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        return np.rint(3.0 * super().rewards(signals, first))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (FixedArms, {"dim": 3, "horizon": 4, "sparsity": 4}),
        (WholeNumbers, {"dim": 3, "horizon": 4, "sparsity": 4}),
        *repeats(
            (OneHot, {"dim": 3, "horizon": 1, "sparsity": 1}),
            (FixedArms, {"dim": 1, "horizon": 1, "sparsity": 1}),
            (FixedArms, {"dim": 5, "horizon": 1, "sparsity": 1}),
            (LongHorizonEnvironment, {"dim": 3, "horizon": 4, "sparsity": 2}),
            (FixedArms, {"dim": 3, "horizon": 4, "sparsity": 2}),
        ),
    ],
)
def test_the_best_arm_is_played_and_nothing_untrue_is_said(
    kind: type[LongHorizonEnvironment], told: dict[str, Any]
) -> None:
    world = kind.draw(n_arms=4, noise=0.0, seed=0, **told)
    agent = make_agent("anytime", dim=world.dim, horizon=world.horizon)
    played = simulate(
        agent, world, n_rounds=300, seed=0, run_fit=lambda one, past: one.checked_fit(past)
    )
    assert played.regret[-1] - played.regret[-75] < 0.1
    if kind is not WholeNumbers:
        assert {one["code"] for one in played.estimates[-1].findings} <= TRUE
