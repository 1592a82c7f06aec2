"""The block lasso from moments: cost and certificate do not depend on the number of rows.

The problem is that of docs/model.md (5.5). Columns without a penalty are projected out of the
moments (a Schur complement), and the gap (5.8) is that of all lags.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.accelerated_gradient import Curvature, accelerated_gradient
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import (
    GRAM_GAP,
    MAX_GRAM_ITERATIONS,
    ROUNDING,
    GroupLassoResult,
    checked_start,
)
from lhb_engine.lasso.normal_equations import GramProblem, NormalEquations, Scratch

FIRST_LAGS = 16  # lags of the first working set
LEAST_ROOM = 12  # least number of lags that a pass may add; the active ones again, if more
MAX_PASSES = 40
MOST_COLUMNS = 512  # of a working set; beyond it first-order steps on all lags are faster
DEPENDENT = 1e-9  # of a column's length: a rest this short is no direction of its own


class GramLasso:
    """One problem for several lam, as `GroupLasso`, but from moments of at least one row.

    `unpenalised`, by default all, are the numbers of the covariates without penalty.
    """

    def __init__(self, moments: RowMoments, unpenalised: Sequence[int] | None = None) -> None:
        self.n = moments.n_rows
        self._n_lags, self._dim = moments.n_lags, moments.dim
        every = range(moments.n_covariates)
        self._chosen = list(every if unpenalised is None else unpenalised)
        self._cross = moments.cross[:, :, self._chosen].reshape(moments.n_lagged, -1)
        self._own_target = moments.covariate_target[self._chosen]
        own = moments.covariates[np.ix_(self._chosen, self._chosen)]
        self._basis = _independent(own)
        self.n_unpenalised = self._basis.shape[1]
        cross, along = self._cross @ self._basis, self._own_target @ self._basis
        self.gram = moments.gram / self.n
        if self.n_unpenalised:
            self.gram -= (cross / self.n) @ cross.T
        target = moments.target.ravel() - cross @ along
        self.correlation = target.reshape(self._n_lags, self._dim) / self.n
        self.given_square = moments.square / self.n
        self.square = max(self.given_square - float(along @ along) / self.n, 0.0)
        if self.square <= ROUNDING * self.given_square:
            self.square = 0.0
        level = moments.covariate_target[0]
        level -= moments.covariates[0, self._chosen] @ self._basis @ along
        self.deviation = float(np.sqrt(max(self.square - (level / self.n) ** 2, 0.0)))
        self._entries = float(np.trace(moments.gram)) / self.n
        largest = float(block_norms(self.correlation).max(initial=0.0))
        rounding = ROUNDING * np.sqrt(self.given_square * self._entries)
        self.lambda_max = largest if largest > rounding else 0.0
        self._lags: Ints = np.zeros(0, dtype=np.int64)  # the working set
        self._part: Floats = np.zeros((0, 0))  # its part of the Gram matrix
        self._step: float | None = None  # the last estimate of its largest eigenvalue
        self._scratch, self._curvature = Scratch(), Curvature()
        self.most_columns = MOST_COLUMNS

    @property
    def entry_rms(self) -> float:
        """Root mean square of the design's entries, all unpenalised columns projected out."""
        return float(np.sqrt(max(np.trace(self.gram), 0.0) / len(self.gram)))

    def residual_square(self, phi: Floats) -> float:
        """Return |y - X phi|^2, centred, (n_lags, dim) -> float."""
        return self._whole(1.0).residual(phi, self._product(phi))[0] * self.n

    def solve(
        self, lam: float, *, tol: float = 1e-6, warm_start: Floats | None = None
    ) -> GroupLassoResult:
        """Solve for one lam; see `group_lasso.solve_group_lasso`."""
        phi = checked_start(lam, tol, warm_start, self.correlation.shape)
        if lam >= self.lambda_max:
            return self._result(np.zeros_like(phi), 0.0, 0, tol)
        phi, gap, n_iterations = self._by_working_set(lam, tol, phi)
        if gap > tol:
            equations, least = self._equations, max(tol, GRAM_GAP)
            phi, gap, more = accelerated_gradient(
                equations, lam, least, phi, self._curvature, MAX_GRAM_ITERATIONS
            )
            n_iterations += more
        return self._result(phi, gap, n_iterations, tol)

    def _by_working_set(self, lam: float, tol: float, phi: Floats) -> tuple[Floats, float, int]:
        """Solve on a few lags, add those that violate optimality, repeat."""
        whole = self._whole(lam)
        norms = block_norms(self.correlation - self._product(phi))
        wanted = block_norms(phi) > 0
        likely = np.argsort(-norms, kind="stable")[:FIRST_LAGS]
        wanted[likely[norms[likely] > lam]] = True
        wanted[self._lags] = False
        self._add(np.flatnonzero(wanted))
        gap, inner, n_passes = np.inf, 0.3 * tol, 0
        while n_passes < MAX_PASSES and len(self._part) <= self.most_columns:
            n_passes += 1
            lags = self._lags
            part = GramProblem(
                self._part, self.correlation[lags], self.square, lam, self._step, self._scratch
            )
            solution = part.solve(phi[lags], inner)
            self._step = part.curvature
            phi = np.zeros_like(phi)
            phi[lags] = solution
            product = self._product(phi)
            gap = whole.gap(phi, product)
            if gap <= tol:
                break
            norms = block_norms(self.correlation - product)
            norms[lags] = 0.0
            outside = np.flatnonzero(norms > lam)
            if len(outside) == 0:
                inner *= 0.1  # the set is complete, its solution not yet exact enough
                continue
            room = max(LEAST_ROOM, int(np.count_nonzero(block_norms(phi))))
            self._add(outside[np.argsort(-norms[outside], kind="stable")[:room]])
        return phi, gap, n_passes

    def _add(self, lags: Ints) -> None:
        """Add lags to the working set; it holds all if it would hold half or too many of them."""
        if len(lags) == 0:
            return
        n_lags = len(self._lags) + len(lags)
        if 2 * n_lags >= self._n_lags or n_lags * self._dim > self.most_columns:
            self._lags, self._part = np.arange(self._n_lags), self.gram
            return
        old, new = self._columns(self._lags), self._columns(lags)
        both = np.concatenate([old, new])
        part = np.empty((len(both), len(both)))
        part[: len(old), : len(old)] = self._part
        part[len(old) :] = self.gram[new][:, both]
        part[: len(old), len(old) :] = part[len(old) :, : len(old)].T
        self._lags, self._part = np.concatenate([self._lags, lags]), part

    def _whole(self, lam: float) -> GramProblem:
        """Return the problem on all lags; its curvature is not used."""
        return GramProblem(self.gram, self.correlation, self.square, lam, 1.0, self._scratch)

    def _product(self, phi: Floats) -> Floats:
        """Return G phi."""
        lags = np.flatnonzero(block_norms(phi))
        if 4 * len(lags) > self._n_lags:
            return self._whole(1.0).times(phi)
        part = self.gram[self._columns(lags)]
        return np.asarray(phi[lags].ravel() @ part).reshape(phi.shape)

    def _columns(self, lags: Ints) -> Ints:
        return (lags[:, None] * self._dim + np.arange(self._dim)).ravel()

    @cached_property
    def _equations(self) -> NormalEquations:
        return NormalEquations(self.gram, self.correlation, self.square)

    def _result(self, phi: Floats, gap: float, n_iterations: int, tol: float) -> GroupLassoResult:
        left = self._own_target - phi.ravel() @ self._cross
        free = self._basis @ (self._basis.T @ left)
        out = dict(zip(self._chosen, free.tolist(), strict=True))
        controls = np.array([value for i, value in out.items() if i != 0])
        return GroupLassoResult(phi, out.get(0, 0.0), controls, gap, n_iterations, gap <= tol)


def _independent(own: Floats) -> Floats:
    """Return B with B'(Z'Z)B = 1 for `own` = Z'Z, by Gram-Schmidt.

    A column that is a combination of those before it adds none.
    """
    basis = np.zeros((len(own), 0))
    for i in range(len(own)):
        rest = np.eye(len(own))[i]
        for _ in range(2):
            rest = rest - basis @ (basis.T @ (own @ rest))
        square = float(rest @ own @ rest)
        if square > DEPENDENT * float(own[i, i]):
            basis = np.column_stack([basis, rest / np.sqrt(square)])
    return basis
