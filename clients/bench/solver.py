"""`lhb bench solver`: our certified solves against celer, adelie and skglm at the same gap.

Ours is timed whole (operator, transforms, solve); the others from the dense design on. All run one
thread and are measured in CPU seconds, so that a busy machine does not decide.
"""

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lhb_engine.group_lasso import GroupLasso, GroupLassoResult
from lhb_engine.history import Floats
from lhb_engine.lagged_design import LaggedDesign

PEERS = ("celer", "adelie", "skglm")
FRACTIONS = (0.5, 0.1, 0.02)
GAPS = (1e-4, 1e-6)
SIZES = ((5, 100, 100), (5, 100, 800), (10, 500, 1000), (10, 1000, 4000))
LARGE = ((20, 1000, 8000), (10, 5000, 20000))
N_PATH = 20


def problem(size: tuple[int, int, int], seed: int) -> tuple[Floats, Floats]:
    """Contexts of n + h - 1 rounds and the last n rewards: flat weights, s = 5, noise 0.1."""
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
    """The problem set up from raw contexts: what our time includes."""
    measured = np.arange(n_lags - 1, len(contexts))
    return GroupLasso(LaggedDesign(contexts, n_lags).select(measured), y)


def time_ours(
    contexts: Floats, y: Floats, n_lags: int, lams: Sequence[float], gap: float, repeat: int
) -> tuple[float, list[GroupLassoResult]]:
    """CPU seconds (the least of a few) and results."""
    best, results = np.inf, []
    for _ in range(repeat):
        start = time.process_time()
        lasso = ours(contexts, y, n_lags)
        results = list(lasso.path(lams, tol=gap))
        best = min(best, time.process_time() - start)
    return best, results


def run(
    *,
    sizes: Sequence[tuple[int, int, int]] = SIZES,
    seeds: int = 5,
    first_seed: int = 1000,
    peers: Sequence[str] = PEERS,
    peers_python: str = ".venv-peers/bin/python",
    repeat: int = 5,
    timeout: float = 3600.0,
    path: bool = True,
) -> dict[str, Any]:
    """Measure every cell: size x (three lams and a path) x target gap x seed.

    Returns
    -------
    dict with "settings" and "sizes": for each size its cells, each with our CPU seconds, the
    peers', the ratio of the best peer to ours for every seed and their geometric mean.
    """
    python = peers_python if Path(peers_python).exists() else sys.executable
    out = [_measure(s, seeds, first_seed, peers, python, repeat, timeout, path=path) for s in sizes]
    return {
        "settings": {
            "seeds": [first_seed, first_seed + seeds - 1],
            "gaps": list(GAPS),
            "fractions_of_lambda_max": list(FRACTIONS),
            "path_points": N_PATH if path else 0,
            "clock": "CPU seconds of one thread, least of a few repeats",
            "versions": {name: version(name) for name in ("numpy", "scipy")},
            "peer_versions": _peer_versions(python),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
        },
        "sizes": out,
    }


def _measure(
    size: tuple[int, int, int],
    seeds: int,
    first_seed: int,
    peers: Sequence[str],
    python: str,
    repeat: int,
    timeout: float,
    *,
    path: bool,
) -> dict[str, Any]:
    cells: dict[tuple[str, float], dict[str, Any]] = {}
    requests = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first_seed, first_seed + seeds):
            contexts, y = problem(size, seed)
            file = str(Path(folder) / f"{seed}.npz")
            np.savez(file, contexts=contexts, y=y, n_lags=size[1])
            top = ours(contexts, y, size[1]).lambda_max
            lams = [[f * top] for f in FRACTIONS]
            if path:
                lams.append((top * np.geomspace(1, FRACTIONS[-1], N_PATH + 1)[1:]).tolist())
            requests.append({"file": file, "lams": lams, "gaps": GAPS})
            for name, points in zip([*map(str, FRACTIONS), "path"], lams, strict=False):
                for gap in GAPS:
                    seconds, results = time_ours(contexts, y, size[1], points, gap, repeat)
                    cell = cells.setdefault((name, gap), _empty(name, gap, peers))
                    cell["ours"].append(seconds)
                    cell["gap"].append(max(r.gap for r in results))
        for peer in peers:
            request = Path(folder) / "request.json"
            request.write_text(json.dumps({"problems": requests, "repeat": repeat}))
            for answer in _ask(python, peer, request, timeout):
                for key, cell in zip(cells, answer["cells"], strict=True):
                    cells[key]["peers"][peer].append(cell["seconds"])
    for cell in cells.values():
        _rate(cell, seeds)
    d, h, n = size
    return {"dim": d, "n_lags": h, "n_rows": n, "cells": list(cells.values())}


def _empty(name: str, gap: float, peers: Sequence[str]) -> dict[str, Any]:
    return {"lam": name, "target": gap, "ours": [], "gap": [], "peers": {p: [] for p in peers}}


def _ask(python: str, peer: str, request: Path, timeout: float) -> list[dict[str, Any]]:
    """The peer's answers, as many as it gave before the timeout."""
    script = Path(__file__).with_name("peers.py")
    command = [python, str(script), peer, str(request)]
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )
        text = done.stdout
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _rate(cell: dict[str, Any], seeds: int) -> None:
    """Ratio of the best peer to ours, a seed, and the geometric mean."""
    ratios = []
    for i in range(seeds):
        times = [t[i] for t in cell["peers"].values() if i < len(t) and t[i] is not None]
        if times:
            ratios.append(min(times) / cell["ours"][i])
    cell["ratios"] = ratios
    cell["ratio"] = float(np.exp(np.mean(np.log(ratios)))) if ratios else None


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
