"""Responses of their own: a random slope for each trajectory (docs/model.md 15).

Two sums say all that a trajectory's rows know of delta: A = G'G, and c = G'e with e the errors of
everybody's prediction, all of them of rows whose noise is independent. Where groups of trajectories
are known, delta is about a mean of the trajectory's group, which is normal, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.estimate import lagged_sums
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.predictor import SHOWN, Predictor

if TYPE_CHECKING:
    from lhb_engine.posterior.rank_one_posterior import Posterior

FEWEST, MOST = 5, 2048  # trajectories that a covariance is read off; of more, those with most rows
MOST_NUMBERS = 80_000  # that these trajectories' A have
SHARES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)  # of the variance: that of groups
FEWEST_GROUPS, MOST_GROUPS = 3, 100  # that are asked; whose means are said: those with most rows
LIKELIER = 1.0  # nats a feature: by so many groups have to differ
SPREADS = np.append(0.0, np.geomspace(0.01, 8.0, 10))  # of each number of theta, which is of unit
CYCLES, STILL = 16, 1e-2  # at most so many; nats by which the last one raised the likelihood
LOST = 1e-13  # of a variance, which floats do not tell from 0 beside it
FARTHEST = 64.0  # that a cycle goes, in its first step
PRIOR = 1  # trajectories, beyond one a feature, that features without correlation count as
TINY = 1e-12  # of the errors' variance: no noise is less
QUANTILE = 1.96  # of a 95% interval
MOST_UNSURE = 2.0  # error of a variance, over the variance, that counts


class Evidence(NamedTuple):
    """What the rows of some trajectories know of their responses, an entry each."""

    gram: Floats  # (n, dim, dim): A
    product: Floats  # (n, dim): c
    square: Floats  # (n,): e'e
    n_rows: Floats  # (n,)
    keys: np.ndarray  # (n,): of the trajectories

    @classmethod
    def of(cls, rows: AlignedRounds, predictor: Predictor, dim: int) -> "Evidence":
        """Add up the rows of each trajectory that has any, in order of `rows.owner`.

        Rows are quasi-differences (7.16) where the noise is autocorrelated, and are without levels
        (7.27) where trajectories have levels.
        """
        places = np.flatnonzero(rows.number > 0)
        order = places[np.argsort(rows.owner[places], kind="stable")]
        starts = np.flatnonzero(np.diff(rows.owner[order], prepend=-1))
        both = np.column_stack([carried_over(rows, predictor, dim), predictor.residuals(rows)])
        both = innovations(rows, both, predictor.autocorrelation)[order]
        carried, errors = both[:, :dim], both[:, dim]
        gram = np.zeros((len(starts), dim, dim))
        for i in range(dim):
            both = np.add.reduceat(carried[:, i:] * carried[:, i, None], starts, axis=0)
            gram[:, i, i:] = gram[:, i:, i] = both
        product = np.add.reduceat(carried * errors[:, None], starts, axis=0)
        square, n_rows = np.add.reduceat(errors**2, starts), np.diff(np.append(starts, len(order)))
        keys = np.array(rows.keys, dtype=object)[rows.owner[order[starts]]]
        return cls(gram, product, square, n_rows.astype(np.float64), keys)

    @classmethod
    def nothing(cls, key: str, dim: int) -> Self:
        """Return that of a trajectory without rows."""
        sums = np.zeros((1, dim, dim)), np.zeros((1, dim)), np.zeros(1), np.zeros(1)
        return cls(*sums, np.array([key], dtype=object))

    def with_most_rows(self, most: int) -> "Evidence":
        """Return that of so many trajectories."""
        if len(self.n_rows) <= most:
            return self
        which = np.sort(np.argsort(-self.n_rows, kind="stable")[:most])
        return Evidence(*(part[which] for part in self))


def carried_over(rows: AlignedRounds, predictor: Predictor, dim: int) -> Floats:
    """Return sum_k w_k xi_(t-k) of every place, (n_places, dim), of the first features.

    Where features have lag profiles of their own, w is that of the direction.
    """
    weights = predictor.lag_weights[: rows.n_lags]
    if weights.ndim == 2:
        weights = weights[:, :dim] @ predictor.theta[:dim]
    return lagged_sums(rows.contexts[:, :dim], weights)


def group_of(key: str, by: str) -> str:
    """Return the name of a trajectory's group: what stands before `by` in its key, or all of it."""
    return key.partition(by)[0]


@dataclass(frozen=True)
class Responses:
    """How the responses of trajectories differ, in units in which theta is 1.

    `covariance` (dim, dim) is that of delta about the mean of its group, where groups differ;
    `noise` the standard deviation of eps. `groups` have `by` (see `group_of`), the `covariance` of
    their means about theta, and of those that a fit knew posterior `means` and `errors` by name.
    `unsure` (dim,) are errors of the variances in `covariance`, over these variances.
    """

    covariance: Floats
    noise: float
    groups: dict[str, Any] | None = None
    unsure: Floats | None = None

    def divided(self, norm: float) -> Self:
        """Return it in units of which theta is one of so many."""
        groups = self.groups
        if groups is not None:
            groups = {**groups, "covariance": (np.array(groups["covariance"]) / norm**2).tolist()}
            for part in ("means", "errors"):
                groups[part] = {k: (np.array(v) / norm).tolist() for k, v in groups[part].items()}
        return replace(self, covariance=self.covariance / norm**2, groups=groups)

    def _prior(self, evidence: Evidence) -> tuple[Floats, Floats, Floats]:
        """Return of each delta the mean that its group has, its covariance, and the mean's error.

        Of a group that no fit knew, the mean is theta, and the covariance that of both.
        """
        none = np.zeros(len(self.covariance))
        if self.groups is None:
            return none, self.covariance, none
        names = [group_of(key, self.groups["by"]) for key in evidence.keys]
        mean, error = (
            np.array([self.groups[part].get(name, none) for name in names])
            for part in ("means", "errors")
        )
        is_new = np.array([name not in self.groups["means"] for name in names])
        wide = is_new[:, None, None] * np.array(self.groups["covariance"])
        return mean, self.covariance + wide, error

    def deltas(self, evidence: Evidence) -> Floats:
        """Return the posterior mean of each delta, (n, dim): docs/model.md (15.1)."""
        mean, covariance, _ = self._prior(evidence)
        share = covariance / self.noise**2
        mean = np.broadcast_to(mean, evidence.product.shape)
        left = evidence.product - np.einsum("nij,nj->ni", evidence.gram, mean)
        pulled = np.linalg.solve(
            np.eye(len(self.covariance)) + evidence.gram @ share, left[:, :, None]
        )
        return np.asarray(mean + (share @ pulled)[:, :, 0])

    def covariances(self, evidence: Evidence) -> Floats:
        """Return the posterior covariance of each delta, (n, dim, dim): docs/model.md (15.3)."""
        _, covariance, error = self._prior(evidence)
        inside = np.eye(len(self.covariance)) + covariance @ evidence.gram / self.noise**2
        rest = np.linalg.inv(inside)
        further = rest * error[..., None, :]
        covariances = rest @ covariance + further @ further.transpose(0, 2, 1)
        if self.unsure is not None:
            left = np.einsum("nij,nji->ni", rest, np.broadcast_to(covariance, rest.shape))
            share = left / np.maximum(np.einsum("...ii->...i", covariance), TINY)
            more = self.unsure**2 * share * (1.0 - 0.75 * share) * left
            covariances = covariances + more[:, :, None] * np.eye(len(more[0]))
        return np.asarray(covariances)

    def errors(self, evidence: Evidence) -> Floats:
        """Return the posterior standard deviations of each delta's numbers, (n, dim)."""
        variances = np.einsum("nii->ni", self.covariances(evidence))
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        groups = {} if self.groups is None else {"groups": self.groups}
        return {"covariance": self.covariance.tolist(), "noise": self.noise} | groups

    @classmethod
    def of(cls, data: dict[str, Any] | None) -> "Responses | None":
        """Return what `to_json`, or an estimate, says; None where all are alike."""
        if data is None:
            return None
        covariance = np.array(data["covariance"], np.float64)
        is_said = covariance.any() and data["noise"] ** 2 > 0  # smaller squares are 0
        ends, unsure = data.get("intervals"), None
        if ends is not None:
            over = np.array(ends)[:, 1] ** 2 / np.maximum(np.diag(covariance), TINY) - 1.0
            unsure = np.minimum(over / QUANTILE, MOST_UNSURE)
        return cls(covariance, data["noise"], data.get("groups"), unsure) if is_said else None


def less_responses(rows: AlignedRounds, predictor: Predictor) -> AlignedRounds:
    """Return rows whose y is less what each trajectory's own response adds to everybody's."""
    own = Responses.of(predictor.own)
    if own is None or not rows.n_rows:
        return rows
    dim = len(own.covariance)
    deltas = np.zeros((int(rows.owner.max()) + 2, dim))  # the last one is that of the gaps
    deltas[np.unique(rows.owner[rows.number > 0])] = own.deltas(Evidence.of(rows, predictor, dim))
    added = np.einsum("ij,ij->i", carried_over(rows, predictor, dim), deltas[rows.owner])
    return replace(rows, y=np.where(rows.number > 0, rows.y - added, 0.0))


class _Tier(NamedTuple):
    """Trajectories at one step of EM, or groups of these."""

    covariance: Floats  # of their thetas about what is above them
    precision: Floats  # (n, dim, dim): of what each alone says of the theta above
    second: Floats  # (dim, dim): sum of (theta - that above)(theta - that above)'
    mean: Floats  # (n, dim): of theta
    doubt: Floats  # (n, dim, dim): its covariance


class _Sweep(NamedTuple):
    """One step of EM: what covariances and a noise say of trajectories, and of their groups."""

    cost: float  # -log likelihood, but for a constant
    shift: Floats  # (dim,): how far the mean of all is from theta
    noise2: float
    tiers: list[_Tier]


def _sweep(
    evidence: Evidence,
    covariances: Sequence[Floats],
    noise2: float,
    places: Sequence[Ints],
    *,
    shifts: bool,
) -> _Sweep:
    """Return the step (docs/model.md (15.2)).

    A group is to its trajectories what one of these is to its rows. `places` has of each trajectory
    its group, and of each group, as of each trajectory without any, 0: all.
    """
    n_rows, dim = float(evidence.n_rows.sum()), evidence.product.shape[1]
    gram, product = evidence.gram / noise2, evidence.product / noise2
    cost = n_rows * np.log(noise2) + float(evidence.square.sum()) / noise2
    alone = []
    for covariance, place in zip(covariances, places, strict=True):
        inside = np.eye(dim) + gram @ covariance
        both = np.concatenate([gram, product[:, :, None]], axis=2)
        solved = np.linalg.solve(inside, both)
        precision, pulled = solved[:, :, :dim], solved[:, :, dim]
        cost += float(np.linalg.slogdet(inside)[1].sum())
        cost -= float(np.sum((product @ covariance) * pulled))
        alone.append((covariance, place, precision, pulled))
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        gram, product = (np.add.reduceat(x[order], starts, axis=0) for x in (precision, pulled))
    mean, doubt = np.zeros((1, dim)), np.zeros((1, dim, dim))
    if shifts:
        gram = gram + 1e-9 * np.trace(gram[0]) / dim * np.eye(dim)
        doubt = np.linalg.inv(gram)
        mean = np.einsum("nij,nj->ni", doubt, product)
        cost += float(np.linalg.slogdet(gram[0])[1] - np.sum(product * mean))
    shift = mean[0]
    tiers: list[_Tier] = []
    for covariance, place, precision, pulled in reversed(alone):
        mean, doubt = mean[place], doubt[place]
        pull = covariance @ precision
        rest = np.eye(dim) - pull
        own = (pulled - np.einsum("nij,nj->ni", precision, mean)) @ covariance
        kept, further = rest @ covariance, pull @ doubt @ pull.transpose(0, 2, 1)
        second = (kept + further).sum(axis=0) + own.T @ own
        mean, doubt = mean + own, kept + rest @ doubt @ rest.transpose(0, 2, 1)
        tiers.insert(0, _Tier(covariance, precision, second, mean, doubt))
    left = evidence.square - 2.0 * np.einsum("ni,ni->n", evidence.product, mean)
    square = doubt + mean[:, :, None] * mean[:, None, :]
    left += np.einsum("nij,nij->n", evidence.gram, square)
    return _Sweep(0.5 * cost, shift, float(left.sum() / n_rows), tiers)


class ResponseSpread(NamedTuple):
    """What a fit says of own responses, and of groups where these differ."""

    responses: Responses
    shift: Floats  # (dim,)
    bounds: list[Floats]  # (2, dim): ends of the variances' intervals
    gains: list[float]  # nats by which this is likelier than that all, or all groups, are alike
    cost: float  # -log likelihood, but for a constant

    def about_mean(self, posterior: "Posterior") -> tuple["Posterior", Self]:
        """Return the posterior about the mean of all, where these are shown to differ, and this."""
        theta = posterior.theta.copy()
        theta[: posterior.n_features] += self.shift
        norm = float(np.linalg.norm(theta[: posterior.n_features]))
        if self.gains[0] < SHOWN or not (self.shift.any() and norm > 0):
            return posterior, self
        bounds = [ends / norm**2 for ends in self.bounds]
        new = self._replace(responses=self.responses.divided(norm), bounds=bounds)
        return replace(posterior, theta=theta / norm, weights=posterior.weights * norm), new

    def to_json(self) -> dict[str, Any]:
        """Return what an estimate says: the spread of each number of theta, with its interval."""
        own, groups = self.responses, self.responses.groups
        data = own.to_json() | self._spread(own.covariance, 0)
        if groups is not None:
            data["groups"] = groups | self._spread(np.array(groups["covariance"]), 1)
        return data

    def _spread(self, covariance: Floats, tier: int) -> dict[str, Any]:
        spread, ends = np.sqrt(np.diag(covariance)), np.sqrt(self.bounds[tier]).T
        return {"spread": spread.tolist(), "intervals": ends.tolist(), "gain": self.gains[tier]}


@dataclass(frozen=True)
class _Likelihood:
    """What rows say of covariances, those of groups last, and of noise."""

    evidence: Evidence
    places: list[Ints]
    shifts: bool

    @classmethod
    def of(cls, evidence: Evidence, shifts: bool, names: Sequence[str] = ()) -> Self:
        """Return that of trajectories, which may be of groups of these names."""
        together = np.zeros(len(set(names)) or len(evidence.n_rows), np.int64)
        of_groups = [np.unique(names, return_inverse=True)[1]] if len(names) else []
        return cls(evidence, [*of_groups, together], shifts)

    @property
    def mean_square(self) -> float:
        """Of the errors."""
        mean = float(self.evidence.square.sum() / self.evidence.n_rows.sum())
        return max(mean, float(np.finfo(float).tiny))

    def step(self, covariances: Sequence[Floats], noise2: float) -> _Sweep:
        """Return the step at these, but for a noise that is lost beside what responses move."""
        moved = np.einsum("nij,ji->n", self.evidence.gram, np.sum(covariances, axis=0)).max()
        noise2 = max(noise2, TINY * self.mean_square, LOST * float(moved))
        return _sweep(self.evidence, covariances, noise2, self.places, shifts=self.shifts)

    def likeliest(self, priors: Sequence[Floats], noise2: float) -> _Sweep:
        """Return the end of EM from these covariances, with less correlation in the first.

        After two steps it goes on as far as these say (SQUAREM), where that is likelier: a variance
        of 0 is approached ever more slowly.
        """
        step = self.step(priors, noise2)
        for _ in range(CYCLES if priors[0].any() else 0):
            one = self._next(step)
            two, before = self._next(one), step.cost
            far = self.step(_beyond([step, one, two]), two.noise2)
            step = far if far.cost < two.cost else two
            if before - step.cost < STILL:
                break
        return step

    def _next(self, step: _Sweep) -> _Sweep:
        new = []
        for tier in step.tiers:
            covariance, n = tier.second / len(tier.mean), len(tier.mean)
            dim = np.count_nonzero(np.diag(covariance))
            alone = (dim + PRIOR) / (n + dim + PRIOR)
            new.append(covariance + alone * (np.diag(np.diag(covariance)) - covariance))
        return self.step(new, step.noise2)


def _beyond(steps: list[_Sweep]) -> list[Floats]:
    """Return covariances beyond those of three steps, by the roots of these."""
    roots = [np.stack([_root(tier.covariance) for tier in step.tiers]) for step in steps]
    differ = np.diagonal([tier.covariance for tier in steps[0].tiers], axis1=1, axis2=2) > 0.0
    first, second, third = roots
    by = second - first
    change = third - second - by
    turn = float(np.linalg.norm(change))
    size = min(max(1.0, float(np.linalg.norm(by)) / max(turn, TINY)), FARTHEST)
    far = first + 2.0 * size * by + size**2 * change
    return list(far @ far.transpose(0, 2, 1) * differ[:, :, None] * differ[:, None, :])


def _root(covariance: Floats) -> Floats:
    least = max(TINY * float(np.trace(covariance)), float(np.finfo(float).tiny))
    return np.asarray(np.linalg.cholesky(covariance + least * np.eye(len(covariance))))


def spread_of(
    evidence: Evidence, *, shifts: bool, by: str | None = None, features: Sequence[int] = ()
) -> ResponseSpread | None:
    """Return how responses differ, from the likelihood of all pairs of covariance and noise.

    The search begins with equal spreads of all features, whose units are equal, and goes on from
    there to any covariance. With `features` only responses to `features` differ: the covariance is
    0 elsewhere. With `shifts` the mean may be another than theta. With `by` (see `group_of`) groups
    have means of their own, where these are likelier. None from a few trajectories.
    """
    every, dim = evidence, evidence.product.shape[1]
    differ = np.isin(np.arange(dim), features) if features else np.full(dim, True)
    evidence = evidence.with_most_rows(min(MOST, MOST_NUMBERS // dim**2))
    size = np.einsum("nii->i", evidence.gram)
    if len(evidence.n_rows) < FEWEST or not size.any():
        return None
    unit = np.diag(differ * size.mean() / np.maximum(size, 1e-9 * size.mean()))
    alike = _Likelihood.of(evidence, shifts)
    steps = [alike.step([np.zeros_like(unit)], alike.mean_square)]
    for tau in SPREADS[1:]:  # noise is what the last spread leaves
        steps.append(alike.step([tau**2 * unit], steps[-1].noise2))
    best = int(np.argmin([step.cost for step in steps]))
    whole, noise2 = SPREADS[best] ** 2 * unit, steps[best].noise2
    step, groups = alike.likeliest([whole], noise2), None
    if steps[best].cost - step.cost < LIKELIER * differ.sum():
        step = steps[best]  # few rows say no more than how large a spread is
    gains = [steps[0].cost - step.cost]
    names = [group_of(key, by) for key in evidence.keys] if by and best else []
    if by and FEWEST_GROUPS <= len(set(names)) < len(names):
        split = _Likelihood.of(evidence, shifts, names)
        starts = [[whole * (1.0 - share), whole * share] for share in SHARES]
        costs = [split.step(start, noise2).cost for start in starts]
        new = split.likeliest(starts[int(np.argmin(costs))], noise2)
        likelier = step.cost - new.cost
        if likelier > LIKELIER * differ.sum():
            step, gains = new, [gains[0] + likelier, likelier]
            groups = _means(every, by, step, shifts)
    n_means = [len(tier.mean) for tier in step.tiers[1:]] + [1]
    bounds = [
        _bounds(tier, n, i > 0, differ)
        for i, (tier, n) in enumerate(zip(step.tiers, n_means, strict=True))
    ]
    responses = Responses(step.tiers[0].covariance, float(np.sqrt(step.noise2)), groups)
    return ResponseSpread(responses, step.shift, bounds, gains, step.cost)


def _means(evidence: Evidence, by: str, step: _Sweep, shifts: bool) -> dict[str, Any]:
    """Return the means of the groups with most rows, from all trajectories."""
    names = [group_of(key, by) for key in evidence.keys]
    every = _Likelihood.of(evidence, shifts, names)
    all_of = every.step([tier.covariance for tier in step.tiers], step.noise2).tiers[1]
    n_rows = np.bincount(every.places[0], weights=evidence.n_rows)
    most = np.argsort(-n_rows, kind="stable")[:MOST_GROUPS].tolist()
    share = np.einsum("ij,nji->ni", all_of.covariance, all_of.precision)  # of the variance
    unsure = 4.0 / max(len(share), 4) * (1.0 / np.maximum(share, TINY) - 1.0)  # of the covariance
    groups, variances = sorted(set(names)), np.einsum("nii->ni", all_of.doubt) * (1.0 + unsure)
    means = {groups[i]: (all_of.mean[i] - step.shift).tolist() for i in most}
    errors = {groups[i]: np.sqrt(np.maximum(variances[i], 0.0)).tolist() for i in most}
    covariance = all_of.covariance.tolist()
    return {"by": by, "covariance": covariance, "means": means, "errors": errors}


def _bounds(tier: _Tier, n_means: int, of_groups: bool, differ: np.ndarray) -> Floats:
    """Return the ends of the variances' intervals, by the information on all of the covariance.

    An interval reaches down to 0 where the variance is not clearly above it: docs/model.md 15.
    Where responses cannot `differ`, (dim,), it is 0.
    """
    from scipy.special import chdtri  # what only fits need

    precision = tier.precision * differ[:, None] * differ
    n, dim = precision.shape[:2]
    variance = np.diag(tier.covariance)
    flat = precision.reshape(len(precision), -1)
    both = (flat.T @ flat).reshape(dim, dim, dim, dim).transpose(0, 2, 1, 3).reshape(dim**2, -1)
    rows, columns = np.triu_indices(dim)
    unit = np.eye(dim**2)
    pairs = np.maximum(unit[:, rows * dim + columns], unit[:, columns * dim + rows])
    inverse = np.linalg.pinv(0.5 * pairs.T @ both @ pairs, hermitian=True)
    squares = np.maximum(np.diag(inverse)[rows == columns], 0.0)
    error = differ * np.sqrt(squares * n / (n - n_means))  # so many tell the means
    unknown = 1.0 - np.einsum("ij,nji->i", tier.covariance, precision) / n if of_groups else 1.0
    weight = np.einsum("nii->n", precision) ** 2
    free = max(float(weight.sum() ** 2 / np.sum(weight**2)) - n_means, 1.0)
    whole = free / chdtri(free, [[0.025], [0.975]]) - 1.0
    low, high = variance + np.sqrt(0.5 * free) * error * whole
    low[variance <= QUANTILE * error * unknown] = 0.0
    return np.stack([np.maximum(low, 0.0), high])


NOTHING = 0.2  # of theta
MOST_NAMED = 3
LEAST_EFFECT = 0.05  # of theta: a spread is told as a share of no smaller number


def differing(own: dict[str, Any]) -> list[int]:
    """Return the features in whose effect trajectories differ, by an estimate's `own`, in order."""
    order = np.argsort(-np.array(own["spread"])).tolist()
    clear = [i for i in order if own["intervals"][i][0] > 0.0]
    return clear or order[: own["gain"] >= SHOWN]


def spread_in_words(own: dict[str, Any], theta: Sequence[float], names: Sequence[str]) -> str:
    """Say of an estimate's `own` by feature how far trajectories differ, or that they do not.

    `names` are those of the features; one without a name is called by its number.
    """
    if own.get("groups"):
        of_groups = _where("Groups", own["groups"], theta, names)
        within = spread_in_words({**own, "groups": None}, theta, names)
        return f"{of_groups} Within groups: {within}"
    if differing(own):
        return _where("Trajectories", own, theta, names)
    most = float(np.linalg.norm(np.array(own["intervals"])[:, 1]))
    bound = f"(by less than {most:.0%} of what works for all)"
    if most < NOTHING:
        return (
            f"Trajectories do not differ in what works for them {bound}: it costs nothing to "
            "leave `own` on."
        )
    return f"Whether trajectories differ in what works for them is not known yet {bound}."


def _where(who: str, spread: dict[str, Any], theta: Sequence[float], names: Sequence[str]) -> str:
    clauses, differ = [], differing(spread)
    for i in differ[:MOST_NAMED]:
        name = names[i] if i < len(names) else f"feature {i}"
        by = _by(spread["spread"][i], spread["intervals"][i], theta[i])
        clauses.append(f"in what {name} does {by}")
    left = len(differ) - len(clauses)
    clauses += [f"in {left} more feature{'s'[left == 1 :]}"] if left else []
    return f"{who} differ {', and '.join(clauses) or 'in what works for them'}."


def _by(spread: float, ends: Sequence[float], effect: float) -> str:
    low, high = ends
    size = abs(effect)
    if size < LEAST_EFFECT:
        return f"by {spread:.2g} ({low:.2g} to {high:.2g}), where all of theta is 1"
    return f"by {spread / size:.0%} of its mean effect ({low / size:.0%} to {high / size:.0%})"
