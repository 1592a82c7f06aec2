"""Simulated worlds of many users, in process or over HTTP with many clients at once.

One session serves all users, a trajectory each. Rewards may come late, twice, out of order or
never. In process, rounds are taken in order of time. Over HTTP every client plays its own users in
that order, so that rounds of different clients may come in any order.
"""

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clients.progress import OnRound
from clients.sdk.client import Client
from clients.sdk.session import Session
from clients.simulation_options import UserOptions
from clients.simulator import Player, Run, SimulationSettings, settled_estimates, timed_fit
from lhb_engine.blas import one_thread
from lhb_engine.estimate import Estimate
from lhb_engine.history import Ints
from lhb_engine.simulation.play import regret_gaps, simulate_users
from lhb_engine.simulation.users import Transport, UserEnvironment, Visits


@dataclass(frozen=True)
class UserSettings(UserOptions, SimulationSettings):
    """One experiment with many users: `rounds` is the mean number of rounds of a user."""

    rounds: int = 40
    transport: Transport = field(default_factory=Transport)

    def __post_init__(self) -> None:
        """Check the values; a small world of them shows what is wrong with users and rounds."""
        super().__post_init__()
        Visits.draw(min(self.users, 1), self.rounds, self.lengths, arriving=self.arriving)
        for name in ("spread", "levels", "groups", "between"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: must not be negative")

    @property
    def n_rounds(self) -> int:
        """Expected number of rounds of all users."""
        return self.users * self.rounds

    @property
    def title(self) -> str:
        """What is played, in words."""
        return f"{self.users} users of {self.rounds} rounds ({self.lengths}): {self.world_words}"

    def users_world(self, seed: int) -> UserEnvironment:
        """Draw the world of one seed with its users."""
        visits = Visits.draw(
            self.users, self.rounds, self.lengths, arriving=self.arriving, seed=seed
        )
        told = {"spread": self.spread, "levels": self.levels, "between": self.between}
        return UserEnvironment(self.world(seed), visits, groups=self.groups, **told)


def play_users_in_process(
    settings: SimulationSettings, algorithm: str, seed: int, on_round: OnRound
) -> Run:
    """Play all rounds of all users with an agent in this process."""
    assert isinstance(settings, UserSettings)
    users = settings.users_world(seed)
    started = time.perf_counter()
    with one_thread():
        played = simulate_users(
            algorithm,
            users,
            seed=seed,
            horizon=settings.horizon,
            options=settings.agent_options(algorithm, users.world),
            transport=settings.transport,
            run_fit=timed_fit,
        )
    seconds = time.perf_counter() - started
    on_round(len(users.visits))
    return Run(
        algorithm, seed, played.arms, played.rewards, played.regret, played.estimates, seconds
    )


def users_over_http(url: str, n_clients: int) -> Player:
    """Return a player that drives the service at `url` with `n_clients` clients at once."""

    def play(settings: SimulationSettings, algorithm: str, seed: int, on_round: OnRound) -> Run:
        assert isinstance(settings, UserSettings)
        log = UserLog(settings.users_world(seed), settings.transport)
        started = time.perf_counter()
        with Client(url) as client, ThreadPoolExecutor(n_clients) as pool:
            session = client.create_session(
                f"simulate-{algorithm}-{seed}-{uuid.uuid4()}",
                algorithm=algorithm,
                dim=settings.dim,
                horizon=settings.horizon,
                seed=seed,
                options=settings.agent_options(algorithm, log.users.world),
                refit="blocking",
            )
            try:
                playing = [
                    pool.submit(_play_share, url, session.id, log, i, n_clients, on_round)
                    for i in range(n_clients)
                ]
                for share in playing:
                    share.result()
                estimates = [Estimate.from_json(item) for item in settled_estimates(session)]
            finally:
                session.delete()
        seconds = time.perf_counter() - started
        regret = np.cumsum(log.gaps)
        return Run(algorithm, seed, log.arms, log.rewards, regret, estimates, seconds)

    return play


class UserLog:
    """What all clients have done: a row a round, in the planned order of time."""

    def __init__(self, users: UserEnvironment, transport: Transport) -> None:
        n = len(users.visits)
        self.users = users
        self.deliveries = transport.deliveries(users.visits.at, users.world.seed)
        self.arms: Ints = np.zeros(n, dtype=np.int64)
        self.rewards = np.zeros(n)
        self.gaps = np.zeros(n)
        self._carried = users.carried()

    def share(self, client: int, n_clients: int) -> Iterator[tuple[int, list[int]]]:
        """Yield a client's rounds in order of time, and which rewards it delivers before each.

        Rounds and rewards are indices from 0. The last item has round -1 and all rewards left.
        """
        visits, deliveries = self.users.visits, self.deliveries
        mine = np.flatnonzero(visits.user % n_clients == client)
        which = visits.user[deliveries.reward] % n_clients == client
        rewards, at = deliveries.reward[which].tolist(), deliveries.at[which]
        start = 0
        for row, stop in zip(mine.tolist(), np.searchsorted(at, visits.at[mine]), strict=True):
            yield row, rewards[start:stop]
            start = int(stop)
        yield -1, rewards[start:]

    def decide(self, session: Session, row: int) -> None:
        """Take the decision of one round, and draw its reward."""
        visits, first = self.users.visits, row + 1
        contexts = self.users.contexts(first, first)
        key, round = self.users.key(int(visits.user[row])), int(visits.round[row])
        decision = session.decide(contexts[0], trajectory=key, event_id=f"round-{round}")
        if decision.round != round:
            raise RuntimeError(f"round {round} of {key} was answered as round {decision.round}")
        signals = self.users.signals(contexts, first)
        self.arms[row] = decision.arm
        world, arm = self.users.world, self.arms[row : row + 1]
        carried = world.carried(contexts[0, arm], signals[0, arm])
        self._carried[visits.place[row]] = carried[0]
        self.gaps[row] = regret_gaps(signals, arm, world.weights)[0]
        expected = self.users.expected_rewards(self._carried, first, first)
        self.rewards[row] = expected[0] + self.users.errors(first, first)[0]

    def reward(self, row: int) -> dict[str, Any]:
        """Return the reward of a round, as the service takes it."""
        visits = self.users.visits
        return {
            "trajectory": self.users.key(int(visits.user[row])),
            "round": int(visits.round[row]),
            "value": float(self.rewards[row]),
        }


def _play_share(
    url: str, session_id: str, log: UserLog, client: int, n_clients: int, on_round: OnRound
) -> None:
    """Play one client's users."""
    with Client(url) as own:
        session = own.session(session_id)
        for row, delivered in log.share(client, n_clients):
            if delivered:
                session.rewards([log.reward(i) for i in delivered])
            if row >= 0:
                log.decide(session, row)
                on_round(1)
