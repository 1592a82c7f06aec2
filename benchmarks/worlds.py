"""Worlds that benchmarks play: each breaks one assumption, or tells the agent something more.

Their contexts and rewards are made from the plain environment's streams, so they keep random
access. `measured` is for `simulate(measure=...)`: which rewards are seen.
"""

from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from benchmarks.other_worlds.one_session import OneSession
from lhb_engine.design.products import Products
from lhb_engine.history import Floats, Ints, Measurements
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment, Weather

_SHARED, _DISTURBANCE, _CAME, _BEFORE, _CURVED = 3, 4, 5, 7, 9  # numbers of their streams
_OFFERS = 10
_MEMORY = 0.9
_REACH = 100  # 0.9^100 is negligible; a finite sum keeps random access


def turned(theta: Floats, angle: Floats | float) -> Floats:
    """Return a vector turned towards the first axis, (dim,), or a row for each of many angles."""
    aside = np.zeros(len(theta))
    aside[0] = 1.0
    aside -= float(aside @ theta) * theta
    aside /= np.linalg.norm(aside)
    outer = np.multiply.outer
    return np.asarray(outer(np.cos(angle), theta) + outer(np.sin(angle), aside))


def _by_round(contexts: Floats, theta: Floats) -> Floats:
    """Return <x, theta> where each round has its own theta, (n, dim), in one order of additions."""
    out = np.zeros(contexts.shape[:-1])
    for i in range(theta.shape[1]):
        out += contexts[..., i] * theta[:, i].reshape(-1, *[1] * (contexts.ndim - 2))
    return out


class ContextsOverTime(LongHorizonEnvironment):
    """Each arm's contexts are autocorrelated: 0.9 from round to round."""

    def contexts(self, first: int, last: int) -> Floats:
        """Return moving sums of the plain contexts, with the same variance."""
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
        """Mix plain contexts with one that all arms of the round share."""
        own = super().contexts(first, last)
        return np.asarray(float(np.sqrt(0.5)) * (own + self._shared(first, last)))

    def _shared(self, first: int, last: int) -> Floats:
        return 2.0 * self._uniform(_SHARED, first, (last - first + 1, 1, self.dim)) - 1.0


class SharedWithRewards(ContextsAlike):
    """What the arms share lowers rewards, by itself, by three times what choosing it adds.

    So is a discount that all arms have on days when little is sold.
    """

    BY_ITSELF = -3.0

    def errors(self, first: int, last: int) -> Floats:
        """Return the noise, and what goes with the shared contexts."""
        shared = float(np.sqrt(0.5)) * self._shared(first, last)[:, 0]
        return np.asarray(super().errors(first, last) + self.BY_ITSELF * self.signals(shared))


class ArmsAlike(LongHorizonEnvironment):
    """The arms of one round have the same contexts in the first `alike` features; None: in all."""

    alike: int | None = None

    def contexts(self, first: int, last: int) -> Floats:
        """Return plain contexts with features of the first arm in place of the others'."""
        found = super().contexts(first, last)
        found[:, :, : self.alike] = found[:, :1, : self.alike]
        return found


class OneAlike(ArmsAlike):
    """The first feature is that of the round, as whether it is a weekend."""

    alike = 1


class FixedArms(LongHorizonEnvironment):
    """The arms' contexts are those of round 1 in every round."""

    def contexts(self, first: int, last: int) -> Floats:
        """Return the same contexts for every round."""
        return np.repeat(super().contexts(1, 1), last - first + 1, axis=0)


class OneHot(LongHorizonEnvironment):
    """Every arm is a feature of its own: the context of arm a has 1 at feature a, else 0."""

    def contexts(self, first: int, last: int) -> Floats:
        """Return the same contexts for every round; arm a is feature a modulo dim."""
        arms = np.eye(self.dim)[np.arange(self.n_arms) % self.dim]
        return np.repeat(arms[np.newaxis], last - first + 1, axis=0)


class HeavyTails(LongHorizonEnvironment):
    """Student noise with 3 degrees of freedom, of the same standard deviation."""

    def errors(self, first: int, last: int) -> Floats:
        """Return the noise of rounds first..last, (last - first + 1,)."""
        uniform = self._uniform(2, first, (last - first + 1,))
        return np.asarray(self.noise * student.ppf(uniform + 2.0**-54, 3) / np.sqrt(3.0))


class Rare(LongHorizonEnvironment):
    """A reward is 1 in about 3% of the rounds, more often after good choices, and 0 in others."""

    SHARE = 0.03

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Return 0 or 1 for each round."""
        pays = np.convolve(signals, self.weights)[first - 1 : len(signals)] / self.weights.sum()
        chance = np.clip(self.SHARE * (1.0 + pays), 0.0, 1.0)
        return np.asarray(self._uniform(2, first, (len(pays),)) < chance, dtype=np.float64)


class Baseline(LongHorizonEnvironment):
    """Every reward has a baseline of ten standard deviations of the signal."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Add the baseline to plain rewards; under uniform play <x, theta> has variance 1/3."""
        added = 10.0 * float(np.linalg.norm(self.weights)) / np.sqrt(3.0)
        return np.asarray(super().rewards(signals, first) + added)


class Change(LongHorizonEnvironment):
    """From round `CHANGE` on the lag weights are reversed."""

    CHANGE = 1001

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Return plain rewards before the change, those of reversed lag weights after it."""
        turned = LongHorizonEnvironment(
            self.theta, self.weights[::-1], n_arms=self.n_arms, noise=self.noise, seed=self.seed
        )
        rounds = np.arange(first, len(signals) + 1)
        before, after = super().rewards(signals, first), turned.rewards(signals, first)
        return np.asarray(np.where(rounds < self.CHANGE, before, after))


class Turn(LongHorizonEnvironment):
    """From round `TURN` on the entries of theta are reversed."""

    TURN = 1001

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """Compute <x, theta> of rounds first, first + 1, ... along the first axis."""
        turned = LongHorizonEnvironment(self.theta[::-1], self.weights, noise=0.0, seed=self.seed)
        rounds = np.arange(first, first + len(contexts)).reshape(-1, *[1] * (contexts.ndim - 2))
        before, after = super().signals(contexts), turned.signals(contexts)
        return np.asarray(np.where(rounds < self.TURN, before, after))


class SmallTurn(LongHorizonEnvironment):
    """Theta turns by 30 degrees at round `TURN`."""

    TURN = 1001

    def theta_at(self, rounds: Ints) -> Floats:
        """Return theta of each round, (n,) -> (n, dim)."""
        return np.where(
            np.asarray(rounds)[:, None] < self.TURN, self.theta, turned(self.theta, np.pi / 6)
        )

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """Return <x, theta> of rounds first, first + 1, ... along the first axis of `contexts`."""
        return _by_round(contexts, self.theta_at(np.arange(first, first + len(contexts))))


class OneNegative(LongHorizonEnvironment):
    """The first lag weight that is not 0 is negative, half as large as the others together."""

    @classmethod
    def draw(cls, **truth: Any) -> Self:
        """Draw a plain world, and turn the sign of one lag."""
        world = super().draw(**truth)
        first = np.flatnonzero(world.weights)[0]
        world.weights[first] = -0.5 * np.delete(world.weights, first).sum()
        return world


class NoiseGrows(LongHorizonEnvironment):
    """The noise of a reward is half as large as what is expected of the reward, and 0.05."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards with such noise."""
        errors = self.errors(first, len(signals)) / self.noise
        expected = super().rewards(signals, first) - self.errors(first, len(signals))
        return np.asarray(expected + errors * (0.05 + 0.5 * np.abs(expected)))


class Interactions(LongHorizonEnvironment):
    """Half of the scores' variance is that of products of two features, of all pairs."""

    def products(self) -> dict[tuple[int, int], float]:
        """Return what products pay, each of variance 1/9."""
        drawn = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_CURVED,)))
        pairs = [(i, j) for i in range(self.dim) for j in range(i + 1, self.dim)]
        by = drawn.standard_normal(len(pairs))
        by *= np.sqrt(1.5) / np.linalg.norm(by)
        return dict(zip(pairs, by.tolist(), strict=True))

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """Add products to half of the plain scores' variance of 1/3."""
        out = np.sqrt(0.5) * super().signals(contexts)
        for (i, j), pays in self.products().items():
            out = out + pays * contexts[..., i] * contexts[..., j]
        return np.asarray(out)

    def coefficients(self, products: Products) -> Floats:
        """Return what features pay, and products."""
        told = self.products()
        return np.append(np.sqrt(0.5) * self.theta, [told.get(pair, 0.0) for pair in products])


class Tires(LongHorizonEnvironment):
    """A choice pays the less, the more of the same the ten rounds before it had."""

    BY_REPETITION = -1.5

    def carried(self, contexts: Floats, signals: Floats) -> Floats:
        """Return the scores, and the contexts, (n, 1 + dim)."""
        return np.column_stack([signals, contexts])

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards of scores less what repetition takes."""
        paid, lately = signals[:, 0].copy(), np.zeros(self.dim)
        for t, context in enumerate(signals[:, 1:]):
            paid[t] += self.BY_REPETITION * (context @ lately)
            lately += 0.1 * (context - lately)
        return super().rewards(paid, first)


class Depletes(LongHorizonEnvironment):
    """The chosen arm leaves the offers, and another one comes: the better was taken, the worse."""

    def replaced(self, t: int, arm: int) -> int:
        """Return which arm another one takes the place of."""
        return arm

    def play(self, session: OneSession, n_rounds: int) -> Floats:
        """Let a session decide, and return what is paid for each round, (n_rounds,)."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_OFFERS,)))
        offers = rng.uniform(-1.0, 1.0, (self.n_arms, self.dim))
        paid, rewards = np.zeros(n_rounds), np.zeros(n_rounds + len(self.weights))
        for t in range(n_rounds):
            arm = session.decide("", offers)
            paid[t] = offers[arm] @ self.theta
            rewards[t : t + len(self.weights)] += self.weights * paid[t]
            session.reward("", float(rewards[t] + self.noise * rng.standard_normal()))
            offers = offers.copy()
            offers[self.replaced(t, arm)] = rng.uniform(-1.0, 1.0, self.dim)
        return paid


class Rotates(Depletes):
    """Offers come and go by turns, whatever is chosen."""

    def replaced(self, t: int, arm: int) -> int:
        """Return the oldest arm."""
        return t % self.n_arms


class Activity(Depletes):
    """Choices move an activity that lasts, and is told: at once they pay half of its contrary."""

    def moves(self, score: float) -> float:
        """Return what a choice adds to the activity."""
        return 0.3 * score

    def play(self, session: OneSession, n_rounds: int) -> Floats:
        """Let a session decide, and return what is paid in all for each round, (n_rounds,)."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_OFFERS,)))
        paid, activity = np.zeros(n_rounds), 0.0
        for t in range(n_rounds):
            offers = rng.uniform(-1.0, 1.0, (self.n_arms, self.dim))
            arm = session.decide("", offers, (activity,))
            paid[t] = offers[arm] @ self.theta
            at_once = activity - 0.5 * paid[t]
            session.reward("", float(at_once + self.noise * rng.standard_normal()))
            activity = 0.8 * activity + self.moves(float(paid[t])) + 0.2 * rng.standard_normal()
        return paid


class ActivityByItself(Activity):
    """The activity goes up and down, whatever is chosen."""

    def moves(self, score: float) -> float:
        """Return nothing."""
        return 0.0


class IdealPoint(LongHorizonEnvironment):
    """An arm pays the less, the further its context is from one point."""

    def ideal(self) -> Floats:
        """Return the point, (dim,)."""
        drawn = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_CURVED,)))
        return drawn.uniform(-0.5, 0.5, self.dim)

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """Return the square of the distance, with a minus."""
        out = np.zeros(contexts.shape[:-1])
        for i, ideal in enumerate(self.ideal()):
            out = out - (contexts[..., i] - ideal) ** 2
        return out

    def coefficients(self, products: Products) -> Floats:
        """Return what features pay, and products: squares alone."""
        return np.append(2.0 * self.ideal(), [-float(i == j) for i, j in products])


class Plateau(LongHorizonEnvironment):
    """The first `sparsity` lags have equal weights."""

    @classmethod
    def weights_of(cls, horizon: int, sparsity: int) -> Floats:
        """Return the lag weights, (horizon,), before they are normalised."""
        return np.asarray(np.arange(horizon) < sparsity, dtype=np.float64)

    @classmethod
    def draw(cls, *, horizon: int, sparsity: int = 5, **truth: Any) -> Self:
        """Draw a world whose lag weights are these."""
        world = super().draw(horizon=horizon, sparsity=1, **truth)
        weights = cls.weights_of(horizon, sparsity)
        return cls(
            world.theta,
            weights / abs(weights.sum()),
            n_arms=world.n_arms,
            noise=world.noise,
            seed=world.seed,
        )


class Exponential(Plateau):
    """Each lag has 0.9 of the weight of the one before it."""

    @classmethod
    def weights_of(cls, horizon: int, sparsity: int) -> Floats:
        """Return the lag weights, (horizon,), before they are normalised."""
        return np.asarray(0.9 ** np.arange(horizon))


class Geometric(Plateau):
    """Each lag has 0.7 of the weight of the one before it."""

    @classmethod
    def weights_of(cls, horizon: int, sparsity: int) -> Floats:
        """Return the lag weights, (horizon,), before they are normalised."""
        return np.asarray(0.7 ** np.arange(horizon))


class Hump(Plateau):
    """Lag weights rise to lag 7 and fall again."""

    @classmethod
    def weights_of(cls, horizon: int, sparsity: int) -> Floats:
        """Return the lag weights, (horizon,), before they are normalised."""
        return np.asarray(np.exp(-0.5 * ((np.arange(horizon) - 7.0) / 3.0) ** 2))


class LateBump(Plateau):
    """Lag weights rise and fall about seven tenths of the horizon."""

    @classmethod
    def weights_of(cls, horizon: int, sparsity: int) -> Floats:
        """Return the lag weights, (horizon,), before they are normalised."""
        return np.asarray(np.exp(-0.5 * ((np.arange(horizon) / horizon - 0.7) / 0.08) ** 2))


class CostsLater(Plateau):
    """What pays at once costs more over 20 rounds from half of the lags on."""

    @classmethod
    def weights_of(cls, horizon: int, sparsity: int) -> Floats:
        """Return the lag weights, (horizon,), before they are normalised."""
        lags, later = np.arange(horizon), horizon // 2 + 2
        return np.where(lags, -0.07 * ((lags >= later) & (lags < later + 20)), 1.0)


class WeeklyEchoes(Plateau):
    """Each seventh lag has 0.7 of the weight of the one a week before it, from lag 0 on."""

    @classmethod
    def weights_of(cls, horizon: int, sparsity: int) -> Floats:
        """Return the lag weights, (horizon,), before they are normalised."""
        lags = np.arange(horizon)
        return np.where(lags % 7 == 0, 0.7 ** (lags // 7), 0.0)


class Disturbed(LongHorizonEnvironment):
    """Every reward has something added that has nothing to do with the arms.

    It is told in units of the signal's standard deviation under uniform play.
    """

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards and the disturbance; under uniform play <x, theta> has variance 1/3."""
        unit = float(np.linalg.norm(self.weights)) / np.sqrt(3.0)
        rounds = np.arange(1, len(signals) + 1)
        return np.asarray(super().rewards(signals, first) + unit * self._added(rounds)[first - 1 :])

    def _added(self, rounds: Ints) -> Floats:
        """Return the disturbance of rounds 1, 2, ..., (n,) -> (n,)."""
        raise NotImplementedError

    def _innovations(self, n: int) -> Floats:
        """Draw standard normal numbers for rounds 1..n."""
        return np.asarray(ndtri(self._uniform(_DISTURBANCE, 1, (n,)) + 2.0**-54))


class Trend(Disturbed):
    """A line that rises by 10 in 2000 rounds."""

    def _added(self, rounds: Ints) -> Floats:
        return np.asarray(rounds / 200.0)


class Fall(Disturbed):
    """From round 1001 on rewards are lower by 3."""

    def _added(self, rounds: Ints) -> Floats:
        return np.where(rounds > 1000, -3.0, 0.0)


class NothingActs(LongHorizonEnvironment):
    """Rewards are noise: each went to another round than its own."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Return the noise alone."""
        return self.errors(first, len(signals))


class Season(Disturbed):
    """A sine of amplitude 5 and `PERIOD` rounds."""

    PERIOD = 168

    def _added(self, rounds: Ints) -> Floats:
        return np.asarray(5.0 * np.sin(2.0 * np.pi * rounds / self.PERIOD))


class Day(Season):
    """A sine of amplitude 5 and 24 rounds."""

    PERIOD = 24


def autoregressive(innovations: Floats, memory: float) -> Floats:
    """Return a series, (n,): `memory` of the last round's value, and the round's innovation."""
    from scipy.signal import lfilter  # here: it takes a second to load

    return np.asarray(lfilter([1.0], [1.0, -memory], innovations))


class ColouredNoise(Disturbed):
    """Autoregressive noise of standard deviation 2: 0.9 of the last round's, and an innovation."""

    def _added(self, rounds: Ints) -> Floats:
        innovation = 2.0 * float(np.sqrt(1.0 - 0.9**2))
        return autoregressive(innovation * self._innovations(len(rounds)), 0.9)


class LastingNoise(Disturbed):
    """Autoregressive noise in units of the reward: 0.95 of the last round's, innovations of 0.1."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards and the noise."""
        added = autoregressive(0.1 * self._innovations(len(signals)), 0.95)
        return np.asarray(super(Disturbed, self).rewards(signals, first) + added[first - 1 :])


class RandomWalk(Disturbed):
    """A baseline that moves by a normal step of 0.1 a round."""

    def _added(self, rounds: Ints) -> Floats:
        return 0.1 * np.cumsum(self._innovations(len(rounds)))


class BaselineSeasonTrend(LongHorizonEnvironment):
    """A baseline, a sine of 24 rounds and a line, in units of the reward (not of the signal).

    Attributes
    ----------
    baseline, amplitude, slope : float
        The line rises by `slope` in 1000 rounds.
    """

    baseline = 0.0
    amplitude = 0.0
    slope = 0.0

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards, and what is added whatever is chosen."""
        rounds = np.arange(first, len(signals) + 1)
        season = self.amplitude * np.sin(2.0 * np.pi * rounds / 24)
        added = self.baseline + season + self.slope * rounds / 1000
        return np.asarray(super().rewards(signals, first) + added)


class SeasonOfOne(BaselineSeasonTrend):
    """The season is as large as the largest effect of an arm."""

    amplitude = 1.0


class SeasonOfThree(BaselineSeasonTrend):
    """The season is three times as large."""

    amplitude = 3.0


class LineOfOne(BaselineSeasonTrend):
    """The line rises by 1 in 1000 rounds."""

    slope = 1.0


class BaselineAndSeason(SeasonOfOne):
    """A season of 1 about a baseline of 5."""

    baseline = 5.0


class Rotation(LongHorizonEnvironment):
    """Theta turns steadily, by 180 degrees in 2000 rounds."""

    def theta_at(self, rounds: Ints) -> Floats:
        """Return theta of each round, (n,) -> (n, dim)."""
        angle = np.asarray(np.pi / 2000.0 * rounds, np.float64)
        return turned(self.theta, angle)

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """Return <x, theta> of rounds first, first + 1, ... along the first axis of `contexts`."""
        return _by_round(contexts, self.theta_at(np.arange(first, first + len(contexts))))


Kind = Literal["single", "missing", "sums", "early", "three early"]


def measured(kind: Kind, rewards: Floats, seed: int) -> Measurements:
    """Select what is measured of the rewards of rounds 1..n.

    Parameters
    ----------
    kind : "single", "missing", "sums", "early" or "three early"
        All rewards; a random 70% of them; totals of 7 rounds; each for the round before its own, or
        three before.
    rewards : (n,) array
    seed : int
        Seed of the missing rewards.
    """
    rounds = np.arange(1, len(rewards) + 1)
    if kind == "single":
        return Measurements.single(rounds, rewards)
    if kind in ("early", "three early"):
        ahead = 1 if kind == "early" else 3
        return Measurements.single(rounds[:-ahead], rewards[ahead:])
    if kind == "missing":
        seen = np.array([Draw(seed, "", t).uniform("seen") < 0.7 for t in rounds.tolist()], bool)
        return Measurements.single(rounds[seen], rewards[seen])
    first = rounds[: len(rounds) // 7 * 7 : 7]
    return Measurements(first, first + 6, rewards[: 7 * len(first)].reshape(-1, 7).sum(axis=1))


class ContextsAbove(LongHorizonEnvironment):
    """All contexts are `above` higher than plain ones."""

    above = 3.0

    def contexts(self, first: int, last: int) -> Floats:
        """Return the contexts of all arms in rounds first..last, (n, K, dim)."""
        return super().contexts(first, last) + self.above


class Running(ContextsAbove):
    """The application ran for at least h rounds before the first; it chose arms at random."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards, and what the rounds before the first still pay."""
        contexts = 2.0 * self._uniform(_BEFORE, 1, (self.horizon, self.dim)) - 1.0 + self.above
        before = super().signals(contexts)  # the last one is that of round 0
        paid = np.convolve(before, self.weights)[self.horizon :]
        out = super().rewards(signals, first)
        n = max(0, min(len(paid) - first + 1, len(out)))
        out[:n] += paid[first - 1 : first - 1 + n]
        return out


class RunningAboutZero(Running):
    """The same where contexts have no mean."""

    above = 0.0


class WeatherOfThree(Weather):
    """The weather moves rewards three times as far as an arm can."""

    effect = 3.0


class FeaturesAlike(LongHorizonEnvironment):
    """The last feature is that before it, but for one part in a hundred."""

    def contexts(self, first: int, last: int) -> Floats:
        """Return plain contexts with such a feature."""
        out = super().contexts(first, last).copy()
        out[..., -1] = out[..., -2] + 0.01 * out[..., -1]
        return out


class KnownBefore(LongHorizonEnvironment):
    """A round's reward is whether somebody came, and only then can the agent act.

    All contexts of the other rounds are 0, as of rounds without an action.
    """

    def contexts(self, first: int, last: int) -> Floats:
        """Return plain contexts, 0 in rounds in which nobody came."""
        came = self._came(first, last)
        return np.where(came[:, None, None], super().contexts(first, last), 0.0)

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Return 1 in rounds in which somebody came, else 0."""
        return self._came(first, len(signals)).astype(np.float64)

    def _came(self, first: int, last: int) -> np.ndarray:
        return self._uniform(_CAME, first, (last - first + 1,)) < 0.5
