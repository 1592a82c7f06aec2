"""Replay a logged trajectory through an agent that did not make it.

The agent learns from the log, at its own fits. Between two fits its estimate predicts rewards that
no fit has used: a fair test under any logging policy. What the agent would have *earned* needs the
logging probabilities, and more evidence the more lags pay.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.design.levels import known_level
from lhb_engine.estimate import Estimate, signal_of
from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.evaluation.off_policy import DoublyRobust, ImportanceWeights, Support
from lhb_engine.history import FitWindow, Floats, History, Ints, Measurements, Trajectory
from lhb_engine.randomness import Draw

NO_ARM = -1  # of a round without action


@dataclass(frozen=True)
class Chunk:
    """Logged rounds in the order in which they were played."""

    selected: Floats  # (n, dim): selected contexts; zero for a round without action
    rewards: Floats  # (n,): NaN where missing
    # (n, K, dim): contexts of all arms; None where they were not logged
    contexts: Floats | None = None
    arms: Ints | None = None  # (n,): the arms taken; `NO_ARM` in a round without action
    # (n,): the logging policy's probabilities of these arms; NaN where they are not known
    propensities: Floats | None = None
    # (n,): key of each round's trajectory; None: all are of the one without a key
    trajectories: np.ndarray | None = None
    # (n, n_covariates): what else moves the rewards; None: nothing is told
    covariates: Floats | None = None

    def __len__(self) -> int:
        return len(self.selected)

    def part(self, start: int, stop: int) -> "Chunk":
        """Return rounds start..stop-1."""
        return self.rows(slice(start, stop))

    def rows(self, which: slice | Ints) -> "Chunk":
        """Return some of the rounds."""
        optional = self.contexts, self.arms, self.propensities, self.trajectories, self.covariates
        return Chunk(
            self.selected[which],
            self.rewards[which],
            *(None if a is None else a[which] for a in optional),  # type: ignore[arg-type]
        )

    def by_trajectory(self) -> Iterator[tuple[str, Ints]]:
        """Yield each trajectory's key with its rows, in order of their first rounds here."""
        if self.trajectories is None:
            yield "", np.arange(len(self))
            return
        rows: dict[str, list[int]] = {}
        for i, key in enumerate(self.trajectories.tolist()):
            rows.setdefault(key, []).append(i)
        for key, places in rows.items():
            yield key, np.array(places)


class LoggedRounds(NamedTuple):
    """Rounds of one trajectory: what was selected and earned, numbers in the log, covariates."""

    selected: Floats  # (n, dim)
    rewards: Floats  # (n,): NaN where missing
    positions: Ints
    told: Floats  # (n, n_covariates)

    def since(self, first: int) -> "LoggedRounds":
        """Return a copy of the rounds from one on, which is counted from 0."""
        parts: Any = [part[first:].copy() for part in self]
        return LoggedRounds(*parts)


class LogTail:
    """The rounds of a trajectory that fits, predictions and weights still need.

    Weights look back `reach` lags. `n_rounds` counts the trajectory's rounds so far; `first_kept`
    is the number of the first that is still here. `level` and `response`, how far its theta is from
    everybody's, are what the last fit's rounds say of the trajectory's own.
    """

    def __init__(self, dim: int, reach: int) -> None:
        self.n_rounds = 0
        self.first_kept = 1
        self.level = 0.0
        self.response: Floats = np.zeros(dim)
        self._parts: list[LoggedRounds] = []
        # of the rounds before the next one: nothing was chosen before the first, by any policy
        self._ratios: Floats = np.ones(reach)
        self._changes: Floats = np.zeros((reach, dim))

    def __len__(self) -> int:
        return sum(len(part.rewards) for part in self._parts)

    def add(self, rounds: LoggedRounds) -> None:
        """Add a copy of the next rounds."""
        self._parts.append(rounds.since(0))
        self.n_rounds += len(rounds.rewards)

    def lagged(self, ratios: Floats, changes: Floats, lags: tuple[int, ...]) -> tuple[Floats, ...]:
        """Return what the next rounds' rewards hang on, and remember it for those after them.

        `ratios` (n,) are of the rounds just added: the policy's probability of the arm over the
        log's; `changes` (n, dim) the context that the policy expects to choose, less the chosen
        one. The results are those of the rounds at each lag before, (n, n_lags) and (n, n_lags,
        dim).
        """
        n, reach = len(ratios), len(self._ratios)
        all_ratios = np.concatenate([self._ratios, ratios])
        all_changes = np.concatenate([self._changes, changes])
        kept = len(all_ratios) - reach
        self._ratios, self._changes = all_ratios[kept:], all_changes[kept:]
        places = np.arange(reach, reach + n)[:, None] - np.array(lags, dtype=np.int64)[None, :]
        return all_ratios[places], all_changes[places]

    def last(self, n: int) -> LoggedRounds:
        """Return the last n rounds, or all where there are fewer."""
        some: list[LoggedRounds] = []
        for part in reversed(self._parts):
            some.insert(0, part)
            if sum(len(one.rewards) for one in some) >= n:
                break
        joined = _joined(some)
        return joined.since(max(0, len(joined.rewards) - n))

    @property
    def rounds(self) -> LoggedRounds:
        """All that are still here."""
        if len(self._parts) > 1:
            self._parts = [_joined(self._parts)]
        return self._parts[0]

    def trajectory(self) -> Trajectory:
        """Return the rounds that are still here, with their rewards."""
        selected, rewards, positions, told = self.rounds
        places = np.flatnonzero(np.isfinite(rewards))
        measured = Measurements.single(places + self.first_kept, rewards[places])
        covariates = told if told.shape[1] else None
        return Trajectory(selected, measured, self.first_kept, positions, covariates)

    def forget(self, window: FitWindow | None, horizon: int) -> None:
        """Drop what neither the next fit nor a prediction needs."""
        cut = len(self) - horizon
        if window is not None:
            inside = int(np.searchsorted(self.rounds.positions, window.first))
            cut = min(cut, inside - (window.n_lags - 1))
        if cut > 0:
            self._parts = [self.rounds.since(cut)]
            self.first_kept += cut


def _joined(parts: list[LoggedRounds]) -> LoggedRounds:
    return LoggedRounds(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Evaluation:
    """Result of a replay; a number that cannot be given is a `Refusal` with the reason."""

    # n_rounds, n_held_out: rounds replayed; rounds predicted before a fit used them
    n_rounds: int
    n_held_out: int
    error: Interval | Refusal  # mean squared error of the predictions
    # mean squared error, on the same rounds, of the mean reward so far
    naive_error: Interval | Refusal
    skill: Interval | Refusal  # 1 - error / naive_error; above 0 the estimate predicts something
    lags: tuple[int, ...]  # lags that value estimates take to pay
    # mean reward where the agent agrees with a uniform log (Li et al. 2011)
    replay: Interval | Refusal
    # mean reward by self-normalised importance weights, multiplied over the lags
    weighted: Interval | Refusal
    logged: Interval | Refusal  # mean reward of the log itself
    # mean reward by the estimates, corrected by the log (`DoublyRobust`)
    robust: Interval | Refusal
    gain: Interval | Refusal  # `robust` less the log's mean, on the same rounds
    estimate: Estimate | None  # the last one with a direction


class LogReplay:
    """Replay a log chunk by chunk, keeping only what the next fit needs.

    The agent is fresh; chunks have the covariates that it names, in this order. `lags` are taken to
    pay, for value estimates; None: there are none. `robust_lags` are those of the doubly robust
    value, by default the same: agents are compared on equal ones.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        seed: int = 0,
        lags: tuple[int, ...] | None = None,
        robust_lags: tuple[int, ...] | None = None,
    ) -> None:
        self.agent = agent
        self.seed = seed
        self.lags = lags
        self.n_rounds = 0
        self.estimate: Estimate | None = None
        self._tails: dict[str, LogTail] = {}
        self._batches: dict[tuple[str, int], int] = {}
        self._length = max(25, agent.horizon)  # of a batch, in rounds of a trajectory
        self._n_known, self._sum_known = 0, 0.0
        self._mean = 0.0  # of the rewards up to the last fit
        self._error, self._naive, self._logged = BatchRatio(), BatchRatio(), BatchRatio()
        self._support = Support()
        own = tuple(sorted(lags or ()))
        robust = own if robust_lags is None else tuple(sorted(robust_lags))
        self._weights = ImportanceWeights(own, self._support)
        self.robust = DoublyRobust(robust, self._support)
        self._all_lags = tuple(sorted({*own, *robust}))
        self._own = [self._all_lags.index(lag) for lag in own]
        self._robust = [self._all_lags.index(lag) for lag in robust]

    def feed(self, chunk: Chunk) -> None:
        """Replay the next rounds of the log; ValueError for a propensity that is not positive."""
        if chunk.propensities is not None and (chunk.propensities <= 0).any():
            raise ValueError("a logged propensity must be positive")
        start = 0
        while start < len(chunk):
            window = self.agent.next_fit(self.n_rounds)
            stop = len(chunk)
            if window is not None:
                stop = min(stop, start + window.due - self.n_rounds)
            self._play(chunk.part(start, stop))
            start = stop
            if window is not None and window.due == self.n_rounds:
                self._fit()
        window = self.agent.next_fit(self.n_rounds)
        for key, _ in chunk.by_trajectory():
            self._tails[key].forget(window, self.agent.horizon)

    def result(self) -> Evaluation:
        """Return what is known so far."""
        error, naive = self._error.interval(), self._naive.interval()
        n = round(error.effective)
        no_estimate = Refusal(f"{self.agent.name} gave no estimate that predicts rewards")
        no_lags = Refusal("no lags were given") if self.lags is None else None
        is_scored = n >= 2 and self.estimate is not None
        logged = self._logged.interval()
        skill: Interval | Refusal = Refusal("all held-out rewards are equal")
        if is_scored and naive.value != 0.0:
            ratio = self._error.against(self._naive)
            skill = Interval(1 - ratio.value, 1 - ratio.high, 1 - ratio.low, error.effective)
        return Evaluation(
            n_rounds=self.n_rounds,
            n_held_out=n,
            error=error if is_scored else no_estimate,
            naive_error=naive if is_scored else no_estimate,
            skill=skill if is_scored else no_estimate,
            lags=self.lags or (),
            replay=no_lags or self._weights.replay(),
            weighted=no_lags or self._weights.weighted(),
            logged=logged if self._n_known else Refusal("the log holds no rewards"),
            robust=no_lags or self.robust.robust(),
            gain=no_lags or self.robust.gain(),
            estimate=self.estimate,
        )

    def _play(self, chunk: Chunk) -> None:
        positions = np.arange(self.n_rounds + 1, self.n_rounds + len(chunk) + 1)
        if self.agent.learns_within_epoch:
            for i in range(len(chunk)):
                self._play_some(chunk.part(i, i + 1), positions[i : i + 1])
                self._observe(chunk, i)
        else:
            self._play_some(chunk, positions)
        self.n_rounds += len(chunk)
        rewards = chunk.rewards[np.isfinite(chunk.rewards)]
        self._n_known += len(rewards)
        self._sum_known += float(rewards.sum())

    def _play_some(self, chunk: Chunk, positions: Ints) -> None:
        """Play rounds between which the agent does not change."""
        for key, rows in chunk.by_trajectory():
            if key not in self._tails:
                self._tails[key] = LogTail(self.agent.dim, max(self._all_lags, default=0))
            self._play_part(key, chunk.rows(rows), positions[rows])

    def _play_part(self, key: str, chunk: Chunk, positions: Ints) -> None:
        """Play rounds of one trajectory."""
        tail = self._tails[key]
        rounds = np.arange(tail.n_rounds + 1, tail.n_rounds + len(chunk) + 1)
        told, n_told = chunk.covariates, len(self.agent.covariates.names)
        if told is None or not n_told:
            told = np.zeros((len(chunk), n_told))
        tail.add(LoggedRounds(chunk.selected, chunk.rewards, positions, told))
        batches = self._batches_of(key, rounds)
        guess = self._predict(tail, rounds)
        measured = np.isfinite(chunk.rewards)
        rewards, ones = chunk.rewards[measured], np.ones(int(measured.sum()))
        self._logged.add(rewards, ones, batches[measured])
        if self.estimate is not None:
            self._error.add((rewards - guess[measured]) ** 2, ones, batches[measured])
            self._naive.add((rewards - self._mean) ** 2, ones, batches[measured])
        if self.lags is not None:
            self._weigh(key, chunk, rounds, positions, guess, batches)

    def _weigh(
        self, key: str, chunk: Chunk, rounds: Ints, positions: Ints, guess: Floats, batches: Ints
    ) -> None:
        """Add the rounds to the values."""
        draws = [
            Draw(self.seed, key, *place)
            for place in zip(rounds.tolist(), positions.tolist(), strict=True)
        ]
        response = self._tails[key].response
        chances, changes = self._chances(chunk, draws, response)
        logged = np.full(len(chunk), np.nan) if chunk.propensities is None else chunk.propensities
        acted = np.full(len(chunk), True) if chunk.arms is None else chunk.arms != NO_ARM
        n_arms = 0 if chunk.contexts is None else chunk.contexts.shape[1]
        self._support.add(chances[acted], logged[acted], n_arms)
        logged = np.where(acted, logged, 1.0)
        ratios, changes = self._tails[key].lagged(chances / logged, changes, self._all_lags)
        self._weights.add(chunk.rewards, ratios[:, self._own], chances, batches)
        lags = np.array(self.robust.lags, dtype=np.int64)
        change = np.zeros(len(chunk))
        if self.estimate is not None and self.estimate.theta is not None:
            paid = self.estimate.pays
            profile = paid if paid.ndim == 2 else np.outer(paid, self.estimate.theta)
            profile = profile + np.outer(self.estimate.lag_weights, response)
            phi = np.zeros((max(self.agent.horizon, len(profile)), self.agent.dim))
            phi[: len(profile)] = profile
            change = np.tensordot(changes[:, self._robust], phi[lags], 2)
        self.robust.add(chunk.rewards, guess, change, ratios[:, self._robust], batches)

    def _chances(self, chunk: Chunk, draws: list[Draw], response: Floats) -> tuple[Floats, Floats]:
        """P(logged arm) under the agent, (n,); and what it expects to choose, less the chosen.

        NaN, and zero, where the contexts of all arms are not known. A round without action would
        have had none under the agent either.
        """
        chances, changes = np.full(len(chunk), np.nan), np.zeros(chunk.selected.shape)
        if chunk.arms is not None:
            chances[chunk.arms == NO_ARM] = 1.0
        if chunk.contexts is None or chunk.arms is None:
            return chances, changes
        agent = self.agent
        if response.any() and agent.theta is not None:
            agent = agent.responding(agent.theta + response)
        for i, (contexts, arm) in enumerate(zip(chunk.contexts, chunk.arms, strict=True)):
            if arm == NO_ARM:
                continue
            own = agent.probabilities(agent.ranking(contexts, draws[i]))
            chances[i] = own[arm]
            changes[i] = own @ contexts - chunk.selected[i]
        return chances, changes

    def _observe(self, chunk: Chunk, i: int) -> None:
        if np.isfinite(chunk.rewards[i]):
            key = "" if chunk.trajectories is None else chunk.trajectories[i]
            tail = self._tails[key]
            history = History(self.agent.dim, {key: tail.trajectory()})
            self.agent.observe(history, key, tail.n_rounds, float(chunk.rewards[i]))

    def _predict(self, tail: LogTail, rounds: Ints) -> Floats:
        """Return what the newest estimate expects of the last rounds; the mean without one."""
        estimate, n = self.estimate, len(rounds)
        if estimate is None or estimate.theta is None:
            return np.full(n, self._mean)
        selected = tail.last(n + len(estimate.lag_weights) - 1).selected
        signal = signal_of(selected, estimate.theta, estimate.pays)
        if tail.response.any():
            signal = signal + signal_of(selected, tail.response, estimate.lag_weights)
        expected = signal[len(selected) - n :] + (estimate.intercept or 0.0) + tail.level
        if estimate.effects is None:
            return np.asarray(expected)
        columns = self.agent.covariates.columns(rounds.astype(np.float64))
        beside = np.concatenate([tail.last(n).told, columns], axis=1)
        effects = np.array(estimate.effects["values"])
        return np.asarray(expected + beside @ effects[: beside.shape[1]])

    def _batches_of(self, key: str, rounds: Ints) -> Ints:
        """Return the numbers of the batches that rounds of a trajectory are in."""
        batches = self._batches
        first, last = int(rounds[0]) // self._length, int(rounds[-1]) // self._length
        numbers = [batches.setdefault((key, b), len(batches)) for b in range(first, last + 1)]
        return np.array(numbers)[rounds // self._length - first]

    def _fit(self) -> None:
        window = self.agent.next_fit(self.n_rounds - 1)
        assert window is not None
        parts = {key: tail.trajectory() for key, tail in self._tails.items()}
        self._mean = self._sum_known / max(self._n_known, 1)
        groups = (1,) * len(self.agent.covariates.names)
        estimate = self.agent.fit(History(self.agent.dim, parts, groups=groups).over(window))
        self.agent.install(estimate)
        if estimate.theta is not None:
            self.estimate = estimate
            for key, tail in self._tails.items():
                if self.agent.has_responses:
                    own = self.agent.of(key, tail.trajectory()).theta
                    if own is not None:
                        tail.response = own - estimate.theta
                tail.level = self._level(tail, estimate)

    def _level(self, tail: LogTail, estimate: Estimate) -> float:
        """Return the expected level of a trajectory, by its latest rounds."""
        tail.level, n = 0.0, min(len(tail), self.agent.sizes.stretch(self.agent.horizon))
        rounds = np.arange(tail.n_rounds - n + 1, tail.n_rounds + 1)
        errors = tail.last(n).rewards - self._predict(tail, rounds)
        spread = (estimate.levels or {"spread": 0.0})["spread"]
        errors = errors[np.isfinite(errors)]
        return known_level(errors, np.ones(len(errors)), spread, estimate.sigma_hat or 1.0)[0]
