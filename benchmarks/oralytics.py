"""Oralytics: a trial of messages about brushing teeth, by the simulator of its own designers.

Its users are models of people who took part in an earlier study. A message pays at once; where many
were sent, a user answers less to later ones for a week or more, by a factor of 0, 0.5 or 0.8 (low,
medium and high). 70 users have 140 decisions each, two a day, and five begin every other week.

The simulator and its Thompson sampling are read from a clone, which whoever runs this gives. They
are under the GPL-3.0, and no part of them is here.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lhb_engine.agents import make_agent
from lhb_engine.history import Floats, History, Measurements, Trajectory
from lhb_engine.randomness import Draw

# of the trial's design: users, rounds of each, those who begin every other week, and its agent's
USERS, ROUNDS, RECRUITED, WEEK = 70, 140, 5, 14
CLIPPED, STEEPNESS, COSTS, FIRST_USERS = (0.2, 0.8), 0.515, (100, 100), 15
SCALES = {"low": "LOW_R", "medium": "MED_R", "high": "HIGH_R"}
MODULES = "sim_env_v2", "rl_algorithm", "reward_definition", "smoothing_function"
# of a user, in both agents: evening; brushing and messages of the last week; app opened; and 1
STATE = ("evening", "brushing", "messages", "opened")
OPTIONS: dict[str, Any] = {"own": True, "levels": True}
# so that, as in the trial, a message has a chance of 0.2 to 0.8
EXPLORING: dict[str, Any] = {"epsilon": 0.4}
HORIZON = 2
NODES = np.linspace(-8.0, 8.0, 801)
CHANCES = np.exp(-(NODES**2) / 2.0) / np.exp(-(NODES**2) / 2.0).sum()
HEADER = (
    "\n| answers | agent | mean quality | first quartile | mean, less sampling's | quartile, less "
    "sampling's |\n|-|-|-|-|-|-|"
)


class Simulator:
    """The modules of a clone."""

    def __init__(self, clone: Path) -> None:
        places = ModuleType("read_write_info")  # which its users fill in
        vars(places)["READ_PATH_PREFIX"] = f"{clone}/"
        sys.modules["read_write_info"] = places
        sys.path.insert(0, str(clone / "src"))
        self.worlds, self.learners, self.rewards, self.smoothing = map(import_module, MODULES)

    def world(self, scale: str, seed: int) -> Any:
        """Return the users of a trial, drawn as its designers do, with global random numbers."""
        np.random.seed(seed)  # noqa: NPY002
        drawn = np.random.choice(self.worlds.NUM_USER_MODELS, size=USERS)  # noqa: NPY002
        users = [self.worlds.USER_INDICES[i] for i in drawn]
        return self.worlds.SimulationEnvironmentV2(users, "STAT", "small", scale)

    def sampling(self) -> Any:
        """Return the trial's full-pooling Thompson sampling."""
        smooth = self.smoothing.genearlized_logistic_func_wrapper(*CLIPPED, STEEPNESS)
        return self.learners.BlrACV2(COSTS, WEEK, smooth)


class Chance:
    """A message in half of the rounds."""

    def __init__(self, simulator: Simulator, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self, user: int, state: Floats) -> int:
        """Return whether a message is sent."""
        return int(self.rng.random() < 0.5)

    def learn(self, user: int, state: Floats, action: int, reward: float) -> None:
        """Take in what came of it: the quality less the trial's costs of messages."""

    def end_week(self, n_users: int) -> None:
        """Take in that a week has ended, with so many users in the trial."""


class Sampling(Chance):
    """The trial's own agent.

    Its chance of a message is an integral over a normal distribution, which takes it most of its
    time. Here that is a sum over nodes, equal within 1e-9.
    """

    def __init__(self, simulator: Simulator, seed: int) -> None:
        super().__init__(simulator, seed)
        self.agent = simulator.sampling()
        self.rows: dict[int, list[tuple[Floats, int, float, float]]] = {}
        self._chance = 0.0

    def act(self, user: int, state: Floats) -> int:
        """Return whether a message is sent."""
        agent, n = self.agent, len(state)
        mean, covariance = agent.posterior_mean, agent.posterior_var
        if agent.is_pure_exploration_period():
            mean, covariance = agent.PRIOR_MU, agent.PRIOR_SIGMA
        error = np.sqrt(state @ covariance[-n:, -n:] @ state)
        self._chance = float(agent.smoothing_func(state @ mean[-n:] + NODES * error) @ CHANCES)
        return int(self.rng.random() < self._chance)

    def learn(self, user: int, state: Floats, action: int, reward: float) -> None:
        """Keep the row until the week ends."""
        self.rows.setdefault(user, []).append((state, action, self._chance, reward))

    def end_week(self, n_users: int) -> None:
        """Update from the rows of all users who are in the trial."""
        rows = [row for part in self.rows.values() for row in part]
        states, actions, chances, rewards = map(np.array, zip(*rows, strict=True))
        self.agent.update(states, actions, chances, rewards)
        if self.agent.is_pure_exploration_period() and n_users >= FIRST_USERS:
            self.agent.end_pure_exploration_period()
        self.rows = {user: part for user, part in self.rows.items() if len(part) < ROUNDS}


class Ours(Chance):
    """`anytime`: no message has the context 0, a message that of the user's state."""

    options = OPTIONS

    def __init__(self, simulator: Simulator, seed: int) -> None:
        options = {"covariates": STATE, **self.options}
        self.agent = make_agent("anytime", dim=len(STATE) + 1, horizon=HORIZON, **options)
        self.seed, self.n_rounds = seed, 0
        self.log: dict[str, list[tuple[Floats, Floats, float, int]]] = {}
        self._own: dict[str, Any] = {}

    def act(self, user: int, state: Floats) -> int:
        """Return whether a message is sent."""
        key = f"user-{user:02}"
        rounds = len(self.log.setdefault(key, []))
        if key not in self._own and rounds:
            self._own[key] = self.agent.of(key, self._past(key))
        self.n_rounds += 1
        draw = Draw(self.seed, key, rounds + 1, self.n_rounds)
        contexts = np.stack([np.zeros_like(state), state])
        return int(self._own.get(key, self.agent).choose(contexts, draw).arm)

    def learn(self, user: int, state: Floats, action: int, reward: float) -> None:
        """Keep the row, and fit where that is due."""
        key = f"user-{user:02}"
        self.log[key].append((action * state, state[:-1], reward, self.n_rounds))
        self._own.pop(key, None)
        window = self.agent.next_fit(self.n_rounds - 1)
        if window is not None and window.due == self.n_rounds:
            parts = {name: self._past(name) for name in sorted(self.log)}
            history = History(self.agent.dim, parts, groups=(1,) * len(STATE))
            self.agent.install(self.agent.fit(history.over(window)))
            self._own = {}

    def _past(self, key: str) -> Trajectory:
        contexts, beside, values, positions = map(np.array, zip(*self.log[key], strict=True))
        measured = Measurements.single(np.arange(1, len(values) + 1), values)
        return Trajectory(contexts, measured, positions=positions, covariates=beside)


class Exploring(Ours):
    """`anytime` with the trial's own bounds of chances, and one theta for all."""

    options = EXPLORING


class ExploringOwn(Ours):
    """And each user's own theta."""

    options = EXPLORING | {"own": True}


AGENTS: dict[str, Callable[[Simulator, int], Chance]] = {
    "its own sampling": Sampling,
    "anytime": Ours,
    "anytime, exploring": Exploring,
    "anytime, exploring, own": ExploringOwn,
    "chance": Chance,
}


def play(simulator: Simulator, scale: str, seed: int, policy: Chance) -> Floats:
    """Play a trial, and return the quality of all users' brushing, (users, rounds)."""
    world, rewards = simulator.world(scale, seed), simulator.rewards
    found = np.zeros((USERS, ROUNDS))
    past: list[list[tuple[float, int, Floats]]] = [[] for _ in range(USERS)]
    for user, j, n_ended in _visits():
        beside = world.generate_current_state(user, j)
        known = past[user][:-1] if j > 1 and j % 2 else past[user]  # the evening lacks the morning
        qualities, actions = (np.array([row[i] for row in known]) for i in (0, 1))
        brushing, messages = rewards.get_b_bar_a_bar(qualities, actions)
        normal = rewards.normalize_b_bar(brushing), rewards.normalize_a_bar(messages)
        state = np.array([beside[0], *normal, beside[-1], 1.0])
        opened = world.get_user_last_open_app_dt(user)
        if opened != j - j % 2:  # what the agent knows is as old as the app's last opening
            state[1], state[3] = past[user][opened][2][1], 0.0
        action = policy.act(user, state)
        found[user, j] = quality = float(world.generate_rewards(user, beside, action))
        reward = rewards.calculate_reward(quality, *COSTS, action, brushing, messages)
        past[user].append((quality, action, state))
        policy.learn(user, state, action, float(reward))
        if j >= WEEK:
            many = (
                rewards.calculate_a1_condition(messages),
                rewards.calculate_a2_condition(messages),
            )
            world.update_responsiveness(user, *many, rewards.calculate_b_condition(brushing), j)
        if n_ended:
            policy.end_week(n_ended)
    return found


def _visits() -> Iterator[tuple[int, int, int]]:
    """Yield user and round in order of time, and at a week's end how many users were there."""
    begins = [2 * (user // RECRUITED) for user in range(USERS)]
    for week in range(begins[-1] + ROUNDS // WEEK):
        here = [user for user in range(USERS) if 0 <= week - begins[user] < ROUNDS // WEEK]
        for user in here:
            for i in range(WEEK):
                is_last = user == here[-1] and i == WEEK - 1
                yield user, (week - begins[user]) * WEEK + i, len(here) if is_last else 0


def run(
    clone: Path, seeds: range, scales: list[str], progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Play trials, and return what each agent reaches: means over seeds, with standard errors.

    `mean` is the quality of all users' rounds, `quartile` that below which a quarter of the users
    lie; `gain` and `quartile_gain` are these less those of the trial's own agent, seed by seed.
    """
    simulator, rows = Simulator(clone), []
    for scale in scales:
        first: Floats | None = None
        for name, agent in AGENTS.items():
            each = []
            for seed in seeds:
                quality = play(simulator, SCALES[scale], seed, agent(simulator, seed)).mean(axis=1)
                each.append([quality.mean(), np.percentile(quality, 25)])
            both = np.array(each)
            first = both if first is None else first
            found = np.concatenate([both, both - first], axis=1)
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / len(found) ** 0.5
            names = ("mean", "quartile", "gain", "quartile_gain")
            pairs = zip(names, mean.tolist(), error.tolist(), strict=True)
            rows.append({"answers": scale, "agent": name} | {n: [m, e] for n, m, e in pairs})
            cells = [f"{m:.1f} ± {e:.1f}" for m, e in zip(mean, error, strict=True)]
            progress(f"| {scale} | {name} | {' | '.join(cells)} |")
    return rows
