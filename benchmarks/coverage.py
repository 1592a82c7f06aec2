"""How often the value intervals of `lhb evaluate` hold the true value.

A world's log is made by uniform play, by a fixed policy that is greedy in another direction but for
some uniform rounds, or by one that is always greedy, which the log cannot speak for. An agent is
replayed on it, and its true value is that of the estimates it had learned from that very log, round
by round, computed from the world's truth on fresh contexts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lhb_engine.agents import Agent, make_agent
from lhb_engine.agents.scores import best_arms, scores_of
from lhb_engine.evaluation.batch_ratio import Interval, Refusal
from lhb_engine.evaluation.log_replay import Chunk, LogReplay
from lhb_engine.history import Floats, Ints
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment

DIM, N_ARMS, HORIZON = 3, 3, 12
FRESH = 20_000  # rounds of contexts that a policy's true value is computed on
EXPLORED = 2000  # of them where it does not rank by theta: these are played one by one


@dataclass(frozen=True)
class CoverageCase:
    """An agent, the lags that pay, and how the log was made."""

    name: str
    algorithm: str
    weights: dict[int, float]
    options: dict[str, Any]
    log: str = "uniform"  # or the share of uniform rounds of a greedy policy
    n_trajectories: int = 1


CASES = (
    CoverageCase("ad_lasso, lag 0", "ad_lasso", {0: 1.0}, {}),
    CoverageCase("ad_lasso, lag 3", "ad_lasso", {3: 1.0}, {}),
    CoverageCase("ad_lasso, lags 0 and 2", "ad_lasso", {0: 0.7, 2: 0.5}, {}),
    CoverageCase("anytime, lag 0", "anytime", {0: 1.0}, {}),
    CoverageCase("anytime with epsilon 0.3, lag 0", "anytime", {0: 1.0}, {"epsilon": 0.3}),
    CoverageCase("ad_lasso, log of epsilon 0.4", "ad_lasso", {0: 1.0}, {}, log="0.4"),
    CoverageCase("ad_lasso, lags 0 to 5", "ad_lasso", dict.fromkeys(range(6), 0.4), {}),
    CoverageCase(
        "ad_lasso, lags 0 and 2, users", "ad_lasso", {0: 0.7, 2: 0.5}, {}, n_trajectories=60
    ),
    CoverageCase("ad_lasso, log of propensities 1", "ad_lasso", {0: 1.0}, {}, log="0"),
)


def run(
    n_logs: int,
    n_rounds: int,
    names: Iterable[str] = (),
    first_seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Measure every case, or those that `names` are part of.

    Returns
    -------
    list of dict
        For each case and kind of value: how many intervals were given and refused, the share that
        hold the truth, and the mean of estimate less truth.
    """
    chosen = [c for c in CASES if not names or any(name in c.name for name in names)]
    rows = []
    for case in chosen:
        found = [_measure(case, seed, n_rounds) for seed in range(first_seed, first_seed + n_logs)]
        for kind in ("weighted", "replay", "robust"):
            given = [(values[kind], truth) for values, truth in found]
            row = {"case": case.name, "value": kind, **_coverage(given)}
            rows.append(row)
            progress(line(row))
    return rows


HEADER = "| case | value | intervals | refused | coverage | error | width |\n|-|-|-|-|-|-|-|"


def line(row: dict[str, Any]) -> str:
    """One row of the table in Markdown."""
    given = row["intervals"]
    numbers = [f"{row[name]:.3f}" for name in ("coverage", "error", "width")] if given else "---"
    return (
        f"| {row['case']} | {row['value']} | {given} | {row['refused']} | {' | '.join(numbers)} |"
    )


def _coverage(found: list[tuple[Interval | Refusal, float]]) -> dict[str, Any]:
    given = [(value, truth) for value, truth in found if not isinstance(value, Refusal)]
    out: dict[str, Any] = {"intervals": len(given), "refused": len(found) - len(given)}
    if given:
        out["coverage"] = float(np.mean([v.low <= truth <= v.high for v, truth in given]))
        out["error"] = float(np.mean([v.value - truth for v, truth in given]))
        out["width"] = float(np.mean([v.high - v.low for v, _ in given]))
    return out


def _measure(
    case: CoverageCase, seed: int, n_rounds: int
) -> tuple[dict[str, Interval | Refusal], float]:
    """Return the values of one log, and the truth."""
    rng = np.random.default_rng([9, seed])
    theta = rng.standard_normal(DIM)
    theta /= np.linalg.norm(theta)
    weights = np.zeros(HORIZON)
    weights[list(case.weights)] = list(case.weights.values())
    env = LongHorizonEnvironment(theta, weights, n_arms=N_ARMS, noise=0.3, seed=seed)
    agent = make_agent(case.algorithm, dim=DIM, horizon=HORIZON, **case.options)
    replay = LogReplay(agent, seed=seed, lags=tuple(sorted(case.weights)))
    users = rng.integers(case.n_trajectories, size=n_rounds)
    log = _log(case, env, rng, users)
    fresh = env.contexts(n_rounds + 1, n_rounds + FRESH)
    worth = env.signals(fresh)
    values = np.empty(n_rounds)
    start = 0
    while start < n_rounds:  # from fit to fit: the agent decides the same way in between
        window = agent.next_fit(start)
        stop = n_rounds if window is None else min(n_rounds, window.due)
        values[start:stop] = _value(agent, fresh, worth, start + 1, stop)
        replay.feed(log.part(start, stop))
        start = stop
    truth = float(_lagged(values, weights, users).mean())
    result = replay.result()
    kinds = {"weighted": result.weighted, "replay": result.replay, "robust": result.robust}
    return kinds, truth


def _value(agent: Agent, fresh: Floats, worth: Floats, first: int, last: int) -> Floats:
    """Mean of <x, theta> of the arms that the agent takes, in each of rounds first..last."""
    out = np.empty(last - first + 1)
    known: dict[bytes, float] = {}
    for i, t in enumerate(range(first, last + 1)):
        draw = Draw(0, "", t)
        # rounds that rank alike are worth alike: by one feature, one candidate, or theta
        ranking = agent.ranking(fresh[0], draw)
        probe = ranking.tobytes()
        if probe not in known:
            if np.array_equal(ranking, agent.scores(fresh[0])):
                ranked = agent.scores(fresh)
            else:
                ranked = np.array([agent.ranking(c, draw) for c in fresh[:EXPLORED]])
            best = ranked == ranked.max(axis=1, keepdims=True)
            greedy = best / best.sum(axis=1, keepdims=True)
            epsilon = getattr(agent.options, "epsilon", 0.0)
            chances = epsilon / N_ARMS + (1 - epsilon) * greedy
            known[probe] = float((chances * worth[: len(ranked)]).sum(axis=1).mean())
        out[i] = known[probe]
    return out


def _log(
    case: CoverageCase, env: LongHorizonEnvironment, rng: np.random.Generator, users: Ints
) -> Chunk:
    n = len(users)
    contexts = env.contexts(1, n)
    if case.log == "uniform":
        arms, propensities = rng.integers(N_ARMS, size=n), np.full(n, 1 / N_ARMS)
    else:
        other, epsilon = rng.standard_normal(DIM), float(case.log)
        greedy = np.array([best_arms(s)[0] for s in scores_of(contexts, other)])
        arms = np.where(rng.random(n) < epsilon, rng.integers(N_ARMS, size=n), greedy)
        propensities = epsilon / N_ARMS + (1 - epsilon) * (arms == greedy)
    selected = contexts[np.arange(n), arms]
    rewards = _lagged(env.signals(selected), env.weights, users) + env.errors(1, n)
    keys = np.array([str(user) for user in users], dtype=object)
    named = None if case.n_trajectories == 1 else keys
    return Chunk(selected, rewards, contexts, arms, propensities, named)


def _lagged(values: Floats, weights: Floats, users: Ints) -> Floats:
    """Return the sums over lags of values of rounds, (n,), within each user's rounds."""
    out = np.empty(len(values))
    for user in np.unique(users):
        own = users == user
        out[own] = np.convolve(values[own], weights)[: int(own.sum())]
    return out
