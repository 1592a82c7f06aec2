"""Responses of their own: a random slope for each trajectory (docs/model.md 15).

A trajectory's rows are y = G (theta + delta) + Z b + eps. G are its contexts, carried over by the
lag weights, and delta is normal with a covariance that all trajectories share. Given theta, the lag
weights and b, two sums say all that a trajectory's rows know of delta: A = G'G, and c = G'e with e
the errors of everybody's prediction, all of them of rows whose noise is independent.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.estimate import lagged_sums
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import Predictor

if TYPE_CHECKING:
    from lhb_engine.posterior.rank_one_posterior import Posterior

FEWEST, MOST = 5, 2048  # trajectories that a covariance is read off; of more, those with most rows
SPREADS = np.append(0.0, np.geomspace(0.01, 8.0, 28))  # of each number of theta, which is of unit
SWEEPS, STILL = 60, 1e-3  # at most so many; nats by which the last one raised the likelihood
PRIOR = 1  # trajectories, beyond one a feature, that an equal spread of all features counts as
TINY = 1e-12  # of the errors' variance: no noise is less
QUANTILE = 1.96  # of a 95% interval


class Evidence(NamedTuple):
    """What the rows of some trajectories know of their responses, an entry each."""

    gram: Floats  # (n, dim, dim): A
    product: Floats  # (n, dim): c
    square: Floats  # (n,): e'e
    n_rows: Floats  # (n,)

    @classmethod
    def of(cls, rows: AlignedRounds, known: Predictor, dim: int) -> "Evidence":
        """Add up the rows of each trajectory that has any, in order of `rows.owner`.

        They are quasi-differences (7.16) where the noise is autocorrelated, and without their
        levels (7.27) where trajectories have these.
        """
        places = np.flatnonzero(rows.number > 0)
        order = places[np.argsort(rows.owner[places], kind="stable")]
        starts = np.flatnonzero(np.diff(rows.owner[order], prepend=-1))
        both = np.column_stack([carried_over(rows, known, dim), known.residuals(rows)])
        both = innovations(rows, both, known.autocorrelation)[order]
        carried, errors = both[:, :dim], both[:, dim]
        gram = np.zeros((len(starts), dim, dim))
        for i in range(dim):
            both = np.add.reduceat(carried[:, i:] * carried[:, i, None], starts, axis=0)
            gram[:, i, i:] = gram[:, i:, i] = both
        product = np.add.reduceat(carried * errors[:, None], starts, axis=0)
        square, n_rows = np.add.reduceat(errors**2, starts), np.diff(np.append(starts, len(order)))
        return cls(gram, product, square, n_rows.astype(np.float64))

    def with_most_rows(self, most: int) -> "Evidence":
        """Return that of so many trajectories."""
        if len(self.n_rows) <= most:
            return self
        which = np.sort(np.argsort(-self.n_rows, kind="stable")[:most])
        return Evidence(*(part[which] for part in self))


def carried_over(rows: AlignedRounds, known: Predictor, dim: int) -> Floats:
    """Return sum_k w_k xi_(t-k) of every place, (n_places, dim), of the first features.

    Where features have lag profiles of their own, w is that of the direction.
    """
    weights = known.lag_weights[: rows.n_lags]
    if weights.ndim == 2:
        weights = weights[:, :dim] @ known.theta[:dim]
    return lagged_sums(rows.contexts[:, :dim], weights)


@dataclass(frozen=True)
class Responses:
    """How the responses of trajectories differ.

    `covariance` (dim, dim) is that of delta, in units in which theta is 1; `noise` the standard
    deviation of eps.
    """

    covariance: Floats
    noise: float

    def deltas(self, found: Evidence) -> Floats:
        """Return the posterior mean of each delta, (n, dim): docs/model.md (15.1)."""
        share = self.covariance / self.noise**2
        inside = np.eye(len(share)) + found.gram @ share
        return np.asarray(np.linalg.solve(inside, found.product[:, :, None])[:, :, 0] @ share)

    def covariances(self, found: Evidence) -> Floats:
        """Return the posterior covariance of each delta, (n, dim, dim)."""
        inside = np.eye(len(self.covariance)) + self.covariance @ found.gram / self.noise**2
        left = np.linalg.solve(inside, np.broadcast_to(self.covariance, inside.shape))
        return np.asarray(left)

    def errors(self, found: Evidence) -> Floats:
        """Return the posterior standard deviations of each delta's numbers, (n, dim)."""
        variances = np.einsum("nii->ni", self.covariances(found))
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"covariance": self.covariance.tolist(), "noise": self.noise}

    @classmethod
    def of(cls, said: dict[str, Any] | None) -> "Responses | None":
        """Return what `to_json`, or an estimate, says; None where all are alike."""
        if said is None:
            return None
        covariance = np.array(said["covariance"], np.float64)
        return cls(covariance, said["noise"]) if covariance.any() and said["noise"] > 0 else None


def less_responses(rows: AlignedRounds, known: Predictor) -> AlignedRounds:
    """Return rows whose y is less what each trajectory's own response adds to everybody's."""
    own = Responses.of(known.own)
    if own is None or not rows.n_rows:
        return rows
    dim = len(own.covariance)
    deltas = np.zeros((int(rows.owner.max()) + 2, dim))  # the last one is that of the gaps
    deltas[np.unique(rows.owner[rows.number > 0])] = own.deltas(Evidence.of(rows, known, dim))
    added = np.einsum("ij,ij->i", carried_over(rows, known, dim), deltas[rows.owner])
    return replace(rows, y=np.where(rows.number > 0, rows.y - added, 0.0))


class _Sweep(NamedTuple):
    """One step of EM: what a covariance and a noise say of the trajectories."""

    cost: float  # -log likelihood, but for a constant
    shift: Floats  # (dim,): how far the mean of theta + delta is from theta
    precision: Floats  # (n, dim, dim): of each trajectory's own estimate of delta
    second: Floats  # (dim, dim): mean of (delta - shift)(delta - shift)'
    noise2: float


def _sweep(found: Evidence, covariance: Floats, noise2: float, *, shifts: bool) -> _Sweep:
    """Return the step (docs/model.md (15.2))."""
    dim, n_rows = len(covariance), float(found.n_rows.sum())
    inside = np.eye(dim) + found.gram @ (covariance / noise2)
    both = np.concatenate([found.gram, found.product[:, :, None]], axis=2)
    solved = np.linalg.solve(inside, both) / noise2
    precision, pulled = solved[:, :, :dim], solved[:, :, dim]
    shift = np.zeros(dim)
    if shifts:
        total = precision.sum(axis=0)
        total += 1e-9 * np.trace(total) / dim * np.eye(dim)
        shift = np.linalg.solve(total, pulled.sum(axis=0))
    along = found.gram @ shift
    product = found.product - along
    square = found.square - (found.product + product) @ shift
    mean = (pulled - precision @ shift) @ covariance
    explained = np.einsum("ij,ij->i", product, mean)
    log_det = np.linalg.slogdet(inside)[1].sum()
    cost = 0.5 * (log_det + n_rows * np.log(noise2) + (square - explained).sum() / noise2)
    kept = covariance - covariance @ precision @ covariance
    second = kept + mean[:, :, None] * mean[:, None, :]
    left = square - 2.0 * explained + np.einsum("nij,nij->n", found.gram, second)
    return _Sweep(float(cost), shift, precision, second.mean(axis=0), float(left.sum() / n_rows))


class ResponseSpread(NamedTuple):
    """What a fit says of own responses."""

    responses: Responses
    shift: Floats  # (dim,)
    error: Floats  # (dim,): standard errors of the variances, the diagonal of the covariance
    gain: float  # nats by which this is likelier than that all are alike

    def about_mean(self, found: "Posterior") -> tuple["Posterior", Self]:
        """Return the posterior whose theta is the mean of all trajectories', and this about it."""
        theta = found.theta.copy()
        theta[: found.n_features] += self.shift
        norm = float(np.linalg.norm(theta[: found.n_features]))
        if not self.shift.any() or not norm > 0:
            return found, self
        own = replace(self.responses, covariance=self.responses.covariance / norm**2)
        new = self._replace(responses=own, error=self.error / norm**2)
        return replace(found, theta=theta / norm, weights=found.weights * norm), new

    def to_json(self) -> dict[str, Any]:
        """Return what an estimate says: the spread of each number of theta, with its interval.

        Variances that are clearly above 0 are taken for those of so many normal numbers that their
        standard errors are these; a few trajectories' spread has a long tail.
        """
        from scipy.special import chdtri  # what only fits need

        variance, reach = np.diag(self.responses.covariance), QUANTILE * self.error
        bounds = np.stack([variance - reach, variance + reach], axis=1)
        clear = bounds[:, 0] > 0.0
        free = 2.0 * (variance[clear] / np.maximum(self.error[clear], TINY)) ** 2
        bounds[clear] = (free * variance[clear] / chdtri(free, [[0.025], [0.975]])).T
        bounds = np.sqrt(np.maximum(bounds, 0.0))
        spread = np.sqrt(variance).tolist()
        said = {"spread": spread, "intervals": bounds.tolist(), "gain": self.gain}
        return self.responses.to_json() | said


def spread_of(found: Evidence, *, shifts: bool) -> ResponseSpread | None:
    """Return how responses differ, from the likelihood of all pairs of covariance and noise.

    It is that of equal spreads of all features, as units of these are equal, and from there that of
    any covariance. With `shifts` the mean may be another than theta. None from a few trajectories.
    """
    found = found.with_most_rows(MOST)
    n, dim = found.product.shape
    if n < FEWEST:
        return None
    size = np.einsum("nii->i", found.gram)
    mean_square = max(float(found.square.sum() / found.n_rows.sum()), float(np.finfo(float).tiny))
    unit = np.diag(size.mean() / np.maximum(size, 1e-9 * size.mean())) if size.any() else None
    if unit is None:
        return None
    steps = [_with_noise(found, tau**2 * unit, mean_square, shifts=shifts) for tau in SPREADS]
    best = int(np.argmin([step.cost for step, _ in steps]))
    (step, noise2), alike = steps[best], steps[0][0].cost
    covariance = prior = SPREADS[best] ** 2 * unit
    weight = dim + PRIOR
    for _ in range(SWEEPS if best else 0):
        before = step.cost
        covariance = (n * step.second + weight * prior) / (n + weight)
        noise2 = max(step.noise2, TINY * mean_square)
        step = _sweep(found, covariance, noise2, shifts=shifts)
        if 0.0 <= before - step.cost < STILL:
            break
    responses = Responses(covariance, float(np.sqrt(noise2)))
    return ResponseSpread(responses, step.shift, _errors(step.precision), alike - step.cost)


def _with_noise(
    found: Evidence, covariance: Floats, noise2: float, *, shifts: bool
) -> tuple[_Sweep, float]:
    """Return the step at a covariance, and the noise variance, after three steps of that alone."""
    least, step = TINY * noise2, _sweep(found, covariance, noise2, shifts=shifts)
    for _ in range(3):
        noise2 = max(step.noise2, least)
        step = _sweep(found, covariance, noise2, shifts=shifts)
    return step, noise2


def _errors(precision: Floats) -> Floats:
    """Return the standard errors of the variances, by the information on all of the covariance."""
    dim = precision.shape[1]
    flat = precision.reshape(len(precision), -1)
    both = (flat.T @ flat).reshape(dim, dim, dim, dim).transpose(0, 2, 1, 3).reshape(dim**2, -1)
    rows, columns = np.triu_indices(dim)
    pairs = np.zeros((dim**2, len(rows)))
    pairs[rows * dim + columns, range(len(rows))] = 1.0
    pairs[columns * dim + rows, range(len(rows))] = 1.0
    inverse = np.linalg.pinv(0.5 * pairs.T @ both @ pairs, hermitian=True)
    return np.asarray(np.sqrt(np.maximum(np.diag(inverse)[rows == columns], 0.0)))
