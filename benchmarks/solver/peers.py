"""Time one other package on a saved problem. Its own interpreter runs this: no import of ours.

    python peers.py celer|adelie|skglm request.json

The request names a problem file (.npz: contexts, y, n_lags) and cells, each with lams and a target
gap. For each cell, the loosest tolerance whose measured gap meets the target is searched for; only
that solve's CPU time counts, without the dense design and compilation. Standard output gets a JSON
line when the solver is ready and one after every solve, so that a reader knows which cell is late.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Solver = Callable[[list[float], float], list[Any]]

MAX_STEPS = 16  # of ever tighter tolerances
LONG = 0.3  # seconds: a longer solve is timed once


def dense(contexts: Any, n_lags: int) -> Any:
    """Return the dense lagged design in Fortran order, which column-wise solvers need."""
    n, dim = len(contexts) - n_lags + 1, contexts.shape[1]
    design = np.empty((n, n_lags * dim), order="F")
    for k in range(n_lags):
        start = n_lags - 1 - k
        design[:, k * dim : (k + 1) * dim] = contexts[start : start + n]
    return design


def relative_gap(design: Any, y: Any, coef: Any, lam: float, dim: int) -> float:
    """Compute the same relative duality gap as ours, by dense algebra."""
    n = len(y)
    residual = y - design @ coef
    largest = np.sqrt(((design.T @ residual / n).reshape(-1, dim) ** 2).sum(axis=1)).max()
    square, along = residual @ residual, y @ residual
    reach = lam / largest
    scale = np.clip(along / square, -reach, reach)
    penalty = np.sqrt((coef.reshape(-1, dim) ** 2).sum(axis=1)).sum()
    primal = square / (2 * n) + lam * penalty
    dual = (2 * scale * along - scale**2 * square) / (2 * n)
    return float((primal - dual) * 2 * n / (y @ y))


def celer_solver(design: Any, y: Any, dim: int) -> Solver:
    """Set up celer: working sets and dual extrapolation (Massias et al.)."""
    from celer.homotopy import celer_path

    def solve(lams: list[float], tol: float) -> list[Any]:
        alphas = np.array(lams)
        _, coefs, _ = celer_path(
            design, y, "grouplasso", alphas=alphas, groups=dim, tol=tol, max_iter=100
        )
        return list(coefs.T)

    return solve


def adelie_solver(design: Any, y: Any, dim: int) -> Solver:
    """Set up adelie: pathwise group elastic net in C++ (Yang and Hastie)."""
    import adelie as ad

    n_groups = design.shape[1] // dim
    matrix = ad.matrix.dense(design, method="naive", n_threads=1)

    def solve(lams: list[float], tol: float) -> list[Any]:
        state = ad.grpnet(
            matrix,
            ad.glm.gaussian(y),
            groups=np.arange(0, design.shape[1], dim),
            penalty=np.ones(n_groups),
            lmda_path=np.array(lams),
            tol=tol,
            intercept=False,
            early_exit=False,
            n_threads=1,
            progress_bar=False,
        )
        return [np.asarray(b) for b in state.betas.toarray()]

    return solve


def skglm_solver(design: Any, y: Any, dim: int) -> Solver:
    """Set up skglm: working sets and Anderson acceleration (Bertrand et al.)."""
    from skglm.datafits import QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD
    from skglm.utils.jit_compilation import compiled_clone

    n_features = design.shape[1]
    pointer = np.arange(0, n_features + 1, dim, dtype=np.int32)
    indices = np.arange(n_features, dtype=np.int32)
    datafit = compiled_clone(QuadraticGroup(pointer, indices))
    weights = np.ones(n_features // dim)

    def solve(lams: list[float], tol: float) -> list[Any]:
        out, w, fitted = [], np.zeros(n_features), np.zeros(len(y))
        for lam in lams:
            penalty = compiled_clone(WeightedGroupL2(lam, weights, pointer, indices))
            solver = GroupBCD(tol=tol * lam, max_iter=200)
            w = solver.solve(design, y, datafit, penalty, w.copy(), fitted)[0]
            fitted = design @ w
            out.append(w)
        return out

    return solve


# the solver, its loosest tolerance for a target gap, and by what each further step tightens it
PEERS: dict[str, tuple[Callable[[Any, Any, int], Solver], Callable[[float], float], float]] = {
    "celer": (celer_solver, lambda gap: 3 * gap, 3.0),
    "adelie": (adelie_solver, lambda gap: gap, 10.0),
    "skglm": (skglm_solver, lambda gap: gap**0.5, 3.0),
}


def timed(solve: Solver, lams: list[float], tol: float, repeat: int) -> tuple[float, list[Any]]:
    """Return the least CPU seconds of up to `repeat` runs, and the solutions."""
    best, coefs = np.inf, []
    for _ in range(repeat):
        start = time.process_time()
        coefs = solve(lams, tol)
        best = min(best, time.process_time() - start)
        if best > LONG:
            break
    return best, coefs


def measure(peer: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every solve: cell, step of the tolerance, CPU seconds and gap; "done" ends a cell."""
    data = np.load(request["file"])
    y, dim = data["y"], data["contexts"].shape[1]
    design = dense(data["contexts"], int(data["n_lags"]))
    make, loosest, factor = PEERS[peer]
    solve = make(design, y, dim)
    yield {"ready": True}
    for number, cell in enumerate(request["cells"]):
        lams, target, step, way = cell["lams"], cell["target"], cell["step"], 0
        while True:
            tol = loosest(target) * factor**-step
            seconds, coefs = timed(solve, lams, tol, 1)
            pairs = zip(coefs, lams, strict=True)
            gap = max(relative_gap(design, y, c, lam, dim) for c, lam in pairs)
            met = gap <= target
            if met and seconds < LONG:
                seconds = min(seconds, timed(solve, lams, tol, request["repeat"])[0])
            # one step looser while the target is met, one tighter while it is not, never both
            turn = -1 if met else 1
            done = way == -turn or (met and step == 0) or (not met and step == MAX_STEPS)
            found = {"seconds": seconds, "gap": gap, "tol": tol, "step": step}
            yield {"cell": number, "met": met, "done": done, **found}
            if done:
                break
            way, step = turn, step + turn


def warm_up(peer: str) -> None:
    """Import and compile on a small problem, before anything is timed."""
    rng = np.random.default_rng(0)
    design = np.asfortranarray(rng.standard_normal((30, 12)))
    y = rng.standard_normal(30)
    PEERS[peer][0](design, y, 3)([0.1, 0.05], 1e-4)


def main() -> None:
    """Measure what the request on the command line asks for."""
    peer, path = sys.argv[1:]
    with open(path) as file:
        request = json.load(file)
    warm_up(peer)
    for line in measure(peer, request):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
