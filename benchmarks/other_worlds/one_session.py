"""A session of `anytime` in this process: decisions by trajectory, each reward before the next."""

from typing import Any

import numpy as np

from lhb_engine.agents import make_agent
from lhb_engine.context_sets import latest_kept, step
from lhb_engine.design.covariates import with_means
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History, Measurements, Trajectory
from lhb_engine.randomness import Draw


class OneSession:
    """The agent, what it was told, what it chose, and the estimates of its fits.

    With `repetition`, rounds of memory, contexts have one column more than `dim`: docs/model.md
    (12.4).
    """

    def __init__(
        self, dim: int, horizon: int, seed: int, repetition: int = 0, **options: Any
    ) -> None:
        self.repetition = repetition
        self.dim, self.seed, self.n_rounds = dim + bool(repetition), seed, 0
        self.agent = make_agent("anytime", dim=self.dim, horizon=horizon, **options)
        self._lately: dict[str, Floats] = {}
        self._next = self.agent.next_fit(0)
        self._rounds: dict[str, list[tuple[int, Floats]]] = {}
        self._told: dict[str, list[tuple[float, ...]]] = {}
        self._rewards: dict[str, list[float]] = {}
        self._sets: dict[int, Floats] = {}
        self.fits: list[Estimate] = []

    def decide(self, trajectory: str, contexts: Floats, told: tuple[float, ...] = ()) -> int:
        """Return the arm for a context set, (K, dim); `told` are the covariates of the option."""
        self.n_rounds += 1
        if self.repetition:
            given, lately = contexts, self._lately.setdefault(trajectory, np.zeros(self.dim - 1))
            contexts = np.column_stack([given, given @ lately])
        if self.n_rounds % step(self.n_rounds) == 0:
            self._sets[self.n_rounds] = contexts
        rounds = self._rounds.setdefault(trajectory, [])
        draw = Draw(self.seed, trajectory, len(rounds) + 1, self.n_rounds)
        arm = int(self.agent.choose(contexts, draw).arm)
        chosen = with_means(contexts[arm], contexts) if self.agent.takes_means else contexts[arm]
        rounds.append((self.n_rounds, chosen))
        self._told.setdefault(trajectory, []).append(told)
        if self.repetition:
            self._lately[trajectory] = lately + (given[arm] - lately) / self.repetition
        return arm

    def reward(self, trajectory: str, value: float | None) -> None:
        """Take the reward of the latest decision, None where none comes; fit if a fit is due."""
        self._rewards.setdefault(trajectory, []).append(np.nan if value is None else value)
        due = self._next
        if due is not None and due.due == self.n_rounds:
            self.fits.append(self.agent.checked_fit(self._history().over(due)))
            self.agent.install(self.fits[-1])
            self._next = self.agent.next_fit(self.n_rounds)

    def _history(self) -> History:
        parts = {}
        for key, rounds in sorted(self._rounds.items()):
            values = np.array(self._rewards[key])
            come = np.isfinite(values)
            measured = Measurements.single(np.flatnonzero(come) + 1, values[come])
            contexts = np.array([chosen for _, chosen in rounds])
            positions = np.array([number for number, _ in rounds])
            told = np.array(self._told[key], np.float64)
            parts[key] = Trajectory(contexts, measured, positions=positions, covariates=told)
        sets = {n: self._sets[n] for n in latest_kept(self.n_rounds) if n in self._sets}
        groups = (1,) * len(self.agent.covariates.names)
        return History(self.dim, parts, sets=sets, groups=groups)
