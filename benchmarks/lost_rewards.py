"""Worlds of which sessions are told less, or another thing, than what choices earned."""

import numpy as np

from benchmarks.other_worlds.one_session import OneSession
from benchmarks.worlds import Depletes
from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment

_PLAY = 11  # stream of offers, noise and what is lost


class Limited(LongHorizonEnvironment):
    """Rewards above a limit, about what good choices pay, are reported as the limit."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Return plain rewards up to the limit."""
        return np.asarray(np.minimum(super().rewards(signals, first), self.weights.sum()))


class ByTurns(Depletes):
    """So many users decide by turns, of new offers each; whoever leaves has a successor."""

    N_USERS = 1

    def comes(self, context: Floats) -> float:
        """Return the probability that a reward comes after a choice of this context, (dim,)."""
        return 1.0

    def leaves(self, context: Floats) -> float:
        """Return the probability that a user leaves after a choice of this context, (dim,)."""
        return 0.0

    def earner(self, seat: int) -> int:
        """Return whose rewards a user is given."""
        return seat

    def play(self, session: OneSession, n_rounds: int) -> Floats:
        """Let a session decide, and return what is paid for each round, (n_rounds,)."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_PLAY,)))
        paid, users = np.zeros(n_rounds), [*range(self.N_USERS)]
        rewards = np.zeros((self.N_USERS, n_rounds // self.N_USERS + 1 + len(self.weights)))
        for t in range(n_rounds):
            turn, seat = divmod(t, self.N_USERS)
            offers = rng.uniform(-1.0, 1.0, (self.n_arms, self.dim))
            chosen = offers[session.decide(f"user-{users[seat]}", offers)]
            paid[t] = chosen @ self.theta
            rewards[seat, turn : turn + len(self.weights)] += self.weights * paid[t]
            value = rewards[self.earner(seat), turn] + self.noise * rng.standard_normal()
            comes = rng.random() < self.comes(chosen)
            session.reward(f"user-{users[seat]}", float(value) if comes else None)
            if rng.random() < self.leaves(chosen):
                users[seat] = max(users) + 1
                rewards[seat] = 0.0
        return paid


class Unanswered(ByTurns):
    """The more of the first feature is chosen, the fewer rewards come."""

    def comes(self, context: Floats) -> float:
        """Return 0.2 to 1."""
        return 0.6 - 0.4 * float(context[0])


class Leave(ByTurns):
    """The more of the first feature is chosen, the sooner a user leaves."""

    N_USERS = 20

    def leaves(self, context: Floats) -> float:
        """Return 0 to 0.16."""
        return 0.08 * (1.0 + float(context[0]))


class Swapped(ByTurns):
    """Each user's rewards are reported as those of the next one."""

    N_USERS = 40

    def earner(self, seat: int) -> int:
        """Return the user before."""
        return seat - 1
