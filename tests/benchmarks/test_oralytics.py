"""The trial of Oralytics: who decides when, and what an agent knows then, by a stand-in world."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import oralytics

N_WEEKS = 10


class World:
    """Its users brush for a second more each round; the app is opened on even days."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def generate_current_state(self, user: int, j: int) -> Any:
        self.asked.append((user, j))
        return np.array([j % 2, 0.0, 1.0])

    def get_user_last_open_app_dt(self, user: int) -> int:
        return self.asked[-1][1] // 4 * 4

    def generate_rewards(self, user: int, state: Any, action: int) -> float:
        return float(self.asked[-1][1])

    def update_responsiveness(self, user: int, *conditions: Any) -> None:
        assert conditions[-1] >= oralytics.WEEK


@pytest.fixture(name="trial")
def played(monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[Any], list[int]]:
    """A trial in which nobody gets a message: the world, the states and the weeks' users."""
    world, states, weeks = World(), [], []
    rewards = SimpleNamespace(
        get_b_bar_a_bar=lambda qualities, actions: (float(qualities[-1:].sum()), 0.0),
        normalize_b_bar=float,
        normalize_a_bar=float,
        calculate_reward=lambda quality, *rest: quality,
        **{f"calculate_{name}_condition": bool for name in ("a1", "a2", "b")},
    )
    simulator = SimpleNamespace(rewards=rewards, world=lambda scale, seed: world)
    policy = SimpleNamespace(
        act=lambda user, state: states.append((user, state.copy())) or 0,
        learn=lambda *row: None,
        end_week=weeks.append,
    )
    found = oralytics.play(simulator, "LOW_R", 0, policy)  # type: ignore[arg-type]
    assert found[7].tolist() == list(range(oralytics.ROUNDS))
    return world, states, weeks


def test_five_users_begin_every_other_week(trial: tuple[World, list[Any], list[int]]) -> None:
    """Each has all rounds, in order, and up to 25 are in the trial."""
    world, _, weeks = trial
    first = [user for user, j in world.asked if j == 0]
    assert first == list(range(oralytics.USERS))
    assert weeks[:4] == [5, 5, 10, 10]
    assert max(weeks) == 25
    assert len(weeks) == 2 * 13 + N_WEEKS


def test_an_agent_knows_what_the_app_last_said(trial: tuple[World, list[Any], list[int]]) -> None:
    """In the evening it lacks the morning; on a day without the app it has the last day's state."""
    _, states, _ = trial
    brushing = [state[1] for user, state in states if user == 3]
    opened = [state[3] for user, state in states if user == 3]
    assert brushing[4:10] == [3.0, 3.0, 3.0, 3.0, 7.0, 7.0]
    assert opened[4:8] == [1.0, 1.0, 0.0, 0.0]
