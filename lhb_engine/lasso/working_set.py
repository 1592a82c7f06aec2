"""Working-set solver: solve on a few lags, add the lags that violate optimality, repeat.

Each pass solves on the working set's Gram matrix, then computes all lags' correlations through
the operator: they give the certificate and the lags to add, those whose correlation exceeds lam.
A set that outgrows its limit is given up, and the caller goes on matrix-free.
"""

import numpy as np

from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.block_norms import block_norms, dual_value, relative_gap
from lhb_engine.lasso.least_squares import LeastSquares
from lhb_engine.lasso.normal_equations import GramProblem, Scratch

MAX_COLUMNS = 500
MAX_COLUMNS_WELL_POSED = 200  # where rows exceed unknowns, FISTA needs few iterations
MAX_ENTRIES = 4_000_000  # of the dense columns, 32 MB
FIRST_LAGS = 8  # lags of the first set, twice as many with MANY_ROWS rows per feature
MANY_ROWS = 32
CLEAR = 0.5  # of the largest correlation: least correlation of a first lag
AHEAD = 4  # lags added in advance for the next point of a path
ROOM = 2  # most lags added by a pass, as a multiple of the active lags
LEAST_ROOM = 12  # and the least such limit
MAX_PASSES = 40
OUTGROWN = 3  # times the limit: lags wanted at which the set is given up; 1 where n >= unknowns


class WorkingSet:
    """Dense columns and Gram matrix of some lags, kept and grown along a path."""

    def __init__(self, problem: LeastSquares, correlation: Floats) -> None:
        self.problem = problem
        self.norms = block_norms(correlation)  # of the last residual's correlation
        self.at = float(self.norms.max())  # lam of the last residual
        dim = problem.design.dim
        self.well_posed = problem.n >= correlation.size
        most = MAX_COLUMNS_WELL_POSED if self.well_posed else MAX_COLUMNS
        self.limit = min(most, MAX_ENTRIES // problem.n) // dim
        self.lags: Ints = np.zeros(0, dtype=np.int64)
        self._buffer: Floats = np.empty((0, problem.n))  # columns of the design, transposed
        self.columns = self._buffer
        self.gram: Floats = np.zeros((0, 0))
        self.target: Floats = np.zeros((0, dim))
        self.curvature: float | None = None  # estimate of the Gram matrix's largest eigenvalue
        self.given_up = False
        self._scratch, self._turn = Scratch(), False

    def add(self, lags: Ints) -> None:
        """Add lags; only the new rows of the Gram matrix are computed."""
        n, dim = self.problem.n, self.problem.design.dim
        old, m = len(self.columns), len(self.columns) + len(lags) * dim
        if m > len(self._buffer):
            self._buffer = np.empty((min(2 * m, self.limit * dim), n))
            self._buffer[:old] = self.columns
        before, new = self._buffer[:old], self._buffer[old:m]
        self.problem.columns(lags, new)
        self.columns = self._buffer[:m]
        # two buffers in turn: the new matrix is filled from the old one
        self._turn = not self._turn
        gram = self._scratch.array(f"gram {self._turn}", m, m)
        gram[:old, :old] = self.gram
        np.matmul(new, before.T, out=gram[old:, :old])
        np.matmul(new, new.T, out=gram[old:, old:])
        gram[old:] /= n
        gram[:old, old:] = gram[old:, :old].T
        self.gram = gram
        self.target = np.concatenate([self.target, (new @ self.problem.y / n).reshape(-1, dim)])
        self.lags = np.concatenate([self.lags, lags])

    def solve(self, lam: float, tol: float, phi: Floats) -> tuple[Floats, float, int]:
        """Solve from `phi` to a relative gap of `tol`, or until the set outgrows its limit.

        Returns phi, the gap (infinite where the set was given up before its first pass) and the
        passes.
        """
        problem = self.problem
        wanted = block_norms(phi) > 0
        likely = np.argsort(-self.norms, kind="stable")
        if not wanted.any():
            plenty = problem.n >= MANY_ROWS * problem.design.dim
            first = likely[: FIRST_LAGS * (1 + plenty)]
            wanted[first] = self.norms[first] >= CLEAR * self.norms[first[0]]
        if lam > 0.5 * self.at:  # the next point of a path: add lags that violate lam already
            above = self.norms > lam
            above[self.lags] = False
            wanted[likely[above[likely]][:AHEAD]] = True
        wanted[self.lags] = False
        missing = np.flatnonzero(wanted)
        gap, inner, n_passes = np.inf, 0.3 * tol, 0
        while n_passes < MAX_PASSES:
            if len(self.lags) + len(missing) > self.limit:
                self.given_up = True
                break
            n_passes += 1
            if len(missing):
                self.add(missing)
            gram = GramProblem(
                self.gram, self.target, problem.square, lam, self.curvature, self._scratch
            )
            part = gram.solve(phi[self.lags], inner)
            self.curvature = gram.curvature
            phi = np.zeros_like(phi)
            phi[self.lags] = part
            residual = problem.y - part.ravel() @ self.columns
            norms = self.norms = block_norms(problem.correlate(residual))
            self.at = lam
            square = float(residual @ residual) / problem.n
            along = float(problem.y @ residual) / problem.n
            primal = square / 2 + lam * float(block_norms(phi).sum())
            dual = dual_value(square, along, float(norms.max()), lam)
            gap = relative_gap(primal, dual, problem.square)
            if gap <= tol:
                break
            violating = norms > lam
            violating[self.lags] = False
            outside = np.flatnonzero(violating)
            if len(self.lags) + len(outside) > self.limit * (1 if self.well_posed else OUTGROWN):
                self.given_up = True
                break
            room = max(LEAST_ROOM, int(ROOM * np.count_nonzero(block_norms(phi))))
            missing = outside[np.argsort(-norms[outside], kind="stable")[:room]]
            if len(missing) == 0:
                inner *= 0.1  # the set is complete, its solution not yet exact enough
        return phi, gap, n_passes
