"""The way of rewards to the agent: late, lost, doubled, out of order."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats, Ints

_TRANSPORT = 13  # number of its stream; those of `environment` and `users` are smaller


@dataclass(frozen=True)
class Deliveries:
    """Rewards as they come in, in order of time.

    Attributes
    ----------
    reward : (n,) array
        Which reward it is: the index of its round, from 0. A doubled one is there twice.
    at : (n,) array
        When it comes in.
    """

    reward: Ints
    at: Floats

    def __len__(self) -> int:
        return len(self.reward)


@dataclass(frozen=True)
class Transport:
    """What happens to rewards on their way. By default each comes in at once.

    Attributes
    ----------
    delay : float
        Mean of an exponential delay, in the unit of the rounds' times.
    lost : float
        Probability that a reward never comes in.
    doubled : float
        Probability that it is sent twice; each copy has its own delay.
    reordered : float
        Probability that a delivery changes places with the one after it.

    Raises
    ------
    ValueError
        The delay is negative, or a probability is not in [0, 1].
    """

    delay: float = 0.0
    lost: float = 0.0
    doubled: float = 0.0
    reordered: float = 0.0

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
