"""The posterior mean of direction and lag weights: scale, several starts, chains, average."""

from dataclasses import dataclass, replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.history import Floats
from lhb_engine.posterior.gibbs_chains import Chains
from lhb_engine.posterior.settings import AnytimeSettings

MOST_DOUBT = 0.3  # of the active lags
MOST_ACTIVE = 0.5  # of all lags
WIDER = 1.25  # chains are short: the truth is off by more than their draws are
FEW = 8.0  # rows that the common scale of the features counts for


@dataclass(frozen=True)
class Posterior:
    """Averages over the draws, in the user's units.

    Attributes
    ----------
    theta : (dim,) unit vector, the mean direction
    concentration : length of the mean of unit directions: 1 certain, near 0 nothing known
    weights : (n_lags,) mean lag weights, which carry theta's scale
    inclusion : (n_lags,) how often each lag was active
    sign : 1 where all draws agree on theta's side, 0 where half of them point the other way
    intercept : reward baseline a round
    baseline : probability that there is one
    noise : standard deviation of eps
    spread : root mean square angle between a draw of theta and the mean, in radians
    bound : angle from the mean within which theta is with probability 95%, in radians
    draws : (n_draws, dim) and (n_draws, n_lags), draws of theta and of the lag weights that go with
        it, in the user's units
    n_sweeps : sweeps of each chain
    """

    theta: Floats
    concentration: float
    weights: Floats
    inclusion: Floats
    sign: float
    intercept: float
    baseline: float
    noise: float
    spread: float
    bound: float
    draws: tuple[Floats, Floats]
    n_sweeps: int

    @property
    def is_sure(self) -> bool:
        """Whether it is clear which lags are active, and most are not.

        Else the chains have seen too little of the posterior to say how far off theta may be.
        """
        active = float(self.inclusion.sum())
        doubt = float((self.inclusion * (1.0 - self.inclusion)).sum())
        return doubt <= MOST_DOUBT * active and active <= MOST_ACTIVE * len(self.inclusion)


def rank_one_posterior(
    rows: AlignedRounds,
    seed: list[int],
    *,
    start: Floats | None = None,
    weights: Floats | None = None,
    signed: bool = False,
    settings: AnytimeSettings | None = None,
) -> Posterior:
    """Sample the posterior of the rank-one model.

    Parameters
    ----------
    rows : AlignedRounds
        At least one row, not all rewards and not all contexts zero.
    seed : list of int
        Of the sampler: equal rows and seeds give equal results.
    start : (dim,) array, optional
        A direction found before; half of the chains start there, the others anywhere.
    weights : (n_lags of then,) array, optional
        The lag weights found with it: that half starts from them as well, not from zero.
    signed : bool
        Lag weights may be negative; theta is then oriented such that they sum to >= 0.
    settings : AnytimeSettings, optional
        How many chains and sweeps.
    """
    settings = settings or AnytimeSettings()
    scale = context_scale(rows)
    size = float(np.sqrt(rows.y @ rows.y / rows.n_rows))
    scaled = replace(rows, contexts=rows.contexts / scale, y=rows.y / size)
    rng = np.random.Generator(np.random.PCG64(seed))
    n_chains = max(settings.least_chains, settings.places // rows.n_rows)
    n_chains = min(settings.most_chains, n_chains)
    theta = rng.standard_normal((n_chains, rows.contexts.shape[1]))
    if start is not None:
        theta[: n_chains // 2] = start * scale / np.linalg.norm(start * scale)
    w = None
    if start is not None and weights is not None and weights.any():
        w = _started(weights, rows.n_lags, n_chains, rng)
        w *= float(np.linalg.norm(start * scale)) / size
    chains = Chains(scaled, theta, rng, signed, w)
    for _ in range(settings.first_sweeps if start is None else settings.sweeps):
        chains.sweep()
    chance = chains.evidence()
    chance = np.exp((chance - chance.max()) / settings.temper)
    places = np.cumsum(chance / chance.sum())
    chosen = np.searchsorted(places, (np.arange(n_chains) + rng.random()) / n_chains)
    chains.keep(np.minimum(chosen, n_chains - 1))
    return _average(chains, settings.kept, scale, size)


def _started(weights: Floats, n_lags: int, n_chains: int, rng: np.random.Generator) -> Floats:
    """(n_chains, n_lags) lag weights of mean `weights` in half of the chains, few of them active.

    Those below half the largest are at half the largest, by chance, so that the mean is right.
    """
    w = np.zeros((n_chains, n_lags))
    known = weights[:n_lags]
    least = 0.5 * np.abs(known).max()
    size = np.maximum(np.abs(known), least) * np.sign(known)
    there = rng.random((n_chains // 2, len(known))) * least < np.abs(known)
    w[: n_chains // 2, : len(known)] = np.where(there, size, 0.0)
    return w


def _average(chains: Chains, n_sweeps: int, scale: Floats, size: float) -> Posterior:
    """Average draws, theta along the mean of sum(w) theta: an arm's worth is linear in that."""
    effects, baselines, thetas, weights = [], [], [], []
    phi = np.zeros((chains.rows.n_lags, len(scale)))
    inclusion = np.zeros(chains.rows.n_lags)
    for _ in range(n_sweeps):
        chains.sweep()
        effects.append(chains.w.sum(axis=1)[:, None] * chains.theta)
        thetas.append(chains.theta.copy())
        weights.append(chains.w.copy())
        baselines.append((chains.intercepts(), chains.baseline, chains.noise2))
        phi += chains.w.T @ chains.theta / (n_sweeps * chains.n_chains)
        inclusion += (chains.w != 0).sum(axis=0) / (n_sweeps * chains.n_chains)
    intercept, baseline, noise2 = np.mean(baselines, axis=(0, 2)).tolist()
    drawn = np.concatenate(effects)
    lengths = np.linalg.norm(drawn, axis=1)
    value = phi.sum(axis=0)
    length = float(np.linalg.norm(value))
    mean = value / max(length, 1e-300)
    axis = np.linalg.eigh(drawn.T @ drawn)[1][:, -1]
    cosines = (drawn @ mean) / np.maximum(lengths, 1e-300)
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    theta = mean / scale
    unit = max(float(np.linalg.norm(theta)), 1e-300)
    return Posterior(
        theta=theta / unit,
        concentration=min(length / max(float(lengths.mean()), 1e-300), 1.0),
        weights=phi @ mean * (unit * size),
        inclusion=inclusion,
        sign=abs(float(np.sign(drawn @ axis).mean())),
        intercept=intercept * size,
        baseline=baseline,
        noise=float(np.sqrt(noise2)) * size,
        spread=float(np.sqrt(np.mean(angles**2))),
        bound=min(WIDER * float(np.quantile(angles, 0.95)), np.pi),
        draws=(np.concatenate(thetas) / scale, np.concatenate(weights) * size),
        n_sweeps=n_sweeps,
    )


def context_scale(rows: AlignedRounds) -> Floats:
    """(dim,) each feature's root mean square, drawn to their common one while rows are few.

    The prior on theta is one number wide in all directions, so features must be of one size; yet
    a scale read off a handful of rows would only add noise to it.
    """
    square = (rows.contexts**2).sum(axis=0) / max(rows.n_rows, 1)
    seen = square > 0
    logs = np.log(np.where(seen, square, 1.0))
    common = float(logs[seen].mean())
    mixed = (rows.n_rows * logs + FEW * common) / (rows.n_rows + FEW)
    return np.asarray(np.exp(0.5 * np.where(seen, mixed, common)))
