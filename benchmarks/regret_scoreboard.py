"""How close an agent that knows nothing comes to one that knows the lag weights.

The score of a world is the mean final regret over seeds, divided by that of `oracle_w` refitted on
all rows at rounds ceil(8 * 1.2^k). All agents meet the same worlds; the interval is a bootstrap
over seeds, paired.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.profile_worlds import (
    Clickbait,
    SmoothClickbait,
    with_mismatch,
)
from benchmarks.worlds import (
    Baseline,
    BaselineAndSeason,
    Change,
    ColouredNoise,
    ContextsAbove,
    ContextsAlike,
    ContextsOverTime,
    Day,
    Exponential,
    FixedArms,
    Geometric,
    HeavyTails,
    Hump,
    IdealPoint,
    Interactions,
    Kind,
    LastingNoise,
    LateBump,
    LineOfOne,
    OneHot,
    Plateau,
    RandomWalk,
    Rare,
    Rotation,
    Running,
    RunningAboutZero,
    Season,
    SeasonOfOne,
    SeasonOfThree,
    Trend,
    Turn,
    WeatherOfThree,
    WeeklyEchoes,
    measured,
)
from lhb_engine.agents import Agent, make_agent
from lhb_engine.agents.anytime import Anytime
from lhb_engine.agents.anytime_options import AnytimeOptions
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History
from lhb_engine.posterior.anytime_settings import AnytimeSettings
from lhb_engine.simulation.environment import LongHorizonEnvironment, OwnLags
from lhb_engine.simulation.play import simulate, simulate_users
from lhb_engine.simulation.users import UserEnvironment, Visits

N_BOOTSTRAP = 2000


@dataclass(frozen=True)
class World:
    """One row of the board."""

    name: str
    pattern: str = "flat"
    sparsity: int = 5
    rounds: int = 2000
    horizon: int = 100
    dim: int = 5
    arms: int = 10
    noise: float = 0.1
    seen: Kind = "single"
    environment: type[LongHorizonEnvironment] = LongHorizonEnvironment
    options: dict[str, Any] = field(default_factory=dict)
    users: int = 0  # trajectories of `rounds` rounds each; 0: the default one
    levels: float = 0.0  # spread of the users' levels, in standard deviations of the signal
    spread: float = 0.0  # of the users' thetas

    def draw(self, seed: int) -> LongHorizonEnvironment:
        """Draw the world of one seed."""
        return self.environment.draw(
            dim=self.dim,
            horizon=self.horizon,
            n_arms=self.arms,
            noise=self.noise,
            pattern=self.pattern,
            sparsity=self.sparsity,
            seed=seed,
        )

    def draw_users(self, seed: int) -> UserEnvironment:
        """Draw the world of one seed with users who arrive over half of the time that one stays."""
        world, arriving = self.draw(seed), 2.0 * self.users / self.rounds
        visits = Visits.draw(self.users, self.rounds, "fixed", arriving=arriving, seed=seed)
        unit = float(np.linalg.norm(world.weights)) / np.sqrt(3.0)
        return UserEnvironment(world, visits, spread=self.spread, levels=self.levels * unit)


BOARD = (
    World("single", "single", 1),
    *(World(f"{p} {s}", p, s) for p in ("flat", "spiking", "random") for s in (5, 15, 30)),
)
HARDER = (
    World("noise 0.5", noise=0.5),
    World("noise 1", noise=1.0),
    World("dim 20", dim=20),
    World("3 arms", arms=3),
    World("contexts over time", environment=ContextsOverTime),
    World("contexts alike", environment=ContextsAlike),
    World("heavy tails", environment=HeavyTails),
    World("rare 0/1", sparsity=3, horizon=10, environment=Rare),
    World("30% missing", seen="missing"),
    World("sums over 7", seen="sums"),
    World("baseline", environment=Baseline),
    World("w changes", environment=Change),
    World("w changes, memory 500", environment=Change, options={"memory": 500}),
    World("theta changes", environment=Turn),
    World("theta changes, memory 500", environment=Turn, options={"memory": 500}),
    World("memory 500, no change", options={"memory": 500}),
)
FREE: dict[str, Any] = {"zero_start": False}
LEARNERS: dict[str, Any] = {"sparsity": 3, "rounds": 40, "horizon": 20}
LIFE = (
    World("plain"),
    World("flat 30", sparsity=30),
    World("trend", environment=Trend),
    World("season 24", environment=Day),
    World("season 168", environment=Season),
    World("AR(1) noise", environment=ColouredNoise),
    World("random walk", environment=RandomWalk),
    World("theta rotates", environment=Rotation),
    World("theta rotates, memory 500", environment=Rotation, options={"memory": 500}),
    World("one-hot, h = 4", sparsity=2, horizon=4, arms=5, environment=OneHot),
    World("one-hot", dim=10, environment=OneHot),
    World("ten fixed arms", environment=FixedArms),
    World("500 users", users=500, **LEARNERS),
    World("500 users, levels told", users=500, options={"levels": True}, **LEARNERS),
    World("500 levels", users=500, levels=5.0, options={"levels": True}, **LEARNERS),
    World("500 levels, not told", users=500, levels=5.0, **LEARNERS),
    World("contexts of mean 3", horizon=48, environment=ContextsAbove),
    World("contexts of mean 3, past free", horizon=48, environment=ContextsAbove, options=FREE),
    World("past of mean 3", horizon=48, environment=Running, options=FREE),
    World("past of mean 3, not told", horizon=48, environment=Running),
    World("plain, past free", horizon=48, options=FREE),
    World("past of mean 0", horizon=48, environment=RunningAboutZero, options=FREE),
    World("past of mean 0, not told", horizon=48, environment=RunningAboutZero),
)
DAY: dict[str, Any] = {"seasonality": [{"period": 24}]}
WEATHER: dict[str, Any] = {"covariates": ["weather"]}
ALL: dict[str, Any] = {
    "seasonality": [{"period": 24, "harmonics": 3}, {"period": 168, "harmonics": 2}],
    "trend": True,
}
TOLD = (
    World("plain", horizon=48),
    World("plain, all told", horizon=48, options=ALL),
    World("season of 1", horizon=48, environment=SeasonOfOne, options=DAY),
    World("season of 3", horizon=48, environment=SeasonOfThree, options=DAY),
    World("season of 1, not told", horizon=48, environment=SeasonOfOne),
    World("season of 3, not told", horizon=48, environment=SeasonOfThree),
    World("trend", horizon=48, environment=LineOfOne, options={"trend": True}),
    World("level 5, season of 1", horizon=48, environment=BaselineAndSeason, options=DAY),
    World("AR(1) 0.95", horizon=48, environment=LastingNoise),
    World("random walk", horizon=48, environment=RandomWalk),
    World("covariate of 3", horizon=48, environment=WeatherOfThree, options=WEATHER),
    World("covariate of 3, not told", horizon=48, environment=WeatherOfThree),
)
DENSE = (
    World("plateau 40", sparsity=40, environment=Plateau),
    World("exponential 0.9", environment=Exponential),
    World("all equal", sparsity=100, environment=Plateau),
)
# Where features have lags of their own, oracle_w knows the profile of theta's direction alone.
SHORT: dict[str, Any] = {"rounds": 600, "horizon": 24}
PROFILES = (
    World("plain", **SHORT),
    World("weekly echoes", noise=0.3, environment=WeeklyEchoes, **SHORT),
    World("geometric 0.7", noise=0.5, environment=Geometric, **SHORT),
    World("geometric 0.9", noise=0.5, environment=Exponential, **SHORT),
    World("hump", noise=0.5, environment=Hump, **SHORT),
    World("late bump", noise=0.5, environment=LateBump, **SHORT),
    World("clickbait", environment=Clickbait, **SHORT),
    World("clickbait, noise 0.5", noise=0.5, environment=Clickbait, **SHORT),
    World("clickbait, smooth", noise=0.3, environment=SmoothClickbait, **SHORT),
    World("own lags", environment=OwnLags, **SHORT),
    World("interactions", environment=Interactions, **SHORT),
    World("ideal point", environment=IdealPoint, **SHORT),
    *(
        World(f"mismatch {share}", environment=with_mismatch(share), **SHORT)
        for share in (0.1, 0.26, 0.37, 0.45)
    ),
)
POOR = (
    World("early mass", "early_mass", 10, rounds=999, horizon=1000),
    World("late mass", "late_mass", 10, rounds=999, horizon=1000),
)


def variant_of(text: str) -> tuple[dict[str, Any], AnytimeSettings]:
    """Return the options and settings of `anytime` that a text such as "profiles=chosen" changes.

    Raises
    ------
    ValueError
        A name is of neither, or a value is no text of an option.
    """
    known = {field.name for field in fields(AnytimeOptions)}
    changes = [change.partition("=") for change in text.split(",") if text]
    options: dict[str, Any] = {name: value for name, _, value in changes if name in known}
    AnytimeOptions(**options)
    kinds = {
        one.name: type(getattr(AnytimeSettings(), one.name)) for one in fields(AnytimeSettings)
    }
    settings = {name: value for name, _, value in changes if name not in known}
    for name in settings.keys() - kinds.keys():
        raise ValueError(f"{name!r} is no setting: {', '.join(kinds)}")
    return options, AnytimeSettings(**{name: kinds[name](settings[name]) for name in settings})


def play(world: World, algorithm: str, seed: int) -> tuple[float, float]:
    """Return the final regret, and the CPU seconds spent in fits.

    The algorithm "anytime acceptance=inf" is a variant of `anytime`.
    """
    environment, spent = world.draw(seed), 0.0
    algorithm, _, changes = algorithm.partition(" ")
    if algorithm == "oracle_w":
        options = {"weights": environment.weights.tolist(), "schedule": "growing"}
    else:
        options = world.options if algorithm == "anytime" else {}

    more, settings = variant_of(changes)
    agent = make_agent(algorithm, dim=world.dim, horizon=world.horizon, **options | more)
    if isinstance(agent, Anytime):
        agent.settings = settings

    def timed(agent: Agent, history: History) -> Estimate:
        nonlocal spent
        start = process_time()
        estimate = agent.checked_fit(history)
        spent += process_time() - start
        return estimate

    if world.users:
        users = world.draw_users(seed)
        return float(simulate_users(agent, users, seed=seed, run_fit=timed).regret[-1]), spent
    run = simulate(
        agent,
        environment,
        n_rounds=world.rounds,
        seed=seed,
        run_fit=timed,
        measure=partial(measured, world.seen, seed=seed),
    )
    return float(run.regret[-1]), spent


def run(
    worlds: Sequence[World],
    algorithms: Sequence[str],
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Play every algorithm, and oracle_w, in every world.

    Returns
    -------
    dict
        Settings, and for each world and algorithm the regrets, their ratio to oracle_w's with its
        95% interval, the mean seconds of fitting, and for a variant of `anytime` the difference
        of its regret to that of `anytime`, with its standard error.
    """
    names = [*dict.fromkeys([*algorithms, "oracle_w"])]
    board = []
    for world in worlds:
        cells = [(name, seed) for name in names for seed in seeds]
        played = Parallel(n_jobs=jobs)(delayed(play)(world, name, seed) for name, seed in cells)
        found = {
            name: [p for (n, _), p in zip(cells, played, strict=True) if n == name]
            for name in names
        }
        oracle = np.array([regret for regret, _ in found["oracle_w"]])
        row: dict[str, Any] = {"world": world.name, "algorithms": {}}
        for name, runs in found.items():
            regret = np.array([r for r, _ in runs])
            low, high = paired_interval(regret, oracle)
            row["algorithms"][name] = {
                "regret": regret.tolist(),
                "mean": float(regret.mean()),
                "stderr": float(regret.std(ddof=1) / np.sqrt(len(regret))) if len(seeds) > 1 else 0,
                "ratio": float(regret.mean() / oracle.mean()),
                "interval": [low, high],
                "fit_seconds": float(np.mean([s for _, s in runs])),
            }
            if name.startswith("anytime ") and "anytime" in found:
                less = regret - np.array([r for r, _ in found["anytime"]])
                error = float(less.std(ddof=1) / np.sqrt(len(less))) if len(seeds) > 1 else 0.0
                row["algorithms"][name]["less_anytime"] = [float(less.mean()), error]
        board.append(row)
        progress(line(row))
    ratios = {n: [row["algorithms"][n]["ratio"] for row in board] for n in names}
    return {
        "settings": {"seeds": list(seeds), "worlds": [row["world"] for row in board]},
        "board": board,
        "mean_ratio": {name: float(np.mean(values)) for name, values in ratios.items()},
        "max_ratio": {name: float(np.max(values)) for name, values in ratios.items()},
    }


def paired_interval(regret: Floats, oracle: Floats) -> tuple[float, float]:
    """Bootstrap the 95% interval of mean(regret) / mean(oracle), resampling seeds in pairs."""
    rng = np.random.Generator(np.random.PCG64(0))
    drawn = rng.integers(len(regret), size=(N_BOOTSTRAP, len(regret)))
    ratios = regret[drawn].mean(axis=1) / oracle[drawn].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


HEADER = "| world | algorithm | regret | ratio to oracle_w | 95% interval | fit s |\n|-|-|-|-|-|-|"


def line(row: dict[str, Any]) -> str:
    """Format one world as lines of a Markdown table."""
    return "\n".join(
        f"| {row['world']} | {name} | {f['mean']:.1f} ± {f['stderr']:.1f} | {f['ratio']:.2f} | "
        f"{f['interval'][0]:.2f} to {f['interval'][1]:.2f} | {f['fit_seconds']:.2f} |"
        for name, f in row["algorithms"].items()
    )
