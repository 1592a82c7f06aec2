"""What an estimate expects of a measurement, by the definition."""

import numpy as np

from lhb_engine.evaluation.credit import covariates_of, expected_rewards
from lhb_engine.history import Measurements, Trajectory


def test_effects_are_those_of_the_rounds_or_of_what_came_with_the_reward():
    rng = np.random.default_rng(0)
    contexts, told = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    theta, weights, effects = np.array([0.5, 1.0, -2.0]), np.array([1.0, 0.0, 0.5]), [2.0, -3.0]
    own = np.array([[np.nan, np.nan], [7.0, np.nan], [np.nan, np.nan]])
    first, last = np.array([5, 7, 10]), np.array([6, 9, 10])
    measured = Measurements(first, last, np.zeros(3), covariates=own)
    part = Trajectory(contexts, measured, first_round=3, covariates=told)
    actions, beside = expected_rewards(part, theta, weights), covariates_of(part) @ effects
    for i, rounds in enumerate(([5, 6], [7, 8, 9], [10])):
        paid = moved = 0.0
        for t in rounds:
            moved += told[t - 3] @ effects
            paid += contexts[t - 3] @ theta + 0.5 * contexts[t - 5] @ theta
        if i == 1:
            moved += 2.0 * (7.0 - sum(told[t - 3, 0] for t in rounds))
        np.testing.assert_allclose([actions[i], beside[i]], [paid, moved])
    profiles = np.outer(weights, theta)
    np.testing.assert_allclose(expected_rewards(part, theta, profiles), actions)
