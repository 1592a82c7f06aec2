"""`lhb bench costs`: memory of a fit, what incomplete rewards cost, where a solve's time goes."""

import cProfile
import json
import pstats
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.solver.against_peers import Size, ours, problem
from lhb_engine.design.fit_rows import span_matrix
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.lasso.group_lasso import GroupLasso

SEED = 3000
GAP = 1e-6
MEMORY = (((10, 5000, 20000), 0.5), ((10, 5000, 20000), 0.02), ((10, 100_000, 50_000), 0.1))
PROFILE = (
    ((5, 100, 100), 0.1),
    ((5, 100, 100), 0.02),
    ((5, 100, 800), 0.02),
    ((10, 500, 1000), 0.02),
    ((10, 1000, 4000), 0.5),
    ((10, 1000, 4000), 0.02),
    ((20, 1000, 8000), 0.5),
    ((20, 1000, 8000), 0.02),
    ((10, 5000, 20000), 0.5),
    ((10, 5000, 20000), 0.02),
)
# part of a solve -> its functions, as (file, function)
PARTS = {
    "ffts": {("~", "r2c"), ("~", "c2r")},
    "operator": {("overlap_save.py", name) for name in ("convolve", "correlate")},
    "set_up": {("lagged_design.py", "_banks"), ("lagged_design.py", "__init__")},
    "columns_and_gram": {("working_set.py", "add"), ("normal_equations.py", "normal_equations")},
    "newton": {("normal_equations.py", "_newton")},
    "gram_products": {("normal_equations.py", name) for name in ("_proximal", "predict")},
}


def run() -> dict[str, Any]:
    """Measure all three, in CPU seconds of one thread.

    Returns
    -------
    dict with "memory", "incomplete" and "profile", a list of dicts each.
    """
    return {
        "memory": [_in_a_child(size, fraction) for size, fraction in MEMORY],
        "incomplete": list(_incomplete()),
        "profile": [_profile(size, fraction) for size, fraction in PROFILE],
    }


def _in_a_child(size: Size, fraction: float) -> dict[str, Any]:
    command = [sys.executable, "-m", __name__, *map(str, size), str(fraction)]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, check=True).stdout
    )
    return {"size": size, "lam": fraction, **found}


def _memory(size: Size, fraction: float) -> dict[str, Any]:
    """Measure peak resident memory above that of the imports, in MB, with data and transforms."""
    before = _resident("VmRSS")
    contexts, y = problem(size, SEED)
    start = time.process_time()
    lasso = ours(contexts, y, size[1])
    result = lasso.solve(fraction * lasso.lambda_max, tol=GAP)
    seconds = time.process_time() - start
    peak = _resident("VmHWM")
    n_active = int((result.phi != 0).any(axis=1).sum())
    return {
        "above_imports_mb": peak - before,
        "seconds": seconds,
        "gap": result.gap,
        "n_active": n_active,
    }


def _resident(name: str) -> float:
    """Read resident memory in MB, now (VmRSS) or at its peak (VmHWM).

    getrusage would include the parent's peak, from before the exec.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) / 1024


def _incomplete() -> Iterator[dict[str, Any]]:
    """Time the operator and a whole solve, relative to one trajectory with every round measured."""
    dim, n_lags, n = 10, 500, 8000
    rng = np.random.default_rng(SEED)
    contexts = rng.uniform(-1, 1, (n, dim))
    whole = LaggedDesign(contexts, n_lags)
    weekly = np.arange(0, n - 6, 7)
    half = n // 2
    difference = sparse.hstack([-sparse.eye_array(half), sparse.eye_array(half)])
    short = rng.integers(2, 15, n)
    short = short[: int(np.searchsorted(np.cumsum(short), n)) + 1]
    long = rng.integers(20, 800, 20)
    designs = {
        "complete": whole,
        "30% missing": whole.select(np.flatnonzero(rng.random(n) < 0.7)),
        "totals over 7 rounds": whole.measure(span_matrix(weekly, weekly + 6, n)),
        "differenced (rounds t and t - n/2)": whole.measure(difference),
        f"{len(short)} trajectories of 2 to 14 rounds": _stacked(short, dim, n_lags, rng),
        "20 trajectories of 20 to 799 rounds": _stacked(long, dim, n_lags, rng),
    }
    complete = _costs(whole, rng)
    for name, design in designs.items():
        own = _costs(design, rng)
        # in turns, so that a busy machine slows both
        pairs = [
            (_least(mine, n_calls), _least(other, n_calls))
            for mine, other, n_calls in zip(own, complete, (10, 3), strict=True)
            for _ in range(4)
        ]
        rounds = n / design.n_rounds
        ratios = [
            min(a for a, _ in part) / min(b for _, b in part) for part in (pairs[:4], pairs[4:])
        ]
        yield {
            "rows": name,
            "n_rounds": design.n_rounds,
            "n_rows": design.n_rows,
            "operator": ratios[0] * rounds,
            "solve": ratios[1] * rounds,
        }


def _costs(
    design: LaggedDesign, rng: np.random.Generator
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return two calls to time: X v with X' v, and a solve with set-up at 0.1 lambda_max."""
    phi = np.zeros((design.n_lags, design.dim))
    phi[[1, 4, 9]] = rng.standard_normal(design.dim) / 3
    y = design.matvec(phi)
    y += 0.1 * float(y.std()) * rng.standard_normal(len(y))

    def both() -> None:
        design.matvec(phi)
        design.rmatvec(y)

    def solve() -> None:
        fresh = design.select(np.arange(design.n_rows))
        lasso = GroupLasso(fresh, y)
        assert lasso.solve(0.1 * lasso.lambda_max, tol=GAP).converged

    return both, solve


def _stacked(lengths: Any, dim: int, n_lags: int, rng: np.random.Generator) -> LaggedDesign:
    return LaggedDesign([rng.uniform(-1, 1, (n, dim)) for n in lengths], n_lags)


def _least(call: Callable[[], object], repeat: int) -> float:
    call()
    best = np.inf
    for _ in range(repeat):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def _profile(size: Size, fraction: float) -> dict[str, Any]:
    """Time a solve without a warm start, and the share spent in each of `PARTS`."""
    contexts, y = problem(size, SEED)
    lam = fraction * ours(contexts, y, size[1]).lambda_max
    n_iterations = 0

    def solve() -> None:
        nonlocal n_iterations
        n_iterations = ours(contexts, y, size[1]).solve(lam, tol=GAP).n_iterations

    milliseconds = 1e3 * _least(solve, 10)
    profile = cProfile.Profile(time.process_time)
    repeat = max(3, int(500 / milliseconds))
    profile.enable()
    for _ in range(repeat):
        solve()
    profile.disable()
    # (file, line, function) -> (calls, calls, own time, time with what it calls, callers)
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(entry[2] for entry in stats.values())
    shares = dict.fromkeys(PARTS, 0.0)
    for (file, _, name), (_, _, _, seconds, _) in stats.items():
        key = file.rsplit("/", 1)[-1], name.rstrip(">").rsplit(".", 1)[-1].rsplit(" ", 1)[-1]
        for part, functions in PARTS.items():
            if key in functions:
                shares[part] += seconds / total
    design = ours(contexts, y, size[1]).problem.design
    v, phi = np.ones(design.n_rows), np.ones((design.n_lags, design.dim))
    once = 1e3 * _least(lambda: design.matvec(phi), 20)
    back = 1e3 * _least(lambda: design.rmatvec(v), 20)
    return {
        "size": size,
        "lam": fraction,
        "ms": milliseconds,
        "n_iterations": n_iterations,
        "matvec_ms": once,
        "rmatvec_ms": back,
        "shares": shares,
    }


if __name__ == "__main__":
    dim, n_lags, n, fraction = sys.argv[1:]
    print(json.dumps(_memory((int(dim), int(n_lags), int(n)), float(fraction))))
