"""The posterior mean of theta and w: scale the data, run the chains, average the draws.

Equation numbers are those of docs/model.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.moments import RowMoments
from lhb_engine.estimate import LagForm
from lhb_engine.history import Floats
from lhb_engine.posterior.anytime_settings import AnytimeSettings
from lhb_engine.posterior.gibbs_sampler import Chains
from lhb_engine.posterior.smooth_profiles import SmoothChains

WIDTH = 2.0  # prior deviation of the presample's score about that expected, over that of scores
LEAST = 1e-3  # deviation of scores, over their size, below which contexts are taken to be alike


@dataclass(frozen=True)
class ExpectedPresample:
    """The presample that contexts seen since lead to expect.

    `share` (dim,) is the mean context, for each unit of the presample's feature; `spread` (dim,)
    the standard deviation of each feature of a context; `value` that of the presample's feature, in
    the rounds before the first.
    """

    share: Floats
    spread: Floats
    value: float

    def less(self, rows: AlignedRounds | RowMoments) -> AlignedRounds | RowMoments:
        """Return rows whose contexts before round 1 are the mean, and whose last feature is more.

        What that feature pays is then the difference to what is expected.
        """
        return rows.mixed(self.share)

    def beyond(self, theta: Floats) -> Floats:
        """Return theta for such rows, (dim + 1,) or (dim,) -> (dim + 1,); the inverse of `whole`.

        A theta of the features alone pays before round 1 what is expected.
        """
        features, before = np.split(theta, [len(self.share)])
        return np.append(features, before - features @ self.share if len(before) else 0.0)

    def whole(self, thetas: Floats) -> Floats:
        """Return thetas for rows as they were from those for such rows, (n, dim + 1)."""
        out = thetas.copy()
        out[:, -1] += thetas[:, :-1] @ self.share
        return out

    def scale(self, scale: Floats) -> float:
        """Return the scale of the last feature where those of a context have these, (dim,)."""
        spread = float(np.linalg.norm(self.spread / scale))
        return self.value / (WIDTH * max(spread, LEAST * float(np.sqrt(len(scale)))))


def expected_presample(rows: AlignedRounds | RowMoments, value: float) -> ExpectedPresample:
    """Return the presample to expect by the contexts of the rows' own rounds.

    Their last feature is that of the presample: 0 in these rounds, and `value` before the first.
    """
    square, along, unit = rows.context_sums
    mean = along[:-1] / unit
    variance = np.maximum(square[:-1] - mean * along[:-1], 0.0) / rows.n_rows
    return ExpectedPresample(mean / value, np.sqrt(variance), value)


# smooth lag weights are tried from 120 rows on, at 6 to 10 rows a lag; at 10 where errors last
ROWS_A_LAG, LASTING_A_LAG, FEW_ROWS = 6.0, 10.0, 120.0
MOST_UNKNOWNS = 1000  # lags times features; with more, moments are too large
MOST_FEATURES = 300  # a test of directions costs their cube
CONSTANT = 1e-11  # of the contexts' mean square: a direction of less variance never varied
FEW = 8.0  # rows: weight of the common scale in `context_scale`
DUST = 1e-60  # of squares: a feature smaller beside the largest says nothing
# a direction stands out from the noise from this concentration and agreement on (7.13)
LEAST_CONCENTRATION, LEAST_AGREEMENT = 0.3, 0.9


@dataclass(frozen=True)
class Posterior:
    """Averages over the posterior draws, in the units of the rows."""

    # (n_features,) or (n_features + 1,): theta_hat of (7.9), of length 1; after it the mean score
    # before round 1, where it is asked
    theta: Floats
    # (7.10): 1 where all draws agree on the direction, near 0 where nothing is known
    concentration: float
    # (n_lags,) or (n_lags, dim): w_hat of (7.9), scaled for a unit theta; or lag profiles, where
    # features have their own
    weights: Floats
    inclusion: Floats  # (n_lags,): share of the draws in which each lag is active
    # agreement of the draws on theta's sign: 1 where all agree, 0 where half are opposite
    sign: float
    # (1 + n_covariates,): b: the reward baseline per round, then the effects of the covariates per
    # unit of each
    effects: Floats
    # (1 + n_groups,): probability that there is a baseline, and that each group of covariates has
    # an effect
    included: Floats
    noise: float  # standard deviation of eps
    # pair of (n_draws, dim) and (n_draws, n_lags) or (n_draws, n_lags, dim): draws of theta and of
    # the lag weights; or of the totals and of lag profiles
    draws: tuple[Floats, Floats]
    n_features: int  # features of an arm
    form: LagForm = "shared"  # "shared", or that of features' own lag profiles
    smooth: float = 0.0  # share of the draws whose lag weights are smooth

    @property
    def stands_out(self) -> bool:
        """Whether the direction stands out from the noise, by docs/model.md (7.13)."""
        return self.concentration >= LEAST_CONCENTRATION and self.sign >= LEAST_AGREEMENT

    @property
    def totals(self) -> Floats:
        """Draws of what an action pays in all by each feature, (n_draws, n_features)."""
        thetas, weights = self.draws
        drawn = weights.sum(axis=1)
        if weights.ndim == 2:
            drawn = drawn[:, None] * thetas
        return np.asarray(drawn[:, : self.n_features])

    @property
    def along(self) -> Floats:
        """Draws of the lag weights of a theta of length 1, that of each draw, (n_draws, n_lags)."""
        (thetas, weights), n, along = self.draws, self.n_features, units(self.totals)
        if weights.ndim == 2:
            return np.asarray(weights * np.vecdot(thetas[:, :n], along)[:, None])
        return np.asarray(np.einsum("skd,sd->sk", weights[:, :, :n], along))

    @property
    def phi(self) -> Floats:
        """Draws of what each feature pays at each lag, (n_draws, n_lags, n_features)."""
        thetas, weights = self.draws
        weights = weights if weights.ndim == 3 else weights[:, :, None] * thetas[:, None]
        return weights[:, :, : self.n_features]


def units(vectors: Floats) -> Floats:
    """Return vectors (n, dim) of length 1 in their directions; 0 stays 0."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300))


LEAST_SHARE = 0.02  # of the draws: chains of a kind that would have less are left out


@dataclass(frozen=True)
class Draws:
    """Draws of chains, and means of what goes with them."""

    thetas: Floats  # (n_draws, dim)
    w: Floats  # (n_draws, n_lags)
    inclusion: Floats  # (n_lags,): how surely each lag is active, by the group with the most draws
    effects: Floats  # mean of b
    included: Floats  # how often each group of covariates is in the model
    noise2: float  # mean of the noise variance
    smooth: float  # share of the draws whose lag weights are smooth


def draws_of(groups: Sequence[Chains], n_sweeps: int, temper: float) -> Draws:
    """Resample chains by their evidence over `temper`, (7.8), sweep on, and pool their draws.

    Chains of one kind are a group; they are resampled among each other, and draws of all groups
    are pooled by the sums of their chances.
    """
    # NaN where rounding makes a chain's matrix no covariance: that chain is not drawn
    evidence = [np.nan_to_num(chains.evidence(), nan=-np.inf) for chains in groups]
    largest = max(float(of.max()) for of in evidence)
    chances = [np.exp((of - largest) / temper) for of in evidence]
    total = float(sum(chance.sum() for chance in chances))
    drawn, shares = [], []
    for chains, chance in zip(groups, chances, strict=True):
        if chance.sum() > LEAST_SHARE * total:
            n, places = chains.n_chains, np.cumsum(chance / chance.sum())
            chosen = np.searchsorted(places, (np.arange(n) + chains.rng.random()) / n)
            chains.keep(np.minimum(chosen, n - 1))
            drawn.append(_drawn(chains, n_sweeps))
            shares.append(float(chance.sum()))
    return _pooled(drawn, np.array(shares) / sum(shares))


def _drawn(chains: Chains, n_sweeps: int) -> Draws:
    """Run the last sweeps."""
    thetas, w, effects, included, noise2 = [], [], [], [], 0.0
    for _ in range(n_sweeps):
        chains.sweep()
        thetas.append(chains.data.span.whole(chains.theta, chains.outside))
        w.append(chains.w.copy())
        effects.append(chains.effects().mean(axis=0))
        included.append(chains.covariates.included.mean(axis=0))
        noise2 += float(chains.noise2.mean()) / n_sweeps
    directions, weights = np.concatenate(thetas), np.concatenate(w)
    active = chains.active_lags(directions, weights)
    means = np.mean(effects, axis=0), np.mean(included, axis=0)
    return Draws(directions, weights, active, *means, noise2, chains.smooth)


def _pooled(parts: Sequence[Draws], shares: Floats) -> Draws:
    """Return draws of which each part has its share, as many as the first part has."""
    if len(parts) == 1:
        return parts[0]
    n, first = len(parts[0].w), 0
    thetas, w = [], []
    for part, end in zip(parts, np.round(np.cumsum(shares) * n).astype(int).tolist(), strict=True):
        at = np.linspace(0, len(part.w), end - first, endpoint=False).astype(int)
        thetas.append(part.thetas[at])
        w.append(part.w[at])
        first = end

    def mean(values: Sequence[Floats]) -> Floats:
        return np.asarray(np.tensordot(shares, np.array(values), 1))

    return Draws(
        np.concatenate(thetas),
        np.concatenate(w),
        parts[int(shares.argmax())].inclusion,
        mean([part.effects for part in parts]),
        mean([part.included for part in parts]),
        float(shares @ [part.noise2 for part in parts]),
        float(shares @ [part.smooth for part in parts]),
    )


def rank_one_posterior(
    rows: AlignedRounds | RowMoments,
    seed: list[int],
    *,
    start: Floats | None = None,
    weights: Floats | None = None,
    signed: bool = False,
    value_before: float | None = None,
    baseline: bool = False,
    errors_last: bool = False,
    settings: AnytimeSettings | None = None,
) -> Posterior:
    """Sample the posterior of the rank-one model (docs/model.md 7) and average the draws.

    There is at least one row; neither all rewards nor all contexts are zero. Equal rows and seeds
    give equal results, and the same rows' moments give them but for rounding.

    Half of the chains start at a direction found before (`start`) and the lag weights found with
    it, the others at random and at 0. With `signed` lag weights may be negative; theta is then
    oriented such that they sum to >= 0. With `value_before` the last feature is that of the rounds
    before the first, of this value there: (7.29). With `baseline` all draws have one. Where
    `errors_last`, smooth lag weights need more rows.
    `settings` are numbers of chains and sweeps, and the temper of (7.8).
    """
    settings = settings or AnytimeSettings()
    expected = None if value_before is None else expected_presample(rows, value_before)
    if expected is not None:
        rows = expected.less(rows)
        start = None if start is None else expected.beyond(start)
    scale = context_scale(rows)
    if expected is not None:
        scale[-1] = expected.scale(scale[:-1])
    size = float(np.sqrt(rows.square / rows.n_rows))
    scaled = rows.divided(scale, size)
    rng = np.random.Generator(np.random.PCG64(seed))
    n_chains = max(settings.least_chains, settings.places // rows.n_rows)
    n_chains = min(settings.most_chains, n_chains)
    theta = _directions(start, scale, n_chains, rng)
    w = None
    if start is not None and weights is not None and weights.any():
        w = _started(weights, rows.n_lags, n_chains, rng)
        w *= float(np.linalg.norm(start * scale)) / size
    groups: list[Chains] = [Chains(scaled, theta, rng, signed, w)]
    shortest = float(np.clip(FEW_ROWS / rows.n_lags, ROWS_A_LAG, LASTING_A_LAG))
    least = LASTING_A_LAG if errors_last else shortest
    are_told = rows.n_lags > 1 and rows.n_rows >= least * rows.n_lags  # from spikes
    if settings.smooth_chains and are_told and rows.n_lags * len(scale) <= MOST_UNKNOWNS:
        rng = np.random.Generator(np.random.PCG64([*seed, 1]))
        theta = _directions(start, scale, settings.smooth_chains, rng)
        moments = scaled if isinstance(scaled, RowMoments) else session_moments(scaled).whitened(0)
        groups.append(SmoothChains(moments, theta, rng))
    for chains in groups:
        if baseline:
            chains.covariates.have_baseline()
        for _ in range(settings.first_sweeps if start is None else settings.sweeps):
            chains.sweep()
    draws = draws_of(groups, settings.kept, settings.temper)
    return _average(draws, scale, size, expected, _constant_directions(rows, scale))


def _directions(
    start: Floats | None, scale: Floats, n_chains: int, rng: np.random.Generator
) -> Floats:
    """Return initial directions, (n_chains, dim): random, or half of them as before."""
    theta = rng.standard_normal((n_chains, len(scale)))
    if start is not None:
        theta[: n_chains // 2] = start * scale / np.linalg.norm(start * scale)
    return theta


def _started(weights: Floats, n_lags: int, n_chains: int, rng: np.random.Generator) -> Floats:
    """Return sparse initial lag weights, (n_chains, n_lags), with mean `weights`.

    The second half of the chains starts at 0. In the first half, a weight below half the largest is
    either 0 or half the largest, at random with the right mean.
    """
    w = np.zeros((n_chains, n_lags))
    earlier = weights[:n_lags]
    least = 0.5 * np.abs(earlier).max()
    size = np.maximum(np.abs(earlier), least) * np.sign(earlier)
    there = rng.random((n_chains // 2, len(earlier))) * least < np.abs(earlier)
    w[: n_chains // 2, : len(earlier)] = np.where(there, size, 0.0)
    return w


def _average(
    draws: Draws, scale: Floats, size: float, expected: ExpectedPresample | None, constant: Floats
) -> Posterior:
    """Average the draws, by (7.9) and (7.10).

    `scale` (dim,) and `size` are what contexts and rewards were divided by; along the directions
    `constant`, (dim, n), contexts never varied, and draws say nothing of a choice.
    """
    n_features = len(scale) - (expected is not None)
    thetas, w, n_draws = draws.thetas, draws.w, len(draws.w)
    sums, of_arms = w.sum(axis=1), thetas[:, :n_features]
    lengths = np.abs(sums) * np.linalg.norm(of_arms, axis=1)
    value = sums @ of_arms / n_draws
    length = float(np.linalg.norm(value))
    mean = value / length if length else of_arms.mean(axis=0)  # all lags off in all draws
    along = of_arms @ mean
    drawn, constant = sums[:, None] * of_arms, constant[:n_features]
    drawn -= drawn @ constant @ constant.T if constant.size else 0.0
    sign = abs(float(np.sign(_along_axis(drawn)).mean()))
    theta = mean / scale[:n_features]
    unit = max(float(np.linalg.norm(theta)), 1e-300)
    weights = along @ w * (unit * size / n_draws)
    directions = thetas / scale if expected is None else expected.whole(thetas / scale)
    # what the presample pays at each lag is closest to these weights times its mean score
    before = directions[:, n_features:].T @ w * (size / n_draws)
    score = before @ weights / max(float(weights @ weights), 1e-300)
    return Posterior(
        theta=np.append(theta / unit, score),
        concentration=min(length / max(float(lengths.mean()), 1e-300), 1.0),
        weights=weights,
        inclusion=draws.inclusion,
        sign=sign,
        effects=draws.effects * size,
        included=draws.included,
        noise=float(np.sqrt(draws.noise2)) * size,
        draws=(directions, w * size),
        n_features=n_features,
        smooth=draws.smooth,
    )


def _along_axis(drawn: Floats) -> Floats:
    """Return the draws' coordinates along their first principal axis through 0, up to a factor."""
    if drawn.shape[1] <= len(drawn):
        return np.asarray(drawn @ np.linalg.eigh(drawn.T @ drawn)[1][:, -1])
    return np.asarray(np.linalg.eigh(drawn @ drawn.T)[1][:, -1])


def _constant_directions(rows: AlignedRounds | RowMoments, scale: Floats) -> Floats:
    """Return directions along which contexts over `scale` never varied, (dim, n), orthonormal.

    With more than 300 features no directions are looked for.
    """
    if len(scale) > MOST_FEATURES:
        return np.zeros((len(scale), 0))
    variance, axes = np.linalg.eigh(rows.covariance / np.outer(scale, scale))
    return np.asarray(axes[:, variance <= CONSTANT])


def context_scale(rows: AlignedRounds | RowMoments) -> Floats:
    """Return each feature's root mean square, (dim,), shrunk towards their geometric mean.

    The prior of theta has one variance for all features, so features are scaled alike. Rows count
    by their contexts at lag 0. Shrinkage has the weight of 8 rows, because a scale from a few rows
    is noise. A feature that is `DUST` beside the largest has the scale of one that is always 0.
    """
    square = rows.context_sums[0] / max(rows.n_rows, 1)
    seen = square > DUST * square.max(initial=0.0)
    logs = np.log(np.where(seen, square, 1.0))
    common = float(logs[seen].mean()) if seen.any() else 0.0
    mixed = (rows.n_rows * logs + FEW * common) / (rows.n_rows + FEW)
    return np.asarray(np.exp(0.5 * np.where(seen, mixed, common)))
