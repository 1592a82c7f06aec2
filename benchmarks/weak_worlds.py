"""Weak signals and few rounds: `lhb bench decide --board weak`.

A season of a week, a line and a base twenty times the effect lie over rewards whose signal has 0.05
to 0.5 of the standard deviation of their noise; on the board weak_power, 0.05 to 0.5 of the noise's
power, its variance. A rota, each arm in turn, chose for some days; then an agent chooses for 100 to
400. The score is the share of what the best arms earn over chance, in the rounds of the agent. The
rival knows the family of the kernel: a Bayesian ridge on contexts carried by each kernel of the
family, averaged by their evidence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed

from benchmarks.regret_scoreboard import variant_of
from lhb_engine.agents import Agent, make_agent
from lhb_engine.agents.anytime import Anytime
from lhb_engine.agents.options import Options
from lhb_engine.design.covariates import Covariates, Seasonality
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, Floats, History, Ints
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import Simulation, simulate

HORIZON = 28
HISTORIES = {"no history": 0, "half a year": 182, "one year": 365, "two years": 730}
FAMILIES = ("fades", "bends", "spikes")
TOLD: dict[str, Any] = {"seasonality": [{"period": 7, "harmonics": 3}], "trend": True}
RIDGE = "ridge"
_BESIDE = Covariates((Seasonality(period=7, harmonics=3),), trend=True)
RATIOS = 10.0 ** np.arange(-4.0, 2.1)  # variance of an effect over that of the noise
REFIT = 7  # rounds between two fits of the rival


def kernels(family: str) -> Floats:
    """Return the kernels of a family, (n, h), each of sum 1."""
    lags = np.arange(HORIZON)
    if family == "fades":
        found = [share**lags for share in np.linspace(0.3, 0.95, 14)]
    elif family == "bends":
        found = [
            np.exp(-0.5 * ((lags - top) / width) ** 2) for top in range(2, 15) for width in (1.5, 3)
        ]
    else:
        found = [np.isin(lags, pair) for pair in combinations(lags.tolist(), 2)]
    return np.array([kernel / np.sum(kernel) for kernel in found], dtype=np.float64)


class WeakWorld(LongHorizonEnvironment):
    """Half of an arm's context is its own and half is the round's; rewards as above."""

    rounds: int
    family: str
    added: Floats  # season, line and base of rounds 1, 2, ...
    own: Floats  # of each arm, (K, d)

    @classmethod
    def of(cls, seed: int, before: int, *, power: bool = False) -> Self:
        """Draw the world of one seed, whose agent begins after `before` rounds."""
        rng = np.random.default_rng([32, seed])
        family = FAMILIES[seed % 3]
        dim, arms = int(rng.integers(3, 9)), int(rng.integers(3, 7))
        theta = rng.standard_normal(dim)
        theta /= np.linalg.norm(theta)
        world = cls(theta, rng.choice(kernels(family)), n_arms=arms, seed=seed)
        world.family, world.rounds = family, int(rng.integers(100, 401))
        world.own = rng.uniform(-1.0, 1.0, (arms, dim))
        signals = world.signals(world.contexts(1, 4000))[
            np.arange(4000), rng.integers(arms, size=4000)
        ]
        effect = float(np.std(np.convolve(signals, world.weights)[HORIZON:4000]))
        ratio = float(0.05 * 10.0 ** rng.random())
        world.noise = effect / (np.sqrt(ratio) if power else ratio)
        rounds = np.arange(1, before + world.rounds + 1)
        week = 2.0 * effect * rng.standard_normal(7)
        line = rng.uniform(-3.0, 3.0) * effect * rounds / len(rounds)
        world.added = 20.0 * effect + week[rounds % 7] + line
        return world

    def contexts(self, first: int, last: int) -> Floats:
        """Return the contexts of all arms in rounds first..last, (n, K, dim)."""
        return np.asarray(0.5 * (super().contexts(first, last) + self.own))

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards, season, line and base."""
        return np.asarray(super().rewards(signals, first) + self.added[first - 1 : len(signals)])


class AfterRota(Agent):
    """An agent that finds `before` rounds of another policy, and fits all of them at once."""

    before = 0

    def choose_many(self, contexts: Floats, draws: Sequence[Draw]) -> Ints:
        """Choose each arm in turn in rounds of the rota."""
        n = sum(draw.round <= self.before for draw in draws)
        rota = np.array([draw.round % contexts.shape[1] for draw in draws[:n]], dtype=np.int64)
        return np.concatenate([rota, super().choose_many(contexts[n:], draws[n:])])

    def next_fit(self, n_rounds: int) -> FitWindow | None:
        """Return the window of the history, then the agent's own."""
        if n_rounds < self.before:
            return self.fit_now(self.before)
        return super().next_fit(n_rounds)


class Ridge(Agent):
    """Greedy in the posterior mean of a Bayesian ridge over a family of kernels."""

    family = ""

    def fit_now(self, n_rounds: int) -> FitWindow:
        """Return the window of all rounds."""
        return FitWindow(n_rounds, 1, n_rounds, min(self.horizon, n_rounds), n_rounds)

    def next_fit(self, n_rounds: int) -> FitWindow:
        """Return a window of all rounds, once a week."""
        return self.fit_now(n_rounds + REFIT)

    def fit(self, history: History) -> Estimate:
        """Return the mean over kernels and ratios of variances, weighted by their evidence."""
        part = history.trajectories[""]
        n, d = part.contexts.shape
        beside = np.column_stack([np.ones(n), _BESIDE.columns(np.arange(1.0, n + 1.0))])
        base, _ = np.linalg.qr(beside)
        lagged = np.zeros((n, self.horizon, d))
        for lag in range(min(self.horizon, n)):
            lagged[lag:, lag] = part.contexts[: n - lag]
        flat = lagged.reshape(n, -1)
        flat = flat - base @ (base.T @ flat)
        y = part.measurements.value - base @ (base.T @ part.measurements.value)
        gram = (flat.T @ flat).reshape(self.horizon, d, self.horizon, d)
        moments, square = (flat.T @ y).reshape(self.horizon, d), float(y @ y)
        family = kernels(self.family)
        a = np.einsum("nk,kilj,nl->nij", family, gram, family, optimize=True)
        values, vectors = np.linalg.eigh(a)
        g = np.einsum("nij,ni->nj", vectors, family @ moments)
        shrunk = 1.0 / (1.0 / RATIOS[:, None, None] + np.maximum(values, 0.0))  # (ratios, n, d)
        left = square - np.sum(g**2 * shrunk, axis=2)
        freedom = max(1, n - base.shape[1])
        determinant = np.sum(np.log1p(RATIOS[:, None, None] * np.maximum(values, 0.0)), axis=2)
        evidence = -0.5 * determinant - 0.5 * freedom * np.log(left)
        share = np.exp(evidence - evidence.max())
        share /= share.sum()
        means = np.einsum("nij,rnj->rni", vectors, g * shrunk)
        theta = np.einsum("rn,rni->i", share, means)
        weights = np.einsum("rn,nk->k", share, family)
        return Estimate("ok", weights, theta=theta, n_rows=n, first_round=1, last_round=n)


def agent_of(algorithm: str, world: WeakWorld, before: int) -> Agent:
    """Return a fresh agent: `ridge`, `anytime`, or a variant such as "anytime acceptance=3"."""
    if algorithm == RIDGE:
        kind: type[Agent] = type("RidgeAfterRota", (AfterRota, Ridge), {"family": world.family})
        agent = kind(world.dim, HORIZON, Options())
    else:
        name, _, changes = algorithm.partition(" ")
        more, settings = variant_of(changes)
        told = TOLD if name == Anytime.name else {}
        plain = make_agent(name, dim=world.dim, horizon=HORIZON, **told | more)
        kind = type("AgentAfterRota", (AfterRota, type(plain)), {})
        agent = kind(world.dim, HORIZON, plain.options)
        if isinstance(agent, Anytime):
            agent.settings = settings
    agent.before = before  # type: ignore[attr-defined]
    return agent


@dataclass(frozen=True)
class Played:
    """What an agent earned over chance, and what the best arms earn over it, in its rounds."""

    world: WeakWorld
    before: int
    run: Simulation

    @cached_property
    def possible(self) -> float:
        """What the best arms earn over uniform play."""
        first, last = self.before + 1, self.before + self.world.rounds
        signals = self.world.signals(self.world.contexts(first, last))
        return float(np.sum(signals.max(axis=1) - signals.mean(axis=1)))

    @property
    def share(self) -> float:
        """The agent's share of it; below 0: it earned less than chance."""
        regret = self.run.regret
        lost = float(regret[-1] - (regret[self.before - 1] if self.before else 0.0))
        return 1.0 - lost / self.possible


def play(algorithm: str, before: int, seed: int, *, power: bool = False) -> float:
    """Return the share of the possible gain that an algorithm has in the world of a seed."""
    world = WeakWorld.of(seed, before, power=power)
    agent = agent_of(algorithm, world, before)
    run = simulate(agent, world, n_rounds=before + world.rounds, seed=seed)
    return Played(world, before, run).share


HEADER = (
    "| history | algorithm | share of the possible gain | below chance | less ridge |\n|-|-|-|-|-|"
)


def run(
    names: Sequence[str],
    algorithms: Sequence[str],
    seeds: Sequence[int],
    *,
    power: bool = False,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Play the rival and every algorithm after each history.

    Returns
    -------
    list of dict
        For each: the shares by seed, their mean and its standard error, the number of seeds below
        chance, and the mean of what they are less than the rival's, with its standard error.
    """
    rows: list[dict[str, Any]] = []
    for name in names:
        rival: Floats | None = None
        for algorithm in dict.fromkeys([RIDGE, *algorithms]):
            played = partial(play, algorithm, HISTORIES[name], power=power)
            shares = np.array(Parallel(n_jobs=jobs)(delayed(played)(seed) for seed in seeds))
            rival = shares if rival is None else rival
            row = {
                "history": name,
                "algorithm": algorithm,
                "shares": shares.tolist(),
                "share": _mean(shares),
                "below_chance": int(np.sum(shares < 0.0)),
                "less_ridge": _mean(shares - rival),
            }
            rows.append(row)
            progress(line(row))
    return rows


def _mean(values: Floats) -> list[float]:
    """Return a mean and its standard error."""
    return [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]


def line(row: dict[str, Any]) -> str:
    """Format one row of a Markdown table."""
    (share, by), (less, error) = row["share"], row["less_ridge"]
    return (
        f"| {row['history']} | {row['algorithm']} | {share:.2f} ± {by:.2f} | "
        f"{row['below_chance']} of {len(row['shares'])} | {less:+.2f} ± {error:.2f} |"
    )
