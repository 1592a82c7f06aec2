"""`lhb bench solver`: our solves against celer, adelie and skglm at an equal duality gap.

Our time includes the operator and its transforms; the others' begins with the dense design. All run
one thread, and CPU seconds are measured, which other work on the machine disturbs less.
"""

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.solver.peer_process import ask
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats
from lhb_engine.lasso.group_lasso import GroupLasso

Size = tuple[int, int, int]
Key = tuple[Size, int, str, str, float]  # size, seed, package, lam, target gap

OURS = "ours"
PEERS = ("celer", "adelie", "skglm")
LAMS = ("0.5", "0.1", "0.02", "path")  # of lambda_max
LEAST = 0.02  # of lambda_max, where the path ends
GAPS = (1e-4, 1e-6)
SIZES = ((5, 100, 100), (5, 100, 800), (10, 500, 1000), (10, 1000, 4000))
LARGE = ((20, 1000, 8000), (10, 5000, 20000))
N_PATH = 20


def problem(size: Size, seed: int) -> tuple[Floats, Floats]:
    """Draw contexts of n + h - 1 rounds and the last n rewards: flat weights, s = 5, noise 0.1."""
    dim, n_lags, n = size
    rng = np.random.default_rng([seed, dim, n_lags, n])
    contexts = rng.uniform(-1, 1, (n + n_lags - 1, dim))
    theta = rng.standard_normal(dim)
    theta /= np.linalg.norm(theta)
    weights = np.zeros(n_lags)
    weights[rng.choice(n_lags, 5, replace=False)] = 0.2
    mean = np.convolve(contexts @ theta, weights)[n_lags - 1 : n_lags - 1 + n]
    return contexts, mean + 0.1 * rng.standard_normal(n)


def ours(contexts: Floats, y: Floats, n_lags: int) -> GroupLasso:
    """Set up the problem from raw contexts. Our time includes this."""
    measured = np.arange(n_lags - 1, len(contexts))
    return GroupLasso(LaggedDesign(contexts, n_lags).select(measured), y)


def time_ours(
    contexts: Floats, y: Floats, n_lags: int, lams: Sequence[float], target: float, repeat: int
) -> dict[str, Any]:
    """Time our solver: the least CPU seconds of `repeat` runs, and the largest gap."""
    best, gap = np.inf, np.inf
    for _ in range(repeat):
        start = time.process_time()
        lasso = ours(contexts, y, n_lags)
        results = list(lasso.path(lams, tol=target))
        best = min(best, time.process_time() - start)
        gap = max(result.gap for result in results)
    return {"seconds": best, "gap": gap, "outcome": "met" if gap <= target else "missed"}


def run(
    *,
    sizes: Sequence[Size] = SIZES,
    seeds: int = 5,
    first_seed: int = 1000,
    lams: Sequence[str] = LAMS,
    gaps: Sequence[float] = GAPS,
    peers: Sequence[str] = PEERS,
    peers_python: str = ".venv-peers/bin/python",
    repeat: int = 5,
    limit: float = 60.0,
    save: Path | None = None,
) -> dict[str, Any]:
    """Measure every cell: size x lam (or the path) x target gap x seed.

    Parameters
    ----------
    sizes, gaps, peers : sequences
    lams : sequence of str
        Fractions of lambda_max, or "path".
    seeds, first_seed, repeat : int
    peers_python : str
        Interpreter that has the peers; this one where there is no such file.
    limit : float
        Time limit of a peer for one solve, in seconds.
    save : Path, optional
        JSON lines of what was measured: read first, so that a run can go on where it stopped.

    Returns
    -------
    dict with "settings" and "sizes": for each size its cells, each with our CPU seconds, the
    peers', the ratio of the best peer to ours for every seed and their geometric mean.
    """
    python = peers_python if Path(peers_python).exists() else sys.executable
    numbers = range(first_seed, first_seed + seeds)
    keys = [(lam, gap) for lam in lams for gap in gaps]
    measured = _saved(save)
    for size in sizes:
        for seed in numbers:
            for cell in _missing(size, seed, keys, peers, measured, python, repeat, limit):
                measured[_key(cell)] = cell
                if save:
                    with save.open("a") as file:
                        file.write(json.dumps(cell) + "\n")
    return {
        "settings": {
            "seeds": [first_seed, first_seed + seeds - 1],
            "gaps": list(gaps),
            "lams": list(lams),
            "path_points": N_PATH,
            "seconds_a_peer_has_for_one_solve": limit,
            "clock": "CPU seconds of one thread, least of a few repeats",
            "versions": {name: version(name) for name in ("numpy", "scipy")},
            "peer_versions": _peer_versions(python),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
        },
        "sizes": [
            {
                "dim": size[0],
                "n_lags": size[1],
                "n_rows": size[2],
                "cells": [_cell(size, numbers, key, peers, measured) for key in keys],
            }
            for size in sizes
        ],
    }


def _saved(save: Path | None) -> dict[Key, dict[str, Any]]:
    if save is None or not save.exists():
        return {}
    cells = [json.loads(line) for line in save.read_text().splitlines()]
    return {_key(cell): cell for cell in cells}


def _key(cell: dict[str, Any]) -> Key:
    return tuple(cell["size"]), cell["seed"], cell["package"], cell["lam"], cell["target"]


def _missing(
    size: Size,
    seed: int,
    keys: list[tuple[str, float]],
    peers: Sequence[str],
    measured: dict[Key, dict[str, Any]],
    python: str,
    repeat: int,
    limit: float,
) -> Iterator[dict[str, Any]]:
    """Measure the cells of one problem that are not among the measured ones."""
    wanted = {
        package: [key for key in keys if (size, seed, package, *key) not in measured]
        for package in (OURS, *peers)
    }
    if not any(wanted.values()):
        return
    contexts, y = problem(size, seed)
    top = ours(contexts, y, size[1]).lambda_max
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, contexts=contexts, y=y, n_lags=size[1])
        file.flush()
        for package, missing in wanted.items():
            if package == OURS:
                found = [
                    time_ours(contexts, y, size[1], _lams(lam, top), gap, repeat)
                    for lam, gap in missing
                ]
            else:
                cells = []
                for lam, gap in missing:
                    before = measured.get((size, seed - 1, package, lam, gap), {})
                    step = before.get("step", 0)  # where the previous seed ended
                    cells.append({"lams": _lams(lam, top), "target": gap, "step": step})
                found = ask(python, package, file.name, cells, repeat, limit)
            for (lam, gap), cell in zip(missing, found, strict=True):
                name = {"size": size, "seed": seed, "package": package, "lam": lam, "target": gap}
                yield name | cell


def _lams(lam: str, top: float) -> list[float]:
    if lam == "path":
        return [float(at) for at in top * np.geomspace(1, LEAST, N_PATH + 1)[1:]]
    return [float(lam) * top]


def _cell(
    size: Size,
    seeds: Sequence[int],
    key: tuple[str, float],
    peers: Sequence[str],
    measured: dict[Key, dict[str, Any]],
) -> dict[str, Any]:
    """Collect a cell over seeds, with the ratio of the best peer to ours for each."""
    of = {p: [measured[size, s, p, *key] for s in seeds] for p in (OURS, *peers)}
    ratios = []
    for i, own in enumerate(of[OURS]):
        times = [of[p][i]["seconds"] for p in peers if of[p][i]["outcome"] == "met"]
        if times:
            ratios.append(min(times) / own["seconds"])
    return {
        "lam": key[0],
        "target": key[1],
        "ours": [own["seconds"] for own in of[OURS]],
        "gap": [own["gap"] for own in of[OURS]],
        "peers": {p: [cell["seconds"] for cell in of[p]] for p in peers},
        "outcomes": {p: [cell["outcome"] for cell in of[p]] for p in peers},
        "ratios": ratios,
        "ratio": float(np.exp(np.mean(np.log(ratios)))) if ratios else None,
    }


def _peer_versions(python: str) -> dict[str, str]:
    code = (
        "import json; from importlib.metadata import version, PackageNotFoundError\n"
        "out = {}\n"
        f"for name in {(*PEERS, 'numpy')!r}:\n"
        "    try: out[name] = version(name)\n"
        "    except PackageNotFoundError: pass\n"
        "print(json.dumps(out))"
    )
    text = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    versions: dict[str, str] = json.loads(text)
    return versions
