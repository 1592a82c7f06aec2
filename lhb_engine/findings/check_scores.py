"""Checks of scores: products of features, and repetition, that pay beside the features.

Columns are carried over lags as scores are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy.special import fdtrc, ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import autocorrelation, innovations
from lhb_engine.design.products import Products, widened
from lhb_engine.estimate import signal_of
from lhb_engine.findings.finding import Finding, named
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.anytime_settings import AnytimeSettings
from lhb_engine.posterior.predictor import Predictor, residuals
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior

MOST_NAMED = 3  # products that do not count
CHANCE = 1e-4  # of a finding by chance
# of all squares, or of all other products; where some of them count; where one was just found
CHANCE_OF_KIND, CHANCE_LATER, CHANCE_OF_MORE = 1e-5, 1e-3, 0.1
MOST_FEATURES = 8  # whose products stand beside
CLEARER = 2.5  # times what rounds to come explain
MEMORIES = (2, 5, 20)  # rounds
IN_EACH = 2.5  # standard errors of repetition in each half of the rows: it acts all the time
APART = 0.05  # of a column's square that nothing beside it explains
SEEN, TOLD_APART = 1e-6, 1e-10  # of squares of directions of columns of length 1, or beside these
ROWS_A_COLUMN = 10
LEAST_ROWS = 10  # that a product is of
MOST_ROWS = 2048  # the latest
MOST_NUMBERS = 2**20  # of columns
EVIDENT = 10.0  # of (12.3b)


def check_scores(
    rows: AlignedRounds, errors: Floats, predictor: Predictor, dim: int, told: Products, most: int
) -> Iterator[Finding]:
    """Look for products that explain errors, at `most` so many (docs/model.md (12.3)).

    The clearest is first, of those that are clear alone or whose kind is, squares or products of
    two features. Products are carried over lags as scores are; what those of later rounds explain
    is chance. After `dim` features come the products that are `told` fits.
    """
    pairs = [one for one in combinations_with_replacement(range(dim), 2) if one not in told]
    carried = CarriedErrors.of(rows, errors, score_weights(rows, predictor), dim + 1)
    if carried is None or not 0 < len(pairs) * len(carried.rows.y) <= MOST_NUMBERS:
        return
    features = list(carried.rows.contexts.T)
    products = [features[one] * features[other] for one, other in pairs]
    target, every = carried.errors, carried.past(products)
    few = (every**2).sum(axis=0) ** 2 < LEAST_ROWS * (every**4).sum(axis=0)
    every[:, few] = 0.0  # a single reward would decide
    ahead = np.column_stack([carried.about, carried.future(features)])
    later = carried.future(products)
    scale = max(1.0, float(np.sqrt(np.mean(clearness(ahead, later, target) ** 2))))
    limit = -scale * float(ndtri(CHANCE / (2.0 * len(pairs))))
    is_square = np.array([one == other for one, other in pairs])
    kinds, known = (is_square, ~is_square), {one == other for one, other in told}
    least = [max(1.0, together(ahead, later[:, kind], target)[0]) for kind in kinds]
    chances = [CHANCE_LATER if is_one in known else CHANCE_OF_KIND for is_one in (True, False)]
    beside = np.column_stack([carried.about, carried.past(features)])
    for _ in range(most):
        shown = (scores := np.abs(clearness(beside, every, target))) >= limit
        for kind, over, by_chance in zip(kinds, least, chances, strict=True):
            size, n_free = together(beside, every[:, kind], target)
            shown |= kind & (fdtrc(*n_free, size / over) < by_chance)
        best = int((scores * shown).argmax())
        if not shown[best]:
            return
        yield _of_product(*pairs[best])
        chances[int(not is_square[best])] = CHANCE_OF_MORE
        beside = np.column_stack([beside, every[:, best]])  # it may explain what others do, too


def check_all_products(
    rows: AlignedRounds, errors: Floats, predictor: Predictor, dim: int, most: int
) -> Iterator[Finding]:
    """Look for products by the lag weights of a fit of all, if it explains more: (12.3b).

    While rows are few, a fit without products takes them for noise, and does not know the lags.
    """
    every, n_lags = tuple(combinations_with_replacement(range(dim), 2)), len(predictor.lag_weights)
    paid = errors + signal_of(rows.contexts, predictor.theta, predictor.lag_weights)
    paid, n, none = paid * (rows.number > 0), rows.n_rows, np.zeros((len(paid), 0))
    plain = replace(rows, y=paid, n_lags=n_lags, covariates=none, groups=(), levels=0)
    wide, gained = replace(plain, contexts=widened(rows.contexts, every)), -len(every) * np.log(n)
    for one, sign in ((plain, n), (wide, -n)) if n >= ROWS_A_COLUMN * (dim + 1) else ():
        fit = rank_one_posterior(one, [12, n], settings=AnytimeSettings(first_sweeps=16))
        left = residuals(one, fit.theta, fit.weights, fit.effects)
        gained += sign * np.log(max(float(left @ left), 1e-300))
    if gained > EVIDENT:
        lags = replace(predictor, lag_weights=fit.weights)
        yield from check_scores(rows, paid, lags, dim, (), most)


def _of_product(one: int, other: int) -> Finding:
    features, told = tuple(dict.fromkeys((one, other))), "their product"
    claim = f"{named(features)} work together: what one pays depends on the other"
    if one == other:
        told = "its square"
        claim = f"{named(features)} pays in a curve: twice as much of it does not pay twice as much"
    return Finding(
        "scores_curved",
        f"{claim}. Make a copy with {told} in the setting `products`: it finds how much.",
        features=features,
    )


def check_repetition(
    rows: AlignedRounds, errors: Floats, predictor: Predictor
) -> Iterator[Finding]:
    """Look for errors that go with how alike choices are to those before, docs/model.md (12.4)."""
    carried = CarriedErrors.of(rows, errors, score_weights(rows, predictor), 2 * rows.dim + 1)
    if carried is None:
        return
    there = carried.rows.owner >= 0
    features = carried.rows.contexts - carried.rows.contexts[there].mean(axis=0)
    features = np.where(there[:, np.newaxis], features, 0.0)
    target, about, dim = carried.errors, carried.about, rows.dim
    steady = features  # scores that bend look like repetition where choices repeat
    if dim <= MOST_FEATURES:
        one, other = np.triu_indices(dim)
        steady = np.concatenate([features, features[:, one] * features[:, other]], axis=1)
    lately, alike = [], []
    for memory in MEMORIES:
        fading = (1.0 - 1.0 / memory) ** np.arange(carried.rows.n_lags) / memory
        faded = [np.convolve(np.append(0.0, one), fading)[: len(one)] for one in features.T]
        lately.append([np.where(there, one, 0.0) for one in faded])
        alike.append([np.einsum("pi,ip->p", features, lately[-1])])

    def judged(over: Callable[[Sequence[Floats]], Floats]) -> tuple[list[Any], Floats]:
        """Return what stands beside and the column of each memory, and how clear this is."""
        side, every = over([*steady.T]), zip(lately, alike, strict=True)
        first, last = side[:, :dim], side[:, dim:]
        columns = [(np.column_stack([about, first, over(a), last]), over(b)) for a, b in every]
        return columns, np.array([clearness(*one, target)[0] for one in columns])

    columns, scores = judged(carried.past)
    best, limit = int(np.abs(scores).argmax()), -float(ndtri(CHANCE / (2.0 * len(MEMORIES))))
    if abs(scores[best]) < limit:
        return
    limit = max(limit, CLEARER * float(np.abs(judged(carried.future)[1]).max()))
    beside, column = columns[best]
    if abs(scores[best]) >= limit and _in_halves(beside, column, target, scores[best]) >= IN_EACH:
        memory, pays = MEMORIES[best], "less" if scores[best] < 0.0 else "more"
        yield Finding(
            "repetition",
            f"A choice pays {pays} where the same was chosen in the last {memory} rounds or so: "
            "what choices earn changes with them, so no gain is said. Make a copy whose setting "
            f"`repetition` is {memory}: the repetition is then a feature, and counts in each "
            "choice.",
        )


def _in_halves(beside: Floats, column: Floats, target: Floats, sign: float) -> float:
    """Return how clearly the column explains each half of a target with this sign, at least."""
    halves = zip(*(np.array_split(part, 2) for part in (beside, column, target)), strict=True)
    return min(float(np.sign(sign) * clearness(*half)[0]) for half in halves)


@dataclass(frozen=True)
class CarriedErrors:
    """The errors of the latest rows, in their order, with what they keep of the last taken out."""

    rows: AlignedRounds
    weights: Floats  # (n_lags,)
    rho: float
    order: Ints  # (n_rows,): places

    @classmethod
    def of(
        cls, rows: AlignedRounds, errors: Floats, weights: Floats, n_columns: int
    ) -> "CarriedErrors | None":
        """Return the errors that so many columns are judged by; None where rows are too few."""
        if not weights.any() or rows.n_rows < ROWS_A_COLUMN * n_columns:
            return None
        latest = np.isin(np.arange(len(errors)), rows.in_order()[-MOST_ROWS:])
        rows = replace(rows, y=errors).only(latest)
        if len(rows.y) * n_columns > MOST_NUMBERS:
            return None
        return cls(rows, weights, autocorrelation(rows, rows.y), rows.in_order())

    @property
    def errors(self) -> Floats:
        """The errors, (n_rows,)."""
        return self.left(self.rows.y)

    @property
    def about(self) -> Floats:
        """The baseline and the covariates, (n_rows, 1 + n_covariates)."""
        return self.left(self.rows.beside)

    def past(self, columns: Sequence[Floats]) -> Floats:
        """Return columns, one number a place each, summed over lags, (n_rows, n_columns)."""
        return self._carried(columns, self.weights, 0)

    def future(self, columns: Sequence[Floats]) -> Floats:
        """Return columns summed over rounds to come: what these explain is chance."""
        return self._carried(columns, self.weights[::-1], len(self.weights))

    def _carried(self, columns: Sequence[Floats], by: Floats, skip: int) -> Floats:
        lagged = (np.convolve(np.append(one, 0.0), by)[skip:][: len(one)] for one in columns)
        return self.left(np.column_stack([*lagged]))

    def left(self, values: Floats) -> Floats:
        """Return what columns, one number a place, keep less rho times the last, (n_rows, ...)."""
        is_row = (self.rows.number > 0).reshape(-1, *[1] * (values.ndim - 1))
        return innovations(self.rows, np.where(is_row, values, 0.0), self.rho)[self.order]


def score_weights(rows: AlignedRounds, predictor: Predictor) -> Floats:
    """Return what scores pay at each lag, (n_lags,)."""
    weights = predictor.lag_weights[: rows.n_lags]
    return weights if weights.ndim == 1 else weights[:, : rows.dim] @ predictor.theta[: rows.dim]


def together(beside: Floats, columns: Floats, target: Floats) -> tuple[float, tuple[int, int]]:
    """Return the F statistic of all columns together and its degrees; 0 where rows are few."""
    rest, errors, n_free = less_beside(beside, columns, target)
    size = np.linalg.norm(rest, axis=0)
    shown = size**2 > APART * (columns**2).sum(axis=0)
    if not 0 < 2 * int(shown.sum()) <= n_free:
        return 0.0, (1, 1)
    rest = rest[:, shown] / size[shown]
    squares, axes = np.linalg.eigh(rest.T @ rest)
    along = (errors @ rest @ axes / np.sqrt(np.maximum(squares, SEEN)))[squares > SEEN]
    n, explained = len(along), float(along @ along)
    left = max(float(errors @ errors) - explained, 1e-300)
    return explained / n * (n_free - n) / left, (n, n_free - n)


def less_beside(beside: Floats, columns: Floats, target: Floats) -> tuple[Floats, Floats, int]:
    """Return columns and a target less what stands beside, and in how many ways they may vary."""
    size = np.linalg.norm(beside, axis=0)
    unit = beside / np.where(size > 0.0, size, 1.0)
    squares, axes = np.linalg.eigh(unit.T @ unit)
    basis = unit @ (axes[:, squares > TOLD_APART] / np.sqrt(squares[squares > TOLD_APART]))
    rest, errors = (one - basis @ (basis.T @ one) for one in (columns, target))
    return rest, errors, max(len(errors) - len(basis.T), 1)


def clearness(beside: Floats, columns: Floats, target: Floats) -> Floats:
    """Return how clearly each column explains the target, in standard errors; 0 where unclear."""
    rest, errors, n_free = less_beside(beside, columns, target)
    square, whole = (rest**2).sum(axis=0), (columns**2).sum(axis=0)
    noise = float(errors @ errors) / n_free
    scores = rest.T @ errors / np.sqrt(np.maximum(noise * square, 1e-300))
    return np.where(square > APART * whole, scores, 0.0)
