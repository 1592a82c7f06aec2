"""Messages that ask to walk (StepCountJITAI): each pays at once and tires those who get it.

An episode is a trajectory of at most 51 rounds. An arm is no message, one for everybody, or one for
either context; the package says how likely the second context is. Its latent habituation grows by
0.05 a message and fades by a tenth a round without one; a message pays (1 - habituation) of 50, or
200 where it fits the context. Too many that do not fit end the episode.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.other_worlds.one_session import OneSession
from lhb_engine.history import Floats

EPISODES, JUDGED = 80, 20
UNCERTAIN = 0.4  # the package's sigma of what is seen of the context
HORIZON = 24
CADENCES = (1, 2, 3, 4)  # rounds from one message to the next
DRAWN = 150  # linear policies, the best of which is played on other seeds
TOLD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("`anytime`", {}),
    ('`anytime`, `profiles: "each"`', {"profiles": "each"}),
    ("`anytime`, `repetition: 2`", {"repetition": 2}),
    ("`anytime`, both", {"profiles": "each", "repetition": 2}),
)
# an episode's number, its round and the probability of the second context, to an arm
Policy = Callable[[int, int, float], int]


def arms_of(second: float) -> Floats:
    """Return the contexts: a general message, one by context, and how surely either fits."""
    general, by_context = np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0])
    fits_first, fits_second = (
        np.array([0.0, 0.0, 1.0 - second, 0.0]),
        np.array([0.0, 0.0, 0.0, second]),
    )
    return np.column_stack([general, by_context, fits_first, fits_second])


def play(
    policy: Policy, seed: int, episodes: int, learn: Callable[..., None] | None
) -> list[float]:
    """Return the steps of each episode."""
    from StepCountJITAI.envs import StepCountJITAI

    world: Any = StepCountJITAI(UNCERTAIN, ["P"], seed=seed, b_display=False)
    earned = []
    for episode in range(episodes):
        (second,), _ = world.reset()
        total, round, done = 0.0, 0, False
        while not done:
            (second,), steps, done, *_ = world.step(policy(episode, round, float(second)))
            if learn is not None:
                learn(f"{episode:03d}", steps)
            total, round = total + steps, round + 1
        earned.append(total)
    return earned


def by_anytime(seed: int, **options: Any) -> float:
    """Return the mean steps of the last episodes of a session."""
    session = OneSession(4, HORIZON, seed, **options)

    def decide(episode: int, round: int, second: float) -> int:
        return session.decide(f"{episode:03d}", arms_of(second))

    return float(np.mean(play(decide, seed, EPISODES, session.reward)[-JUDGED:]))


def by_rule(policy: Policy, seed: int, episodes: int = EPISODES) -> float:
    """Return the mean steps of the last episodes by a fixed rule."""
    return float(np.mean(play(policy, seed, episodes, None)[-JUDGED:]))


def by_cadence(every: int, seed: int) -> float:
    """Return what a message for the likelier context earns, one every so many rounds."""
    return by_rule(lambda _, round, second: 0 if round % every else 2 + (second > 0.5), seed)


def best_linear(seed: int) -> Floats:
    """Return the theta, of many drawn, whose greedy choice earns most on a world of its own."""
    drawn = np.random.default_rng(seed).standard_normal((DRAWN, 4))
    other = 10_000 + seed
    earned = [by_rule(_greedy(theta), other, 6) for theta in drawn]
    return np.asarray(drawn[int(np.argmax(earned))])


def _greedy(theta: Floats) -> Policy:
    return lambda _, round, second: int((arms_of(second) @ theta).argmax())


def run(seeds: range) -> list[tuple[str, list[float]]]:
    """Return who plays, and what each earns on each seed."""
    chance = np.random.default_rng(seeds.start)
    best = best_linear(seeds.start)
    rows = [("chance", [by_rule(lambda *_: int(chance.integers(4)), seed) for seed in seeds])]
    rows += [
        (
            "a message every round" if k == 1 else f"a message every {k} rounds",
            [by_cadence(k, s) for s in seeds],
        )
        for k in CADENCES
    ]
    rows.append(("the best theta known", [by_rule(_greedy(best), seed) for seed in seeds]))
    rows += [(name, [by_anytime(seed, **told) for seed in seeds]) for name, told in TOLD]
    return rows
