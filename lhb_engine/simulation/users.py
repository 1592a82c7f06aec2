"""Worlds of many users who come and go, with their rounds in order of time.

A user is a trajectory: lags never reach from one user to another. All users share the lag weights;
they share theta too, or each has one of their own around it.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from lhb_engine.history import Floats, Ints
from lhb_engine.simulation.environment import LongHorizonEnvironment, ProfileEnvironment

LENGTHS = ("fixed", "geometric", "uniform", "pareto")
PARETO_INDEX, LONGEST = 2.0, 100  # no user has more than 100 times the mean number of rounds
# Numbers of streams; the world's own are smaller. Levels and transport have one stream: another
# number would change the worlds of the benchmarks.
_VISITS, _THETAS, _LEVELS, _TRANSPORT = 11, 12, 13, 13


def user_lengths(law: str, mean: int, n_users: int, rng: np.random.Generator) -> Ints:
    """Draw each user's number of rounds, at least 1, (n_users,).

    Laws: "fixed": all equal. "geometric": after each round a user leaves with the same probability.
    "uniform": on 1 to 2 mean - 1. "pareto": most are short and a few are very long.
    """
    if law not in LENGTHS:
        raise ValueError(f"lengths: {law!r} is none of {', '.join(LENGTHS)}")
    if mean < 1:
        raise ValueError("a user has at least one round")
    if law == "geometric":
        return np.asarray(rng.geometric(1.0 / mean, n_users), dtype=np.int64)
    if law == "uniform":
        return rng.integers(1, 2 * mean, n_users, dtype=np.int64)
    if law == "pareto":
        scale = mean * (PARETO_INDEX - 1.0) / PARETO_INDEX
        drawn = scale * (1.0 + rng.pareto(PARETO_INDEX, n_users))
        return np.clip(np.rint(drawn), 1, LONGEST * mean).astype(np.int64)
    return np.full(n_users, mean, dtype=np.int64)


@dataclass(frozen=True)
class Visits:
    """The rounds of all users, in order of time; each array is (n_rounds,).

    `user` counts from 0; `round`, in its user's trajectory, from 1, as `number`: which of the
    world's contexts it has. `at` is its time; 1 is the mean time between two rounds of a user.
    """

    user: Ints
    round: Ints
    at: Floats
    number: Ints

    @classmethod
    def draw(
        cls, n_users: int, mean: int, law: str = "fixed", *, arriving: float = 1.0, seed: int = 0
    ) -> Self:
        """Draw users who arrive at random times, and their rounds, by a law of `user_lengths`.

        So many users as `arriving` come in the mean time between two rounds of a user.
        """
        if n_users < 1 or not arriving > 0:
            raise ValueError("users: there must be some, and they must arrive")
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_VISITS,)))
        lengths = user_lengths(law, mean, n_users, rng)
        arrival = np.cumsum(rng.exponential(1.0 / arriving, n_users))
        user = np.repeat(np.arange(n_users), lengths)
        first = np.cumsum(lengths) - lengths
        passed = np.cumsum(rng.exponential(1.0, len(user)))
        at = arrival[user] + passed - passed[first][user]
        order = np.argsort(at, kind="stable")
        round = np.arange(len(user)) - first[user] + 1
        return cls(user[order], round[order], at[order], np.arange(1, len(user) + 1))

    def __len__(self) -> int:
        return len(self.user)

    def of(self, users: Sequence[int]) -> "Visits":
        """Return the rounds of some users alone, with the same contexts and times."""
        kept = np.isin(self.user, users)
        return Visits(self.user[kept], self.round[kept], self.at[kept], self.number[kept])

    @cached_property
    def lengths(self) -> Ints:
        """(n_users,) number of rounds of each user; 0 for users who are left out."""
        return np.bincount(self.user)

    @cached_property
    def place(self) -> Ints:
        """(n_rounds,) place of each round if rounds are sorted by user, from 0."""
        return np.asarray((np.cumsum(self.lengths) - self.lengths)[self.user] + self.round - 1)


@dataclass(eq=False)
class UserEnvironment:
    """A world whose rounds are those of many users.

    `world` has theta, the lag weights, and the streams of contexts and noise. `spread` says how far
    the users' thetas are from the world's: a user's theta is the direction of theta + spread g,
    with g normal and E|g|^2 = 1. The angle between the two is about atan(spread). `levels` is the
    standard deviation of the users' levels, in units of reward: what all rewards of a user lie
    above or below the others', whatever is chosen. With `groups` user i is of group i modulo so
    many, about whose mean, theta + `between` g, users' thetas lie. None of the four may be negative
    (ValueError), and thetas do not differ where features pay at lags of their own.
    """

    world: LongHorizonEnvironment
    visits: Visits
    _: KW_ONLY
    spread: float = 0.0
    levels: float = 0.0
    groups: int = 0
    between: float = 0.0

    def __post_init__(self) -> None:
        for name in ("spread", "levels", "between"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must not be negative")
        self.between *= bool(self.groups)
        if self.spread + self.between > 0.0 and isinstance(self.world, ProfileEnvironment):
            raise ValueError("profiles: users of such a world have one theta")

    @cached_property
    def _thetas(self) -> Floats:
        """(n_users, dim) theta of each user."""
        n_users, dim = len(self.visits.lengths), self.world.dim
        rng = np.random.default_rng(np.random.SeedSequence(self.world.seed, spawn_key=(_THETAS,)))
        drawn = self.world.theta + self.spread * rng.standard_normal((n_users, dim)) / np.sqrt(dim)
        if self.between:
            means = self.between * rng.standard_normal((self.groups, dim)) / np.sqrt(dim)
            drawn = drawn + means[np.arange(n_users) % self.groups]
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))

    def key(self, user: int) -> str:
        """Return the key of a user's trajectory, after that of their group, if they are of one."""
        key, n = f"user-{user}", self.groups
        return f"{user % n}:{key}" if n else key

    def only(self, users: Sequence[int]) -> "UserEnvironment":
        """Return the same world with some of its users alone."""
        return replace(self, visits=self.visits.of(users))

    def contexts(self, first: int, last: int) -> Floats:
        """Return the contexts of all arms in rounds first..last of all users, (n, K, dim)."""
        return _gathered(self.world.contexts, self.visits.number[first - 1 : last])

    def signals(self, contexts: Floats, first: int) -> Floats:
        """Compute <x, theta> of rounds first, first + 1, ..., (n, K, dim) -> (n, K)."""
        if self.spread == self.between == 0.0:
            return self.world.signals(contexts)
        theta = self._thetas[self.visits.user[first - 1 : first - 1 + len(contexts)]]
        out = contexts[..., 0] * theta[:, :1]
        for i in range(1, self.world.dim):
            out = out + contexts[..., i] * theta[:, i : i + 1]
        return np.asarray(out)

    def errors(self, first: int, last: int) -> Floats:
        """Return noise and levels of rounds first..last, (last - first + 1,)."""
        noise = _gathered(self.world.errors, self.visits.number[first - 1 : last])
        if self.levels == 0.0:
            return noise
        return noise + self.levels * self._levels[self.visits.user[first - 1 : last]]

    @cached_property
    def _levels(self) -> Floats:
        """(n_users,) level of each user, over their standard deviation."""
        rng = np.random.default_rng(np.random.SeedSequence(self.world.seed, spawn_key=(_LEVELS,)))
        return rng.standard_normal(len(self.visits.lengths))

    def carried(self) -> Floats:
        """Return room for what the world's rewards need of each round (`carried`), zero."""
        none = np.zeros((0, self.world.dim)), np.zeros(0)
        return np.zeros((len(self.visits), *self.world.carried(*none).shape[1:]))

    def expected_rewards(self, carried: Floats, first: int, last: int) -> Floats:
        """Compute the rewards of rounds first..last, in order of time, without noise.

        This is docs/model.md (1.1) within each user. `carried` is that of the rounds played so far,
        sorted by user (`Visits.place`).
        """
        place, round = self.visits.place[first - 1 : last], self.visits.round[first - 1 : last]
        paid = [
            np.where(round > lag, values[np.maximum(place - lag, 0)], 0.0) * pays
            for lag, pays, values in self.world.paying(carried)
        ]
        return np.asarray(np.stack(paid, axis=1).sum(axis=1))


def _gathered(read: Callable[[int, int], Floats], numbers: Ints) -> Floats:
    """Return what `read` gives for ascending numbers, which it takes as ranges first..last."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return np.concatenate([read(int(run[0]), int(run[-1])) for run in runs])


@dataclass(frozen=True)
class Deliveries:
    """Rewards as they come in, in order of time (`at`).

    `reward` is the index of its round, from 0. A doubled reward is there twice.
    """

    reward: Ints
    at: Floats

    def __len__(self) -> int:
        return len(self.reward)


@dataclass(frozen=True)
class Transport:
    """What happens to rewards on their way. By default each comes in at once.

    Raises `ValueError`: the delay is negative, or a probability is not in [0, 1].
    """

    delay: float = 0.0  # mean of an exponential delay, in the unit of the rounds' times
    lost: float = 0.0  # probability that a reward never comes in
    doubled: float = 0.0  # probability that it is sent twice; each copy has its own delay
    reordered: float = 0.0  # probability that a delivery changes places with the one after it

    def __post_init__(self) -> None:
        if not self.delay >= 0.0:
            raise ValueError("delay must not be negative")
        for name in ("lost", "doubled", "reordered"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be a probability")

    def deliveries(self, at: Floats, seed: int) -> Deliveries:
        """Draw what becomes of rewards that are sent at the times `at`, (n,)."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_TRANSPORT,)))
        n = len(at)
        sent = np.flatnonzero(rng.random(n) >= self.lost)
        again = sent[rng.random(len(sent)) < self.doubled]
        reward = np.concatenate([sent, again])
        time = at[reward] + self.delay * rng.exponential(1.0, len(reward))
        order = np.argsort(time, kind="stable")
        reward, time = reward[order], time[order]
        for i in np.flatnonzero(rng.random(max(len(reward) - 1, 0)) < self.reordered).tolist():
            reward[[i, i + 1]] = reward[[i + 1, i]]
        # an exchanged reward that has not been sent yet waits until it is
        return Deliveries(reward, np.maximum.accumulate(np.maximum(time, at[reward])))
