"""Replay a logged trajectory through an agent that did not make it.

The agent learns from the log, at its own fits. Between two fits its estimate predicts rewards that
no fit has used: a fair test under any logging policy. What the agent would have *earned* needs the
logging probabilities, and more evidence the more lags pay.
"""

from dataclasses import dataclass
from math import nan

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.estimate import Estimate
from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.evaluation.importance_weights import ImportanceWeights
from lhb_engine.history import Floats, History, Ints, Measurements, Trajectory
from lhb_engine.randomness import Draw

TRAJECTORY = ""


@dataclass(frozen=True)
class Block:
    """Consecutive logged rounds.

    Attributes
    ----------
    selected : (n, dim) array
        Selected contexts; zero for a round without action.
    rewards : (n,) array
        NaN where missing.
    contexts : (n, K, dim) array or None
        Contexts of all arms; None where they were not logged.
    arms : (n,) array or None
        The arms taken.
    propensities : (n,) array or None
        The logging policy's probabilities of these arms.
    """

    selected: Floats
    rewards: Floats
    contexts: Floats | None = None
    arms: Ints | None = None
    propensities: Floats | None = None

    def __len__(self) -> int:
        return len(self.selected)

    def part(self, start: int, stop: int) -> "Block":
        """Return rounds start..stop-1."""
        cut = slice(start, stop)
        optional = (self.contexts, self.arms, self.propensities)
        return Block(
            self.selected[cut],
            self.rewards[cut],
            *(None if a is None else a[cut] for a in optional),  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class Evaluation:
    """Result of a replay; a number that cannot be given is a `Refusal` with the reason.

    Attributes
    ----------
    n_rounds, n_held_out : int
        Rounds replayed; rounds predicted before a fit used them.
    error : Interval or Refusal
        Mean squared error of the predictions.
    naive_error : Interval or Refusal
        Mean squared error, on the same rounds, of the mean reward so far.
    skill : Interval or Refusal
        1 - error / naive_error; above 0 the estimate predicts something.
    lags : tuple of int
        Lags that value estimates take to pay.
    replay : Interval or Refusal
        Mean reward where the agent agrees with a uniform log (Li et al. 2011).
    weighted : Interval or Refusal
        Mean reward by self-normalised importance weights, multiplied over the lags.
    estimate : Estimate or None
        The last one with a direction.
    """

    n_rounds: int
    n_held_out: int
    error: Interval | Refusal
    naive_error: Interval | Refusal
    skill: Interval | Refusal
    lags: tuple[int, ...]
    replay: Interval | Refusal
    weighted: Interval | Refusal
    estimate: Estimate | None


class LogReplay:
    """Replay a log block by block, keeping only what the next fit needs.

    Parameters
    ----------
    agent : Agent
        A fresh agent.
    seed : int
        Seed of its draws.
    lags : tuple of int, optional
        Lags that are taken to pay, for value estimates; None: no value estimates.
    """

    def __init__(self, agent: Agent, *, seed: int = 0, lags: tuple[int, ...] | None = None) -> None:
        self.agent = agent
        self.seed = seed
        self.lags = lags
        self.n_rounds = 0
        self.estimate: Estimate | None = None
        self._kept_from = 1  # number of the first round kept
        self._selected: list[Floats] = []
        self._rewards: list[Floats] = []
        self._n_known, self._sum_known = 0, 0.0
        self._mean = 0.0  # of the rewards up to the last fit
        length = max(25, agent.horizon)
        self._error, self._naive = BatchRatio(length), BatchRatio(length)
        self._weights = None if lags is None else ImportanceWeights(tuple(sorted(lags)), length)

    def feed(self, block: Block) -> None:
        """Replay the next rounds of the log.

        Raises
        ------
        ValueError
            A logged propensity that is not positive.
        """
        if block.propensities is not None and (block.propensities <= 0).any():
            raise ValueError("a logged propensity must be positive")
        start = 0
        while start < len(block):
            window = self.agent.next_fit(self.n_rounds)
            stop = len(block)
            if window is not None:
                stop = min(stop, start + window.due - self.n_rounds)
            self._play(block.part(start, stop))
            start = stop
            if window is not None and window.due == self.n_rounds:
                self._fit()
        self._forget()

    def result(self) -> Evaluation:
        """Return what is known so far."""
        error, naive = self._error.interval(), self._naive.interval()
        n = round(error.effective)
        no_estimate = Refusal(f"{self.agent.name} gave no estimate that predicts rewards")
        no_lags = Refusal("no lags were given")
        known = n >= 2 and self.estimate is not None
        return Evaluation(
            n_rounds=self.n_rounds,
            n_held_out=n,
            error=error if known else no_estimate,
            naive_error=naive if known else no_estimate,
            skill=self._skill(error, naive) if known else no_estimate,
            lags=self.lags or (),
            replay=no_lags if self._weights is None else self._weights.replay(),
            weighted=no_lags if self._weights is None else self._weights.weighted(),
            estimate=self.estimate,
        )

    def _play(self, block: Block) -> None:
        first = self.n_rounds + 1
        self._keep(block)
        self._predict(block, first)
        if self.agent.learns_within_epoch:
            chances = np.concatenate(
                [self._observed(block, i, first + i) for i in range(len(block))]
            )
        else:
            chances = self._chances(block, first)
        self.n_rounds += len(block)
        if self._weights is not None:
            n_arms = 0 if block.contexts is None else block.contexts.shape[1]
            self._weights.add(first, block.rewards, chances, block.propensities, n_arms)
        known = block.rewards[np.isfinite(block.rewards)]
        self._n_known += len(known)
        self._sum_known += float(known.sum())

    def _observed(self, block: Block, i: int, round: int) -> Floats:
        chance = self._chances(block.part(i, i + 1), round)
        if np.isfinite(block.rewards[i]):
            past = self._history(round)
            self.agent.observe(past, TRAJECTORY, round, float(block.rewards[i]))
        return chance

    def _chances(self, block: Block, first: int) -> Floats:
        """P(logged arm) under the agent, (n,); NaN where the contexts of all arms are not known."""
        out = np.full(len(block), nan)
        if self.lags is None or block.contexts is None or block.arms is None:
            return out
        for i, (contexts, arm) in enumerate(zip(block.contexts, block.arms, strict=True)):
            draw = Draw(self.seed, TRAJECTORY, first + i)
            out[i] = self.agent.probabilities(self.agent.ranking(contexts, draw))[arm]
        return out

    def _predict(self, block: Block, first: int) -> None:
        """Add the squared errors on rewards that no fit has used yet."""
        estimate = self.estimate
        if estimate is None or estimate.theta is None:
            return
        n_lags = len(estimate.lag_weights)
        past = self._tail(len(block) + n_lags - 1)
        signal = np.convolve(past @ estimate.theta, estimate.lag_weights)
        guess = signal[len(past) - len(block) : len(past)] + (estimate.intercept or 0.0)
        known = np.isfinite(block.rewards)
        rewards, rounds = block.rewards[known], np.arange(first, first + len(block))[known]
        ones = np.ones(len(rewards))
        self._error.add((rewards - guess[known]) ** 2, ones, rounds)
        self._naive.add((rewards - self._mean) ** 2, ones, rounds)

    def _skill(self, error: Interval, naive: Interval) -> Interval | Refusal:
        if naive.value == 0.0:
            return Refusal("all held-out rewards are equal")
        ratio = self._error.against(self._naive)
        return Interval(1 - ratio.value, 1 - ratio.high, 1 - ratio.low, error.effective)

    def _keep(self, block: Block) -> None:
        self._selected.append(np.array(block.selected, dtype=np.float64))
        self._rewards.append(np.array(block.rewards, dtype=np.float64))

    def _history(self, last: int) -> History:
        """Return the rounds kept, up to `last`."""
        if len(self._selected) > 1:
            self._selected = [np.concatenate(self._selected)]
            self._rewards = [np.concatenate(self._rewards)]
        n = last - self._kept_from + 1
        rewards = self._rewards[0][:n]
        known = np.flatnonzero(np.isfinite(rewards))
        measured = Measurements.single(known + self._kept_from, rewards[known])
        part = Trajectory(self._selected[0][:n], measured, self._kept_from)
        return History(self.agent.dim, {TRAJECTORY: part})

    def _tail(self, n: int) -> Floats:
        """Return the last n selected contexts, or all where there are fewer."""
        parts: list[Floats] = []
        for part in reversed(self._selected):
            parts.insert(0, part)
            if sum(map(len, parts)) >= n:
                break
        joined = np.concatenate(parts)
        return joined[max(0, len(joined) - n) :]

    def _fit(self) -> None:
        window = self.agent.next_fit(self.n_rounds - 1)
        assert window is not None
        history = self._history(self.n_rounds)
        self._mean = self._sum_known / max(self._n_known, 1)
        estimate = self.agent.fit(history.over(window))
        self.agent.install(estimate)
        if estimate.theta is not None:
            self.estimate = estimate

    def _forget(self) -> None:
        """Drop what neither the next fit nor a prediction needs."""
        window = self.agent.next_fit(self.n_rounds)
        need = self.n_rounds - self.agent.horizon + 1
        if window is not None:
            need = min(need, window.first - window.n_lags + 1)
        if need <= self._kept_from:
            return
        cut = need - self._kept_from
        self._selected = [np.concatenate(self._selected)[cut:].copy()]
        self._rewards = [np.concatenate(self._rewards)[cut:].copy()]
        self._kept_from = need
