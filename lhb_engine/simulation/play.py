"""Play one agent in one simulated world, or for many users at once, in this process.

An agent decides the same way between two fits, so whole epochs are played at once; only an agent
that learns within an epoch plays round by round. The result equals the service's to the bit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lhb_engine.agents import Agent, make_agent
from lhb_engine.context_sets import latest_kept, step
from lhb_engine.design.covariates import with_means
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History, Ints, Measurements, Trajectory
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.users import Transport, UserEnvironment

TRAJECTORY = ""
CHUNK_ROUNDS = 4096  # bounds the memory of an epoch played at once
Measure = Callable[[Floats], Measurements]
RunFit = Callable[[Agent, History], Estimate]


@dataclass(frozen=True)
class Simulation:
    """Result of a simulation."""

    agent: Agent  # the agent after the last round
    # arms, rewards: (n_rounds,)
    arms: Ints
    rewards: Floats
    selected: Floats  # (n_rounds, dim): selected contexts
    regret: Floats  # (n_rounds,): cumulative pseudo-regret, in units of reward
    estimates: list[Estimate]  # one for each fit, in order, including those without a direction


def simulate(
    algorithm: str | Agent,
    environment: LongHorizonEnvironment,
    *,
    n_rounds: int,
    seed: int,
    horizon: int | None = None,
    options: Mapping[str, Any] | None = None,
    run_fit: RunFit | None = None,
    measure: Measure | None = None,
) -> Simulation:
    """Play `n_rounds` rounds.

    Parameters
    ----------
    algorithm : str or Agent
        A registered name, or a fresh agent (then without `horizon` and `options`).
    environment : LongHorizonEnvironment
    n_rounds : int
    seed : int
        Seed of the agent's draws; the world has its own.
    horizon : int, optional
        Horizon given to the agent; by default the world's.
    options : mapping, optional
        The algorithm's options; for an oracle, the truth.
    run_fit : callable, optional
        Called as `run_fit(agent, history)` in place of `agent.fit(history)`, to time it for one.
    measure : callable, optional
        Maps the rewards of rounds 1..n to their `Measurements`; by default all are measured.

    Raises
    ------
    KeyError, OptionError
        Unknown algorithm; unknown option, or one out of range.
    """
    agent = _agent(algorithm, environment, horizon, options)
    log = _Log(agent, environment, seed, n_rounds, measure)
    return _played(agent, log, n_rounds, run_fit)


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
    """Play all rounds of all users in one session, a trajectory a user, in order of time.

    A fit knows the rewards that have come in by the time of the next round. Parameters are those of
    `simulate`; `transport` is what happens to rewards on their way, by default each comes in at
    once.
    """
    agent = _agent(algorithm, environment.world, horizon, options)
    log = _UserLog(agent, environment, seed, transport or Transport())
    return _played(agent, log, len(environment.visits), run_fit)


def regret_gaps(signals: Floats, arms: Ints, weights: Floats) -> Floats:
    """Compute each round's pseudo-regret, sum(w) (max_a <x_a, theta> - <xi, theta>), in rewards.

    An action pays sum(w) <xi, theta> in total over h rounds, so the pattern of w does not matter.
    `signals` (n_rounds, n_arms) are <x_{t,a}, theta> of every arm, `arms` (n_rounds,) the chosen
    ones.
    """
    chosen = signals[np.arange(len(arms)), arms]
    return np.asarray(weights.sum() * (signals.max(axis=1) - chosen))


class _Played:
    """The rounds played so far, in arrays of the final length."""

    def __init__(self, agent: Agent, n_rounds: int, seed: int) -> None:
        self.seed, dim = seed, agent.dim
        self._with_means, self._latest = agent.takes_means, agent.sizes.latest
        # what fits read, in the order of trajectories: selected contexts, and means where these are
        # taken
        self._given: Floats = np.zeros((n_rounds, agent.n_given(dim, agent.horizon)))
        self.n_played = 0
        self.arms: Ints = np.zeros(n_rounds, dtype=np.int64)
        self.rewards: Floats = np.zeros(n_rounds)
        self.selected: Floats = np.zeros((n_rounds, dim))
        self.gaps: Floats = np.zeros(n_rounds)
        self._sets: dict[int, Floats] = {}

    def _take(
        self, contexts: Floats, signals: Floats, arms: Ints, place: Ints | slice, weights: Floats
    ) -> Floats:
        """Take the next rounds' arms, where fits read them at `place`; return their signals."""
        first, chosen = self.n_played + 1, (np.arange(len(arms)), arms)
        every = step(first, self._latest)
        for i in range(-first % every, len(contexts), every):
            self._sets[first + i] = contexts[i]
        rows = slice(self.n_played, self.n_played + len(arms))
        self.arms[rows], self.selected[rows] = arms, contexts[chosen]
        read = with_means(self.selected[rows], contexts) if self._with_means else contexts[chosen]
        self._given[place] = read
        self.gaps[rows] = regret_gaps(signals, arms, weights)
        self.n_played += len(arms)
        return np.asarray(signals[chosen])

    @property
    def sets(self) -> dict[int, Floats]:
        """The context sets that a fit now is given."""
        return {round: self._sets[round] for round in latest_kept(self.n_played, self._latest)}


def _agent(
    algorithm: str | Agent,
    world: LongHorizonEnvironment,
    horizon: int | None,
    options: Mapping[str, Any] | None,
) -> Agent:
    if isinstance(algorithm, Agent):
        return algorithm
    steps = horizon or world.horizon
    return make_agent(algorithm, dim=world.dim, horizon=steps, **(options or {}))


def _played(
    agent: Agent, log: "_Log | _UserLog", n_rounds: int, run_fit: RunFit | None
) -> Simulation:
    """Play all rounds, and fit the agent whenever a fit is due."""
    estimates: list[Estimate] = []
    while log.n_played < n_rounds:
        window = agent.next_fit(log.n_played)
        due = n_rounds if window is None else min(window.due, n_rounds)
        log.play(agent, due)
        if window is not None and window.due == log.n_played:
            history = log.history().over(window)
            estimate = agent.fit(history) if run_fit is None else run_fit(agent, history)
            agent.install(estimate)
            estimates.append(estimate)
    return Simulation(agent, log.arms, log.rewards, log.selected, np.cumsum(log.gaps), estimates)


class _Log(_Played):
    """The rounds of one trajectory."""

    def __init__(
        self,
        agent: Agent,
        environment: LongHorizonEnvironment,
        seed: int,
        n_rounds: int,
        measure: Measure | None,
    ) -> None:
        super().__init__(agent, n_rounds, seed)
        self.environment = environment
        self.is_told = bool(agent.covariates.names)  # of the world's covariates
        self.measure = measure or self._every
        nothing = np.zeros((0, environment.dim)), np.zeros(0)
        self._carried: Floats = np.zeros((n_rounds, *environment.carried(*nothing).shape[1:]))
        self._numbers: Ints = np.arange(1, n_rounds + 1)

    def history(self) -> History:
        """Return the rounds played so far, as views."""
        n = self.n_played
        measured = self.measure(self.rewards[:n])
        covariates = self.environment.covariates(1, n) if self.is_told else None
        part = Trajectory(self._given[:n], measured, covariates=covariates)
        groups = () if covariates is None else (1,) * covariates.shape[1]
        return History(self.environment.dim, {TRAJECTORY: part}, groups=groups, sets=self.sets)

    def _every(self, rewards: Floats) -> Measurements:
        return Measurements.single(self._numbers[: len(rewards)], rewards)

    def play(self, agent: Agent, last: int) -> None:
        """Play up to round `last`; an agent that learns within an epoch learns from each reward."""
        learns = agent.learns_within_epoch
        step = 1 if learns else CHUNK_ROUNDS
        while self.n_played < last:
            first = self.n_played + 1
            chunk = self.environment.contexts(first, min(last, self.n_played + CHUNK_ROUNDS))
            for i in range(0, len(chunk), step):
                contexts, t = chunk[i : i + step], first + i
                stop = self.n_played + len(contexts)
                draws = [Draw(self.seed, TRAJECTORY, round) for round in range(t, stop + 1)]
                self._record(contexts, agent.choose_many(contexts, draws))
                self.rewards[t - 1 : stop] = self.environment.rewards(self._carried[:stop], t)
                if learns:
                    agent.observe(self.history(), TRAJECTORY, t, float(self.rewards[t - 1]))

    def _record(self, contexts: Floats, arms: Ints) -> None:
        rows = slice(self.n_played, self.n_played + len(arms))
        signals = self.environment.signals(contexts, rows.start + 1)
        chosen = self._take(contexts, signals, arms, rows, self.environment.weights)
        self._carried[rows] = self.environment.carried(self.selected[rows], chosen)


class _UserLog(_Played):
    """The rounds of many users: in order of time, and sorted by user."""

    def __init__(
        self, agent: Agent, environment: UserEnvironment, seed: int, transport: Transport
    ) -> None:
        n = len(environment.visits)
        super().__init__(agent, n, seed)
        self.environment, self.visits = environment, environment.visits
        self.deliveries = transport.deliveries(self.visits.at, environment.world.seed)
        self.n_delivered = 0
        self._start: Ints = np.cumsum(self.visits.lengths) - self.visits.lengths
        self._carried = environment.carried()  # this and what follows is sorted by user
        self._values = np.zeros(n)
        self._position: Ints = np.zeros(n, dtype=np.int64)
        self._arrived = np.zeros(n, dtype=bool)

    def play(self, agent: Agent, last: int) -> None:
        """Play up to round `last`, and deliver what comes in before the next one."""
        has_own = agent.has_responses and agent.theta is not None
        step = 1 if agent.learns_within_epoch or has_own else CHUNK_ROUNDS
        self._own: dict[int, Agent] = {}  # by user, until a reward of theirs comes
        while self.n_played < last:
            first, stop = self.n_played + 1, min(last, self.n_played + CHUNK_ROUNDS)
            contexts = self.environment.contexts(first, stop)
            signals = self.environment.signals(contexts, first)
            self.rewards[first - 1 : stop] = self.environment.errors(first, stop)
            for start in range(0, len(contexts), step):
                part = slice(start, start + step)
                now = self._agent_of(agent) if has_own else agent
                self._decide(now, contexts[part], signals[part])
                self._deliver(agent)

    def _agent_of(self, agent: Agent) -> Agent:
        """Return the agent with the response of the user who is next."""
        user = int(self.visits.user[self.n_played])
        if user not in self._own:
            self._own[user] = agent.of(self.environment.key(user), self._trajectory(user))
        return self._own[user]

    def _decide(self, agent: Agent, contexts: Floats, signals: Floats) -> None:
        first, stop = self.n_played + 1, self.n_played + len(contexts)
        rows = slice(first - 1, stop)
        users, rounds = self.visits.user[rows].tolist(), self.visits.round[rows].tolist()
        numbers = range(first, stop + 1)
        draws = [
            Draw(self.seed, self.environment.key(user), round, number)
            for user, round, number in zip(users, rounds, numbers, strict=True)
        ]
        arms, place = agent.choose_many(contexts, draws), self.visits.place[rows]
        world = self.environment.world
        chosen = self._take(contexts, signals, arms, place, world.weights)
        self._carried[place] = world.carried(self.selected[rows], chosen)
        self._position[place] = numbers
        self.rewards[rows] += self.environment.expected_rewards(self._carried, first, stop)
        self._values[place] = self.rewards[rows]

    def _deliver(self, agent: Agent) -> None:
        """Take in the rewards that come before the next round."""
        at, n = self.visits.at, self.n_played
        until = at[n] if n < len(at) else np.inf
        stop = int(np.searchsorted(self.deliveries.at, until, side="left"))
        come = self.deliveries.reward[self.n_delivered : stop]
        self.n_delivered = stop
        place = self.visits.place[come]
        for user in self.visits.user[come].tolist() if self._own else ():
            self._own.pop(user, None)
        if agent.learns_within_epoch:
            for reward, where in zip(come.tolist(), place.tolist(), strict=True):
                if not self._arrived[where]:
                    self._arrived[where] = True
                    self._observe(agent, reward)
        self._arrived[place] = True

    def _observe(self, agent: Agent, reward: int) -> None:
        user, round = int(self.visits.user[reward]), int(self.visits.round[reward])
        key = self.environment.key(user)
        history = History(self.environment.world.dim, {key: self._trajectory(user)})
        agent.observe(history, key, round, float(self.rewards[reward]))

    def _trajectory(self, user: int) -> Trajectory:
        """Return what a user has played, and the rewards that have come in, as views."""
        start = int(self._start[user])
        stop = start + int(self.visits.lengths[user])
        position = self._position[start:stop]
        position = position[: int(np.count_nonzero(position))]
        rows = slice(start, start + len(position))
        arrived = np.flatnonzero(self._arrived[rows])
        measured = Measurements.single(arrived + 1, self._values[rows][arrived])
        return Trajectory(self._given[rows], measured, positions=position)

    def history(self) -> History:
        """Return all users who have begun, by key, and the rewards that have come in."""
        begun = np.unique(self.visits.user[: self.n_played]).tolist()
        parts = {self.environment.key(user): self._trajectory(user) for user in begun}
        parts = dict(sorted(parts.items()))
        return History(self.environment.world.dim, parts, sets=self.sets)
