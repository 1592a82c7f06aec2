"""Whatever a session lived through, its file describes the same session and the same schedule."""

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from tests.examples import repeats
from tests.service.commands.slots import CLOCK, between
from tests.service.service_harness import OK, ZERO, ServiceHarness
from tests.service.transfer.test_import_forgeries import checked, exported

START, SECONDS = 960.0, 3  # of slots
OF_ALL = {**CLOCK, "slot_seconds": SECONDS}
MODES: list[dict[str, Any]] = [
    {"reward_wait_seconds": 5.0},
    {"reward_wait_seconds": 6.0, "default_reward": 0.5},
    {"reward_wait_seconds": 6.0, "reward_mode": "sum"},
    {"clock": OF_ALL},
    {"clock": {**OF_ALL, "totals": "trajectory"}},
    {"clock": OF_ALL, "reward_wait_seconds": 8.0},
]
OPTIONS: list[dict[str, Any]] = [
    *({"levels": True}, {"levels": False}, {"memory": 20}, {"memory": None}, {"epsilon": 0.2}),
    *({"profiles": "shared"}, {"most_stale": 0.3}),
]


class Story:
    """Random commands; those that are refused change nothing."""

    def __init__(self, path: Path, mode: dict[str, Any], seed: int) -> None:
        self.rng, self.harness = random.Random(seed), ServiceHarness(path)
        self.harness.create(algorithm="anytime", **mode)
        self.has_clock = "clock" in mode
        self.n_rounds, self.n_ids = Counter[str](), 0
        self.kinds = [self.decide] * 10 + [self.reward] * 6 + [self.finish, self.harness.tick] * 2
        self.kinds += [self.void, self.ask]
        if not self.has_clock or "reward_wait_seconds" not in mode:
            # else no record says what came first, a change or a total, and who began an erased slot
            self.kinds += [self.erase, self.change]

    def step(self) -> None:
        self.harness.now += self.rng.choice([0.3, 1.0, 3.0, 9.0])
        with suppress(Problem):
            self.rng.choice(self.kinds)()

    def decide(self) -> None:
        name = self.rng.choice(["", "a", "b"])
        self.n_rounds[name] = self.harness.decide(name).round

    def reward(self) -> None:
        rng, name = self.rng, self.rng.choice(["", "a", "b"])
        self.n_ids += 1
        if self.has_clock:
            slot = int((self.harness.now - START) // SECONDS)
            first = START + SECONDS * (slot - rng.randrange(1, 5))
            when = between(first, first + SECONDS * rng.choice([1, 1, 2]))
        else:
            when = {"round": max(1, self.n_rounds[name] - rng.randrange(5))}
        self.harness.reward(1.0, name, reward_id=f"r{self.n_ids}", **when)

    def finish(self) -> None:
        due = self.harness.session.fit_due
        if due is not None:
            self.harness.finish(due, self.rng.choice([OK, OK, ZERO, None]))

    def change(self) -> None:
        changes = {"options": self.rng.choice(OPTIONS)}
        self.harness.run(change_session(self.harness.key, changes))

    def ask(self) -> None:
        self.harness.run(ask_fit(self.harness.key, self.harness.agents))

    def void(self) -> None:
        number, harness = self.rng.randrange(1, 9), self.harness
        harness.run(void_decision(harness.key, "", f"~{number}", harness.agents))

    def erase(self) -> None:
        name = self.rng.choice("ab")
        self.harness.run_large(erase_trajectory(self.harness.key, name))
        del self.n_rounds[name]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("seed", [*range(2), *repeats(*range(2, 12))])
def test_every_story_is_imported_as_it_was_lived(
    tmp_path: Path, mode: dict[str, Any], seed: int
) -> None:
    story = Story(tmp_path, mode, seed)
    for step in range(70):
        story.step()
        if step % 5 == 4:
            assert checked(exported(story.harness)) == story.harness.session
    story.harness.close()
