"""Simulated worlds, played in process or over HTTP with equal actions and estimates.

A *player* takes one algorithm through one world. There is one in process and one over HTTP; they
share settings, seeds and the report.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clients.progress import OnRound, progress
from clients.sdk.client import Client
from clients.sdk.session import Session
from clients.simulation_options import WorldOptions
from lhb_engine.agents import ALGORITHMS, Agent, make_agent
from lhb_engine.blas import one_thread
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History, Ints
from lhb_engine.simulation.environment import (
    PATTERNS,
    LongHorizonEnvironment,
    OwnLags,
    with_weather,
)
from lhb_engine.simulation.play import regret_gaps, simulate

FIT_PATIENCE_SECONDS = 120.0  # for the fit that the last reward makes due
CHUNK_ROUNDS = 1024  # contexts drawn at once


@dataclass(frozen=True)
class SimulationSettings(WorldOptions):
    """One experiment: some algorithms on the same `seeds` worlds."""

    def __post_init__(self) -> None:
        if self.weights not in PATTERNS:
            raise ValueError(f"weights: {self.weights!r} is none of {', '.join(PATTERNS)}")
        if self.profiles not in ("shared", "each"):
            raise ValueError(f"profiles: {self.profiles!r} is none of shared, each")
        if self.sparsity > self.horizon:
            raise ValueError("sparsity: must not exceed horizon")
        for algorithm in self.algorithms:
            if algorithm not in ALGORITHMS:
                raise ValueError(f"algorithm: {algorithm!r} is none of {', '.join(ALGORITHMS)}")
            if not ALGORITHMS[algorithm].needs_truth:
                options = self.options.get(algorithm, {})
                make_agent(algorithm, dim=self.dim, horizon=self.horizon, **options)

    @property
    def n_rounds(self) -> int:
        """Number of rounds in one world."""
        return self.rounds

    @property
    def title(self) -> str:
        """What is played, in words."""
        return f"{self.rounds} rounds: {self.world_words}"

    @property
    def world_words(self) -> str:
        """The worlds, in words."""
        return (
            f"{self.weights} weights{', by feature' if self.profiles == 'each' else ''}, "
            f"s={self.sparsity} h={self.horizon} d={self.dim} "
            f"K={self.arms} noise {self.noise}, {self.seeds} worlds"
        )

    @property
    def world_seeds(self) -> range:
        """The seeds of the worlds; the agent of a world has the world's seed."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def world(self, seed: int) -> LongHorizonEnvironment:
        """Draw the world of one seed, at its first round."""
        kind = LongHorizonEnvironment if self.profiles == "shared" else OwnLags
        kind = with_weather(self.weather, kind) if self.weather else kind
        return kind.draw(
            dim=self.dim,
            horizon=self.horizon,
            n_arms=self.arms,
            noise=self.noise,
            pattern=self.weights,
            sparsity=self.sparsity,
            seed=seed,
        )

    def agent_options(self, algorithm: str, world: LongHorizonEnvironment) -> dict[str, Any]:
        """Return the options of an algorithm, with the truth for one that declares to need it."""
        options = dict(self.options.get(algorithm, {}))
        wanted = ALGORITHMS[algorithm].options_type.__dataclass_fields__
        if self.weather and "covariates" in wanted:
            options.setdefault("covariates", ["weather"])
        if ALGORITHMS[algorithm].needs_truth:
            truth = {"theta": world.theta.tolist(), "weights": world.weights.tolist()}
            options |= {name: value for name, value in truth.items() if name in wanted}
        return options


@dataclass(frozen=True)
class Run:
    """One algorithm in one world. `regret` is cumulative, one number a round."""

    algorithm: str
    seed: int
    arms: Ints
    rewards: Floats
    regret: Floats
    estimates: list[Estimate]
    seconds: float


Player = Callable[[SimulationSettings, str, int, OnRound], Run]


def play_in_process(
    settings: SimulationSettings, algorithm: str, seed: int, on_round: OnRound
) -> Run:
    """Play whole epochs at once with an agent in this process."""
    world = settings.world(seed)
    started = time.perf_counter()
    with one_thread():  # as in the service's fits: the same bits
        played = simulate(
            algorithm,
            world,
            n_rounds=settings.rounds,
            seed=seed,
            horizon=settings.horizon,
            options=settings.agent_options(algorithm, world),
            run_fit=timed_fit,
        )
    seconds = time.perf_counter() - started
    on_round(settings.rounds)
    return Run(
        algorithm, seed, played.arms, played.rewards, played.regret, played.estimates, seconds
    )


def over_http(url: str, *, keep_sessions: bool = False) -> Player:
    """Return a player that drives the service at `url`, and deletes its sessions at the end."""

    def play(settings: SimulationSettings, algorithm: str, seed: int, on_round: OnRound) -> Run:
        world = settings.world(seed)
        started = time.perf_counter()
        with Client(url) as client, ExitStack() as stack:
            session = client.create_session(
                f"simulate-{algorithm}-{seed}-{uuid.uuid4()}",
                algorithm=algorithm,
                dim=settings.dim,
                horizon=settings.horizon,
                seed=seed,
                options=settings.agent_options(algorithm, world),
                refit="blocking",
            )
            if not keep_sessions:
                stack.callback(session.delete)
            arms, rewards, gaps = play_session(session, world, settings.rounds, on_round)
            estimates = [Estimate.from_json(item) for item in settled_estimates(session)]
        seconds = time.perf_counter() - started
        return Run(algorithm, seed, arms, rewards, np.cumsum(gaps), estimates, seconds)

    return play


def play_session(
    session: Session, world: LongHorizonEnvironment, n_rounds: int, on_round: OnRound
) -> tuple[Ints, Floats, Floats]:
    """Play a world through a session, one request a round with the reward of the round before.

    Returns
    -------
    arms, rewards, gaps : (n_rounds,) arrays
        The chosen arms, their rewards, and what each choice adds to the regret.
    """
    arms: Ints = np.zeros(n_rounds, dtype=np.int64)
    rewards = np.zeros(n_rounds)
    nothing = np.zeros((0, world.dim)), np.zeros(0)
    carried = np.zeros((n_rounds, *world.carried(*nothing).shape[1:]))
    gaps = np.zeros(n_rounds)
    late: list[dict[str, Any]] = []
    names = session.info["options"].get("covariates", ())
    for first in range(1, n_rounds + 1, CHUNK_ROUNDS):
        last = min(n_rounds, first + CHUNK_ROUNDS - 1)
        told = world.covariates(first, last)
        for t, contexts in enumerate(world.contexts(first, last), first):
            beside = None
            if names and told is not None:
                beside = dict(zip(names, told[t - first].tolist(), strict=True))
            event = f"round-{t}"
            decision = session.decide(contexts, rewards=late, event_id=event, covariates=beside)
            if decision.round != t:
                raise RuntimeError(f"round {t} was answered as round {decision.round}")
            signals = world.signals(contexts[None], t)[0]
            arms[t - 1] = decision.arm
            chosen = contexts[None, decision.arm], signals[None, decision.arm]
            carried[t - 1] = world.carried(*chosen)[0]
            gaps[t - 1] = regret_gaps(signals[None], arms[t - 1 : t], world.weights)[0]
            rewards[t - 1] = world.rewards(carried[:t], t)[0]
            late = [{"round": t, "value": float(rewards[t - 1])}]
            on_round(1)
    session.rewards(late)
    return arms, rewards, gaps


def settled_estimates(session: Session) -> list[Mapping[str, Any]]:
    """Wait until no fit is due or running, then return every estimate."""
    patience = time.monotonic() + FIT_PATIENCE_SECONDS
    while any(epoch["status"] in ("due", "fitting") for epoch in session.epochs()):
        if time.monotonic() > patience:
            raise TimeoutError(f"a fit of session {session.id} is still not done")
        time.sleep(0.02)
    found = list(session.estimates())
    for item in found:
        if item["status"] == "failed":
            raise RuntimeError(f"a fit of session {session.id} failed: {item['reason']}")
    return [item for item in found if item["status"] != "skipped"]


def simulate_all(
    settings: SimulationSettings,
    url: str | None = None,
    *,
    player: Player | None = None,
    show_progress: bool = False,
    n_side_by_side: int = 8,
    keep_sessions: bool = False,
) -> dict[str, list[Run]]:
    """Play every algorithm on every world; over HTTP, `n_side_by_side` worlds at once.

    `player` is by default the one of a single trajectory.
    """
    if player is None:
        player = play_in_process if url is None else over_http(url, keep_sessions=keep_sessions)
    n_workers = 1 if url is None else n_side_by_side
    with progress(show_progress) as track, ThreadPoolExecutor(n_workers) as pool:
        futures = {}
        for algorithm in settings.algorithms:
            on_round = track(algorithm, settings.n_rounds * settings.seeds)
            futures[algorithm] = [
                pool.submit(player, settings, algorithm, seed, on_round)
                for seed in settings.world_seeds
            ]
        return {name: [future.result() for future in of] for name, of in futures.items()}


def timed_fit(agent: Agent, history: History) -> Estimate:
    """Fit, and note the seconds it took: the engine has no clock."""
    started = time.perf_counter()
    estimate = agent.checked_fit(history)
    return replace(estimate, seconds=time.perf_counter() - started)
