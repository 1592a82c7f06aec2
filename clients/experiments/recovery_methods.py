"""Noiseless recovery of a matrix phi (lags x dim) from rows X phi = y: three methods.

The two convex methods minimise a norm over {X phi = y} by Douglas-Rachford splitting. The true phi
is passed to each method only to stop early once it is recovered.
"""

from collections.abc import Callable

import numpy as np

from lhb_engine.history import Floats

ITERATIONS = 400
CHECK_EVERY = 20
FOUND = 5e-4  # relative error that stops a method: half of the one that counts as success
SWEEPS, STARTS = 80, 2

Recover = Callable[[Floats, Floats, Floats], Floats]


def shrink_rows(phi: Floats, amount: float) -> Floats:
    """Shorten every row by `amount`, to zero where it is shorter."""
    norms = np.linalg.norm(phi, axis=1)
    factor = np.maximum(0.0, 1.0 - amount / np.maximum(norms, np.finfo(float).tiny))
    return np.asarray(phi * factor[:, None])


def shrink_spectrum(phi: Floats, amount: float) -> Floats:
    """Lower every singular value by `amount`, to zero where it is smaller."""
    # the eigenvectors of the small Gram matrix (dim x dim) are cheaper than an SVD
    values, vectors = np.linalg.eigh(phi.T @ phi)
    singular = np.sqrt(np.maximum(values, 0.0))
    factor = np.maximum(0.0, 1.0 - amount / np.maximum(singular, np.finfo(float).tiny))
    return np.asarray(phi @ (vectors * factor) @ vectors.T)


def least_norm(prox: Callable[[Floats, float], Floats]) -> Recover:
    """Return a method: the least solution of X phi = y in the norm with proximal map `prox`."""

    def recover(design: Floats, y: Floats, truth: Floats) -> Floats:
        # q: orthonormal basis of the row space; the projection on {X phi = y} is v - q q'v + x0
        q, r = np.linalg.qr(design.T)
        x0 = q @ np.linalg.solve(r.T, y)
        amount = 0.5 * float(np.linalg.norm(x0)) / np.sqrt(truth.shape[1])
        z = x0
        on_rows = x0
        for iteration in range(1, ITERATIONS + 1):
            short = prox(z.reshape(truth.shape), amount).ravel()
            reflected = 2 * short - z
            on_rows = reflected - q @ (q.T @ reflected) + x0
            z = z + 1.5 * (on_rows - short)
            if iteration % CHECK_EVERY == 0:
                if float(np.linalg.norm(on_rows - truth.ravel())) < FOUND:
                    break
                if float(np.linalg.norm(on_rows - short)) < 1e-7:
                    break  # converged, but not to the truth
        return np.asarray(on_rows.reshape(truth.shape))

    return recover


def alternating(design: Floats, y: Floats, truth: Floats) -> Floats:
    """Return theta w' by alternating least squares, from the spectral start and a random one.

    With fewer rows than theta w' has degrees of freedom the result is 0.
    """
    n_lags, dim = truth.shape
    best, least = np.zeros_like(truth), np.inf
    if len(y) < n_lags + dim - 1:
        return best
    tensor = design.reshape(len(y), n_lags, dim)
    spectral = np.linalg.svd((design.T @ y).reshape(n_lags, dim), full_matrices=False)[2][0]
    rng = np.random.default_rng(0)
    exact = 1e-6 * float(np.linalg.norm(y))
    for start in (spectral, *rng.standard_normal((STARTS - 1, dim))):
        theta = start
        for _ in range(SWEEPS):
            weights = _least_squares(tensor @ (theta / np.linalg.norm(theta)), y)
            blocks = weights @ tensor
            theta = _least_squares(blocks, y)
            loss = float(np.linalg.norm(y - blocks @ theta))
            if loss < exact:
                break
        if loss < least:
            best, least = np.outer(weights, theta), loss
        if least < exact:
            break
    return best


def _least_squares(matrix: Floats, y: Floats) -> Floats:
    """Solve the normal equations, with a ridge of rounding size so that they are not singular."""
    gram = matrix.T @ matrix
    gram[np.diag_indices_from(gram)] += 1e-13 * float(np.trace(gram))
    return np.asarray(np.linalg.solve(gram, matrix.T @ y))


METHODS: dict[str, Recover] = {
    "nuclear norm": least_norm(shrink_spectrum),
    "alternating": alternating,
    "block lasso": least_norm(shrink_rows),
}
