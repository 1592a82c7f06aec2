"""Worlds that break an assumption each: correlated contexts, heavy tails, a baseline, a change.

Each is an environment whose contexts or rewards are made from the plain one's streams, so that it
keeps random access; what is measured of the rewards is a function for `simulate(measure=...)`.
"""

from typing import Literal

import numpy as np
from scipy.stats import t as student

from lhb_engine.history import Floats, Measurements
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment

_SHARED = 3  # a stream of its own
_MEMORY = 0.9
_REACH = 100  # 0.9^100 is beyond noise: contexts keep random access


class ContextsOverTime(LongHorizonEnvironment):
    """Each arm's context follows its last one: correlation 0.9 from round to round."""

    def contexts(self, first: int, last: int) -> Floats:
        """Moving sums of the plain contexts, with their variance."""
        start = max(1, first - _REACH)
        plain = super().contexts(start, last)
        out = np.zeros((last - first + 1, *plain.shape[1:]))
        offset = first - start
        for back in range(min(_REACH, last - 1) + 1):
            skip = max(0, back - offset)
            if skip < len(out):
                out[skip:] += _MEMORY**back * plain[offset + skip - back : len(plain) - back]
        return out * float(np.sqrt(1.0 - _MEMORY**2))


class ContextsAlike(LongHorizonEnvironment):
    """The arms of one round share half of their contexts' variance."""

    def contexts(self, first: int, last: int) -> Floats:
        """Plain contexts mixed with one that all arms of the round share."""
        shared = 2.0 * self._uniform(_SHARED, first, (last - first + 1, 1, self.dim)) - 1.0
        return np.asarray(float(np.sqrt(0.5)) * (super().contexts(first, last) + shared))


class HeavyTails(LongHorizonEnvironment):
    """Student noise with 3 degrees of freedom, of the same standard deviation."""

    def _errors(self, first: int, last: int) -> Floats:
        uniform = self._uniform(2, first, (last - first + 1,))
        return np.asarray(self.noise * student.ppf(uniform + 2.0**-54, 3) / np.sqrt(3.0))


class Baseline(LongHorizonEnvironment):
    """Every reward has ten times the signal's standard deviation added."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards and the baseline; under uniform play <x, theta> has variance 1/3."""
        level = 10.0 * float(np.linalg.norm(self.weights)) / np.sqrt(3.0)
        return np.asarray(super().rewards(signals, first) + level)


class Change(LongHorizonEnvironment):
    """From round `CHANGE` on the lag weights come in reverse order."""

    CHANGE = 1001

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards before the change, those of the reversed lag weights after it."""
        turned = LongHorizonEnvironment(
            self.theta, self.weights[::-1], n_arms=self.n_arms, noise=self.noise, seed=self.seed
        )
        rounds = np.arange(first, len(signals) + 1)
        before, after = super().rewards(signals, first), turned.rewards(signals, first)
        return np.asarray(np.where(rounds < self.CHANGE, before, after))


class Turn(LongHorizonEnvironment):
    """From round `TURN` on the numbers of theta come in reverse order."""

    TURN = 1001

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """<x, theta> of rounds first, first + 1, ... along the first axis of `contexts`."""
        turned = LongHorizonEnvironment(self.theta[::-1], self.weights, noise=0.0, seed=self.seed)
        rounds = np.arange(first, first + len(contexts)).reshape(-1, *[1] * (contexts.ndim - 2))
        before, after = super().signals(contexts), turned.signals(contexts)
        return np.asarray(np.where(rounds < self.TURN, before, after))


Kind = Literal["single", "missing", "sums"]


def measured(kind: Kind, rewards: Floats, seed: int) -> Measurements:
    """What is seen of the rewards of rounds 1..n: all, 70% of them, or sums over 7 rounds."""
    rounds = np.arange(1, len(rewards) + 1)
    if kind == "single":
        return Measurements.single(rounds, rewards)
    if kind == "missing":
        seen = np.array([Draw(seed, "", t).uniform("seen") < 0.7 for t in rounds.tolist()], bool)
        return Measurements.single(rounds[seen], rewards[seen])
    first = rounds[: len(rounds) // 7 * 7 : 7]
    return Measurements(first, first + 6, rewards[: 7 * len(first)].reshape(-1, 7).sum(axis=1))
