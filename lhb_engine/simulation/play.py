"""Play one agent in one simulated world, in this process.

An agent decides the same way between two fits, so whole epochs are played at once; only an agent
that learns within an epoch plays round by round. The result equals the service's to the bit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lhb_engine.agents import Agent, make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History, Ints, Measurements, Trajectory
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.regret import cumulative_regret, regret_gaps

TRAJECTORY = ""
BLOCK_ROUNDS = 4096  # bounds the memory of an epoch played at once
Measure = Callable[[Floats], Measurements]
RunFit = Callable[[Agent, History], Estimate]


@dataclass(frozen=True)
class Simulation:
    """Result of a simulation.

    Attributes
    ----------
    agent : Agent
        The agent after the last round.
    arms, rewards : (n_rounds,) arrays
    selected : (n_rounds, dim) array
        Selected contexts.
    regret : (n_rounds,) array
        Cumulative pseudo-regret, in units of reward.
    estimates : list of Estimate
        One for each fit, in order, including those without a direction.
    """

    agent: Agent
    arms: Ints
    rewards: Floats
    selected: Floats
    regret: Floats
    estimates: list[Estimate]

    @property
    def n_zero_estimates(self) -> int:
        """Number of fits with phi = 0."""
        return sum(estimate.status == "zero" for estimate in self.estimates)


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
        Rounds T.
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

    Returns
    -------
    Simulation

    Raises
    ------
    KeyError
        Unknown algorithm.
    OptionError
        Unknown option, or one out of range.
    """
    if isinstance(algorithm, Agent):
        agent = algorithm
    else:
        steps = horizon or environment.horizon
        agent = make_agent(algorithm, dim=environment.dim, horizon=steps, **(options or {}))
    fit = run_fit or _fit
    log = _Log(environment, seed, n_rounds, measure, is_told=bool(agent.covariates.names))
    estimates: list[Estimate] = []
    while log.n_played < n_rounds:
        window = agent.next_fit(log.n_played)
        due = n_rounds if window is None else min(window.due, n_rounds)
        if agent.learns_within_epoch:
            log.play_rounds(agent, due)
        else:
            log.play_block(agent, due)
        if window is not None and window.due == log.n_played:
            estimate = fit(agent, log.history().over(window))
            agent.install(estimate)
            estimates.append(estimate)
    return Simulation(
        agent, log.arms, log.rewards, log.selected, cumulative_regret(log.gaps), estimates
    )


def _fit(agent: Agent, history: History) -> Estimate:
    return agent.fit(history)


class _Log:
    """The rounds played so far, in arrays of the final length."""

    def __init__(
        self,
        environment: LongHorizonEnvironment,
        seed: int,
        n_rounds: int,
        measure: Measure | None,
        *,
        is_told: bool,
    ) -> None:
        self.environment = environment
        self.is_told = is_told  # of the world's covariates
        self.measure = measure or self._every
        self.seed = seed
        self.n_played = 0
        self.arms: Ints = np.zeros(n_rounds, dtype=np.int64)
        self.rewards: Floats = np.zeros(n_rounds)
        self.selected: Floats = np.zeros((n_rounds, environment.dim))
        self.gaps: Floats = np.zeros(n_rounds)
        nothing = np.zeros((0, environment.dim)), np.zeros(0)
        self._carried: Floats = np.zeros((n_rounds, *environment.carried(*nothing).shape[1:]))
        self._numbers: Ints = np.arange(1, n_rounds + 1)

    def history(self) -> History:
        """Return the rounds played so far, as views."""
        n = self.n_played
        measured = self.measure(self.rewards[:n])
        covariates = self.environment.covariates(1, n) if self.is_told else None
        part = Trajectory(self.selected[:n], measured, covariates=covariates)
        groups = () if covariates is None else (1,) * covariates.shape[1]
        return History(self.environment.dim, {TRAJECTORY: part}, groups=groups)

    def _every(self, rewards: Floats) -> Measurements:
        return Measurements.single(self._numbers[: len(rewards)], rewards)

    def play_block(self, agent: Agent, last: int) -> None:
        """Play up to round `last` with the agent as it is."""
        while self.n_played < last:
            first, stop = self.n_played + 1, min(last, self.n_played + BLOCK_ROUNDS)
            contexts = self.environment.contexts(first, stop)
            draws = [Draw(self.seed, TRAJECTORY, t) for t in range(first, stop + 1)]
            self._record(contexts, agent.choose_block(contexts, draws))
            self.rewards[first - 1 : stop] = self.environment.rewards(self._carried[:stop], first)

    def play_rounds(self, agent: Agent, last: int) -> None:
        """Play up to round `last`; the agent learns from each reward."""
        first = self.n_played + 1
        for start in range(first, last + 1, BLOCK_ROUNDS):
            block = self.environment.contexts(start, min(last, start + BLOCK_ROUNDS - 1))
            for t, contexts in enumerate(block, start):
                choice = agent.choose(contexts, Draw(self.seed, TRAJECTORY, t))
                self._record(contexts[None], np.array([choice.arm]))
                reward = self.environment.rewards(self._carried[:t], t)[0]
                self.rewards[t - 1] = reward
                agent.observe(self.history(), TRAJECTORY, t, float(reward))

    def _record(self, contexts: Floats, arms: Ints) -> None:
        n, start = len(arms), self.n_played
        rows = slice(start, start + n)
        signals = self.environment.signals(contexts, start + 1)
        self.arms[rows] = arms
        self.selected[rows] = contexts[np.arange(n), arms]
        chosen = signals[np.arange(n), arms]
        self._carried[rows] = self.environment.carried(self.selected[rows], chosen)
        self.gaps[rows] = regret_gaps(signals, arms, self.environment.weights)
        self.n_played += n
