"""Play one agent for many users at once, in this process: one session, a trajectory a user."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lhb_engine.agents import Agent, make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History, Ints, Measurements, Trajectory
from lhb_engine.randomness import Draw
from lhb_engine.simulation.play import BLOCK_ROUNDS, RunFit, Simulation
from lhb_engine.simulation.regret import cumulative_regret, regret_gaps
from lhb_engine.simulation.transport import Transport
from lhb_engine.simulation.users import UserEnvironment


def user_key(user: int) -> str:
    """Return the key of a user's trajectory."""
    return f"user-{user}"


def simulate_users(
    algorithm: str | Agent,
    environment: UserEnvironment,
    *,
    seed: int,
    horizon: int | None = None,
    options: Mapping[str, Any] | None = None,
    transport: Transport | None = None,
    run_fit: RunFit | None = None,
) -> Simulation:
    """Play all rounds of all users, in order of time.

    A fit knows the rewards that have come in by the time of the next round.

    Parameters
    ----------
    algorithm, seed, horizon, options, run_fit
        As in `simulate`.
    environment : UserEnvironment
    transport : Transport, optional
        What happens to rewards on their way; by default each comes in at once.

    Returns
    -------
    Simulation
        Rounds are in order of time.
    """
    if isinstance(algorithm, Agent):
        agent = algorithm
    else:
        world = environment.world
        steps = horizon or world.horizon
        agent = make_agent(algorithm, dim=world.dim, horizon=steps, **(options or {}))
    log = _Log(environment, seed, transport or Transport())
    estimates: list[Estimate] = []
    n_rounds = len(environment.visits)
    while log.n_played < n_rounds:
        window = agent.next_fit(log.n_played)
        due = n_rounds if window is None else min(window.due, n_rounds)
        log.play(agent, due)
        if window is not None and window.due == log.n_played:
            history = log.history().over(window)
            estimate = agent.fit(history) if run_fit is None else run_fit(agent, history)
            agent.install(estimate)
            estimates.append(estimate)
    return Simulation(
        agent, log.arms, log.rewards, log.selected, cumulative_regret(log.gaps), estimates
    )


class _Log:
    """The rounds played so far: in order of time, and sorted by user."""

    def __init__(self, environment: UserEnvironment, seed: int, transport: Transport) -> None:
        n, dim = len(environment.visits), environment.world.dim
        self.environment, self.visits, self.seed = environment, environment.visits, seed
        self.deliveries = transport.deliveries(self.visits.at, environment.world.seed)
        self.n_played = self.n_delivered = 0
        self.arms: Ints = np.zeros(n, dtype=np.int64)
        self.rewards: Floats = np.zeros(n)
        self.selected: Floats = np.zeros((n, dim))
        self.gaps: Floats = np.zeros(n)
        self._start: Ints = np.cumsum(self.visits.lengths) - self.visits.lengths
        self._signals = np.zeros(n)  # this and what follows is sorted by user
        self._contexts = np.zeros((n, dim))
        self._values = np.zeros(n)
        self._position: Ints = np.zeros(n, dtype=np.int64)
        self._arrived = np.zeros(n, dtype=bool)

    def play(self, agent: Agent, last: int) -> None:
        """Play up to round `last`, and deliver what comes in before the next one."""
        step = 1 if agent.learns_within_epoch else BLOCK_ROUNDS
        while self.n_played < last:
            first, stop = self.n_played + 1, min(last, self.n_played + BLOCK_ROUNDS)
            contexts = self.environment.contexts(first, stop)
            signals = self.environment.signals(contexts, first)
            self.rewards[first - 1 : stop] = self.environment.errors(first, stop)
            for start in range(0, len(contexts), step):
                part = slice(start, start + step)
                self._decide(agent, contexts[part], signals[part])
                self._deliver(agent)

    def _decide(self, agent: Agent, contexts: Floats, signals: Floats) -> None:
        first, stop = self.n_played + 1, self.n_played + len(contexts)
        rows = slice(first - 1, stop)
        users, rounds = self.visits.user[rows].tolist(), self.visits.round[rows].tolist()
        numbers = range(first, stop + 1)
        draws = [
            Draw(self.seed, user_key(user), round, number)
            for user, round, number in zip(users, rounds, numbers, strict=True)
        ]
        arms = agent.choose_block(contexts, draws)
        chosen, place = np.arange(len(arms)), self.visits.place[rows]
        self.arms[rows] = arms
        self.selected[rows] = self._contexts[place] = contexts[chosen, arms]
        self._signals[place] = signals[chosen, arms]
        self._position[place] = numbers
        self.gaps[rows] = regret_gaps(signals, arms, self.environment.world.weights)
        self.rewards[rows] += self.environment.expected_rewards(self._signals, first, stop)
        self._values[place] = self.rewards[rows]
        self.n_played = stop

    def _deliver(self, agent: Agent) -> None:
        """Take in the rewards that come before the next round."""
        at, n = self.visits.at, self.n_played
        until = at[n] if n < len(at) else np.inf
        stop = int(np.searchsorted(self.deliveries.at, until, side="left"))
        come = self.deliveries.reward[self.n_delivered : stop]
        self.n_delivered = stop
        place = self.visits.place[come]
        if agent.learns_within_epoch:
            for reward, where in zip(come.tolist(), place.tolist(), strict=True):
                if not self._arrived[where]:
                    self._arrived[where] = True
                    self._observe(agent, reward)
        self._arrived[place] = True

    def _observe(self, agent: Agent, reward: int) -> None:
        user, round = int(self.visits.user[reward]), int(self.visits.round[reward])
        history = History(self.environment.world.dim, {user_key(user): self._trajectory(user)})
        agent.observe(history, user_key(user), round, float(self.rewards[reward]))

    def _trajectory(self, user: int) -> Trajectory:
        """Return what a user has played, and the rewards that have come in, as views."""
        start = int(self._start[user])
        stop = start + int(self.visits.lengths[user])
        position = self._position[start:stop]
        position = position[: int(np.count_nonzero(position))]
        rows = slice(start, start + len(position))
        arrived = np.flatnonzero(self._arrived[rows])
        measured = Measurements.single(arrived + 1, self._values[rows][arrived])
        return Trajectory(self._contexts[rows], measured, positions=position)

    def history(self) -> History:
        """Return all users who have begun, by key, and the rewards that have come in."""
        begun = np.unique(self.visits.user[: self.n_played]).tolist()
        parts = {user_key(user): self._trajectory(user) for user in begun}
        return History(self.environment.world.dim, dict(sorted(parts.items())))
