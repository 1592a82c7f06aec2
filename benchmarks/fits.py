"""What a fit of `anytime` costs: from moments, beside the same from rows; and all of a run.

Reading rows (laying them out, adding their moments) is told apart from the fit itself, since a row
is to be read once in its life.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Any

import numpy as np

from benchmarks.regret_scoreboard import BOARD, LIFE, World
from benchmarks.worlds import measured
from lhb_engine.agents import Agent, fit_past, make_agent
from lhb_engine.agents.anytime import Anytime
from lhb_engine.agents.anytime_fit import AnytimeFit
from lhb_engine.agents.fit_past import SummedPast
from lhb_engine.design import aligned_rounds
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.covariates import with_means
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.moments import Moments
from lhb_engine.design.session_sums import KeptSums, SessionSums
from lhb_engine.estimate import Estimate
from lhb_engine.history import LATEST, FitWindow, Floats, History, Measurements, Trajectory
from lhb_engine.posterior import fit_data
from lhb_engine.posterior.fit_data import FitData, RowData
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from lhb_engine.simulation.play import simulate

# (horizon, dim, rows, bound in CPU seconds)
SIZES = (
    (20, 5, 100_000, 0.1),
    (20, 5, 1_000_000, 0.1),
    (20, 5, 10_000_000, 0.1),
    (100, 5, 10_000, 0.5),
    (100, 5, 1_000_000, 0.5),
)
PART = 50_000  # rows of one trajectory
MOST_ROWS = 100_000  # that the rows path is timed on
LONG = World("flat 5, 100 000 rounds", rounds=100_000)
RUNS = (
    *(w for w in BOARD if w.name in ("flat 5", "flat 30")),
    *(w for w in LIFE if w.name not in ("plain", "flat 30", "theta rotates, memory 500")),
    LONG,
)


def size(horizon: int, dim: int, n_rows: int, bound: float, seed: int = 0) -> dict[str, Any]:
    """Time one fit.

    Returns
    -------
    dict
        CPU seconds of the chains from moments (`fit`) and from rows (`rows`, None beyond 100 000 of
        them), of a whole fit from kept sums (`whole`, None where all rows are the latest), in
        microseconds what a row costs to be added, and |cos| of the direction found.
    """
    rng = np.random.default_rng(seed)
    weights = np.zeros(horizon)
    weights[rng.choice(horizon, 5, replace=False)] = 0.2
    theta = rng.standard_normal(dim)
    theta /= np.linalg.norm(theta)
    agent = make_agent("anytime", dim=dim, horizon=horizon)
    assert isinstance(agent, Anytime)
    moments, reading = Moments.zero(horizon, dim, agent.covariates.groups), 0.0
    parts: list[History] = []
    seen = moments
    for start in range(0, n_rows, PART):
        drawn = _drawn(start, min(start + PART, n_rows), theta, weights, rng)
        history = agent.covariates.told(drawn)
        parts = [*parts, history][-MOST_ROWS // PART :]
        rows = align(history)
        began = thread_time()
        moments = moments + session_moments(rows)
        reading += thread_time() - began
        seen = moments if start < n_rows // 2 else seen
    started = theta + 0.1 * rng.standard_normal(dim)
    fit = partial(_fit, theta=started, weights=weights, groups=agent.covariates.groups)
    by_rows = None
    if n_rows <= MOST_ROWS:
        every = {str(i): part.trajectories[""] for i, part in enumerate(parts)}
        rows = align(replace(history, trajectories=every))
        by_rows = _timed(lambda: fit(RowData(rows)), 1)[0]
    whole = None
    if n_rows > PART >= LATEST:
        kept = KeptSums(1, n_rows, moments.n_rows, moments, seen)
        sums, half = SessionSums(moments, seen, kept), seen.n_rows
        old = Estimate("ok", weights, theta=started / np.linalg.norm(started), sigma_hat=0.1)
        agent.install(replace(old, n_rows=half, last_round=half, intercept=0.0))
        latest, window = align(history.since(n_rows - LATEST + 1)), history.window
        assert window is not None
        past = partial(SummedPast, agent, window, latest, sums, None)
        whole = _timed(lambda: _direction(AnytimeFit(agent, past()).estimate()), 3)[0]
    seconds, found = _timed(lambda: fit(moments), 3)
    return {
        "horizon": horizon,
        "dim": dim,
        "n_rows": n_rows,
        "fit": seconds,
        "bound": bound,
        "rows": by_rows,
        "whole": whole,
        "us_a_row": reading / n_rows * 1e6,
        "cosine": abs(float(found @ theta)),
    }


def _direction(estimate: Estimate) -> Floats:
    assert estimate.theta is not None
    return estimate.theta


def _drawn(
    start: int, stop: int, theta: Floats, weights: Floats, rng: np.random.Generator
) -> History:
    """Return rounds start + 1 .. stop of a session, a trajectory of their own."""
    n = stop - start
    contexts = rng.uniform(-1.0, 1.0, (n, len(theta)))
    y = np.convolve(contexts @ theta, weights)[:n] + 0.1 * rng.standard_normal(n)
    contexts = with_means(contexts, rng.uniform(-1.0, 1.0, (n, 2, len(theta))))
    rounds = np.arange(1, n + 1)
    part = Trajectory(contexts, Measurements.single(rounds, y), positions=start + rounds)
    window = FitWindow(1, 1, stop, len(weights), stop)
    return History(len(theta), {"": part}).over(window)


def _fit(data: FitData, theta: Floats, weights: Floats, groups: tuple[int, ...]) -> Floats:
    """Do what a fit of `anytime` does with its data, once the noise's memory is known."""
    rho = data.autocorrelation(theta, weights, np.zeros(1 + sum(groups)))
    found = rank_one_posterior(data.whitened(rho), [8, 1], start=theta, weights=weights)
    data.autocorrelation(found.theta, found.weights, found.effects)
    return found.theta


def _timed(call: Callable[[], Floats], times: int) -> tuple[float, Floats]:
    """Return the least CPU seconds of some calls, and the last result."""
    least = np.inf
    for _ in range(times):
        began = thread_time()
        found = call()
        least = min(least, thread_time() - began)
    return float(least), found


def run(world: World, seed: int) -> dict[str, Any]:
    """Play `anytime` in a world and time all its fits.

    Returns
    -------
    dict
        CPU seconds of all fits without reading rows (`fits`), of reading rows (`reading`), the
        number of fits and the final regret.
    """
    spent = {"fits": 0.0}

    def timed(agent: Agent, history: History) -> Estimate:
        began = thread_time()
        estimate = agent.fit(history)
        spent["fits"] += thread_time() - began
        return estimate

    agent = make_agent("anytime", dim=world.dim, horizon=world.horizon, **world.options)
    with reading_told_apart() as reading:
        played = simulate(
            agent,
            world.draw(seed),
            n_rounds=world.rounds,
            seed=seed,
            run_fit=timed,
            measure=partial(measured, world.seen, seed=seed),
        )
    return {
        "world": world.name,
        "rounds": world.rounds,
        "n_fits": len(played.estimates),
        "fits": spent["fits"] - reading["seconds"],
        "reading": reading["seconds"],
        "regret": float(played.regret[-1]),
    }


@contextmanager
def reading_told_apart() -> Iterator[dict[str, float]]:
    """Count the CPU seconds that fits spend in laying out rows and in adding moments."""
    spent = {"seconds": 0.0}

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            began = thread_time()
            out = function(*args, **options)
            spent["seconds"] += thread_time() - began
            return out

        return call

    places: Sequence[tuple[Any, str]] = (
        *((aligned_rounds, "align"), (fit_past, "align")),
        *((fit_past, "session_sums"), (fit_data, "session_moments")),
    )
    before = [getattr(module, name) for module, name in places]
    for (module, name), function in zip(places, before, strict=True):
        setattr(module, name, counted(function))
    try:
        yield spent
    finally:
        for (module, name), function in zip(places, before, strict=True):
            setattr(module, name, function)
