"""Fits of sessions whose rounds have the sum of their values go on from kept sums."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.erase_trajectory import erase_trajectory
from service.commands.sessions import change_session
from tests.examples import on_one_database, repeats
from tests.lhb_engine.draw_little import seldom_fitted  # noqa: F401
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.fits.kept_rounds import DIM, World, low_limits, reopen, store  # noqa: F401
from tests.service.service_harness import ServiceHarness

MADE = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 10}
SUM = {**MADE, "reward_mode": "sum"}
SHARED = {"profiles": "shared"}  # sums of other forms are compared in test_kept_sums


class Sums(World):
    """Each reward comes in two parts, the second of them later."""

    def send(self, value: float, name: str, when: dict[str, int], told: dict[str, Any]) -> None:
        for share in (0.25, 0.75):
            self.harness.reward(share * value, name, **when, **told, reward_id=f"r{self.n_sent}")
            self.n_sent += 1

    def late(self, name: str, round: int) -> None:
        """One more value of a round."""
        self.send(0.5, name, {"round": round}, {})

    def correct(self, i: int) -> None:
        """Replace a part of the value that came `i`-th."""
        name, _ = self.rewarded[i]
        replaced, new = f"r{2 * i}", f"c{self.n}-{i}"
        self.harness.reward(0.5, name, replaces=replaced, reward_id=new)


class Defaults(World):
    """Some rewards are of two rounds."""

    def send(self, value: float, name: str, when: dict[str, int], told: dict[str, Any]) -> None:
        round = when["round"]
        if round % 5 == 0:
            return
        if round % 5 == 4 and len(self.chosen[name]) > round:
            when = {"first_round": round, "last_round": round + 1}
        super().send(value, name, when, told)

    def late(self, name: str, round: int) -> None:
        """The value of a round that counted by default."""
        self.send(0.5, name, {"round": round}, {})


@pytest.mark.parametrize(
    ("database_url", "names"),
    [("sqlite", ("", "a", "b")), *repeats(("sqlite", ("",)))],
    indirect=["database_url"],
)
def test_a_session_with_sums_of_values_lives_on_sums(
    harness: ServiceHarness, names: tuple[str, ...], database_url: str
) -> None:
    """Every fit equals that from all rows, after a late value and a void too; replay does."""
    options: dict[str, Any] = {"seasonality": [{"period": 12}]}
    if names != ("",):
        options = {"covariates": ["rain"]}
    harness.create(algorithm="anytime", **SUM, options={**options, **SHARED})
    world = Sums(harness, names, database_url)
    world.play(220)
    assert world.n_from_sums >= 4
    row = world.kept()
    assert row is not None
    assert row.n_settled >= 96
    assert row.n_settled % 16 == 0
    read: list[int] = harness.read  # type: ignore[attr-defined]
    assert max(read[-3:]) < 200
    n = world.n_from_sums
    world.late(names[-1], len(world.chosen[names[-1]]) - 1)
    world.void(names[-1], len(world.chosen[names[-1]]) - 4)
    world.ask()
    assert world.n_from_sums == n + 1  # the round is not settled yet
    world.late(names[-1], 2)
    world.ask()
    assert world.n_from_sums == n + 2  # the old row goes out of the sums, and the new one in
    world.void(names[-1], 7)
    world.ask()
    assert world.n_from_sums == n + 3  # so do those that a void changes
    harness.run(change_session(harness.key, {"reward_wait_seconds": 200.0}))
    world.late(names[-1], len(world.chosen[names[-1]]) - 1)
    world.ask()
    assert world.n_from_sums == n + 3  # settled rounds are open again
    harness.run(change_session(harness.key, {"reward_wait_seconds": 10.0}))
    world.play(40)
    world.ask()
    assert world.n_from_sums > n + 2
    assert world.replayed().estimates == world.n_fits


@pytest.mark.slow
@on_one_database
def test_a_session_with_default_rewards_lives_on_sums(
    harness: ServiceHarness, database_url: str
) -> None:
    names = ("", "a", "b")
    harness.create(algorithm="anytime", **MADE, default_reward=0.25, options=SHARED)
    world = Defaults(harness, names, database_url)
    world.play(220)
    n = world.n_from_sums
    assert n >= 4
    read: list[int] = harness.read  # type: ignore[attr-defined]
    assert max(read[-3:]) < 200
    begun = range(1, len(world.chosen[names[-1]]))
    missing = [r for r in begun if r % 5 and (names[-1], r) not in world.rewarded]
    for round in (missing[-1], missing[0]):
        world.late(names[-1], round)
        world.ask()
    assert world.n_from_sums == n + 2  # the second one takes a default out of the sums
    assert world.replayed().estimates == world.n_fits
    harness.run_large(erase_trajectory(harness.key, "a"))
    world.forget("a")
    world.play(60)
    assert world.n_from_sums > n + 3
    world.replayed()


class LongSpans(Defaults):
    """Some rewards are of two rounds, some of more than a level lasts."""

    def send(self, value: float, name: str, when: dict[str, int], told: dict[str, Any]) -> None:
        round = when["round"] % 40
        if round == 33:
            last = when["round"] - 1
            self.harness.reward(value, name, first_round=last - 11, last_round=last, **told)
        if not 21 <= round <= 32:
            super().send(value, name, when, told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zero_start", "settings", "world"),
    [
        (False, {**MADE, "default_reward": 0.25}, LongSpans),
        (True, {**SUM, "default_reward": 0.25}, Sums),
    ],
)
@on_one_database
def test_levels_of_rounds_that_time_closes_live_on_sums(
    harness: ServiceHarness,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    zero_start: bool,
    settings: dict[str, Any],
    world: type[World],
) -> None:
    """A level has the rows of spans that leave its rounds, and no default where spans enter."""
    have_sizes(monkeypatch, least_stretch=8, horizons=1)
    options = {"levels": True, "zero_start": zero_start, **SHARED}
    harness.create(algorithm="anytime", **settings, options=options)
    played = world(harness, ("", "a", "b"), database_url)
    played.play(180)
    assert played.n_from_sums >= 3
    assert played.replayed().estimates == played.n_fits


@pytest.mark.parametrize(
    ("settings", "world", "options"),
    [
        (SUM, Sums, {}),
        ({**MADE, "default_reward": 0.25}, Defaults, {"zero_start": False}),
        ({**MADE, "default_reward": 0.25}, LongSpans, {"levels": True}),
    ],
)
@on_one_database
def test_voids_of_rounds_that_time_closes_leave_the_sums(
    harness: ServiceHarness,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    world: type[World],
    options: dict[str, Any],
) -> None:
    """Of any age, beside late values, several between two decisions: fits go on from the sums."""
    have_sizes(monkeypatch, least_stretch=8, horizons=1)
    harness.create(algorithm="anytime", **settings, options={**options, **SHARED})
    played = world(harness, ("", "a"), database_url)
    played.play(150)
    rng, void = np.random.default_rng(8), set[tuple[str, int]]()
    n, n_fits = played.n_from_sums, played.n_fits
    for i in range(8):
        played.play(6)
        for name in ("", "a"):
            n_rounds = len(played.chosen[name])
            rounds = {int(r) for r in rng.integers(1, n_rounds, 2)} | {n_rounds - i}
            for round in rounds - {k for of, k in void if of == name}:
                void.add((name, round))
                played.void(name, round)
        with suppress(Problem):  # it has one already
            played.late("a", int(rng.integers(1, len(played.chosen["a"]))))
        with suppress(Problem):  # all of it is known
            played.ask()
    assert played.n_fits - n_fits >= 6
    # one may be after an alarm, since what is void here has paid
    assert played.n_from_sums - n >= played.n_fits - n_fits - 2
    played.replayed()


@pytest.mark.slow
@on_one_database
def test_a_fleet_whose_rounds_time_closes_lives_on_sums(
    harness: ServiceHarness, database_url: str
) -> None:
    """Fits look at the latest rounds of some trajectories."""
    harness.create(algorithm="anytime", **MADE, default_reward=0.25, options=SHARED)
    played = Defaults(harness, tuple(f"u{i:02}" for i in range(40)), database_url)
    played.play(240)
    assert played.n_from_sums >= 3
    assert played.replayed().estimates == played.n_fits


@pytest.mark.parametrize(
    ("database_url", "settings", "world", "has_levels"),
    [
        ("sqlite", {**MADE, "default_reward": 0.25}, Defaults, True),
        *repeats(
            ("sqlite", {**SUM, "default_reward": 0.25}, Sums, True),
            ("postgres", SUM, Sums, False),
        ),
    ],
    indirect=["database_url"],
)
def test_late_values_and_corrections_go_into_sums(
    harness: ServiceHarness,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    world: type[World],
    has_levels: bool,
) -> None:
    """No fit adds all rows anew, and each equals that from all rows; so do replays."""
    have_sizes(monkeypatch, least_stretch=8, horizons=1)
    harness.create(algorithm="anytime", **settings, options={"levels": has_levels, **SHARED})
    played = world(harness, ("", "a", "b"), database_url)
    played.play(170)
    n = played.n_fits - played.n_from_sums
    single = [i for i, (_, round) in enumerate(played.rewarded) if round % 5 in (1, 2, 3)]
    for i in range(4):
        played.correct(single[i % 3])  # some more than once
        missing = [r for r in range(2, 40) if r % 5 and ("a", r) not in played.rewarded]
        if missing:
            played.late("a", missing[0])
            played.rewarded.append(("a", missing[0]))
        played.ask()
        played.correct(single[4 + i])
        played.play(20)
    assert played.n_fits - played.n_from_sums == n
    assert played.replayed().estimates == played.n_fits
