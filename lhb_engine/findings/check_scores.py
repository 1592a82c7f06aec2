"""A check of scores: products of two features, or of one with itself, that pay beside features."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import autocorrelation, innovations
from lhb_engine.findings.finding import Finding, named
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import Predictor

CHANCE = 1e-4  # of a finding by chance
MOST_NAMED = 3  # products
APART = 0.05  # of a product's square that nothing beside it explains
ROWS_A_COLUMN = 10
MOST_ROWS = 2048  # the latest
MOST_NUMBERS = 2**20  # of features and products


def check_scores(rows: AlignedRounds, errors: Floats, known: Predictor) -> Iterator[Finding]:
    """Look for products that explain errors, the clearest first (docs/model.md (12.3)).

    Products are carried over lags as scores are. What those of later rounds explain is chance.
    """
    weights = known.lag_weights[: rows.n_lags]
    if weights.ndim == 2:
        weights = weights[:, : rows.dim] @ known.theta[: rows.dim]
    pairs = list(zip(*(axis.tolist() for axis in np.triu_indices(rows.dim)), strict=True))
    n_columns = rows.dim + len(pairs)
    if not known.stands_out or not weights.any() or rows.n_rows < ROWS_A_COLUMN * n_columns:
        return
    latest = np.isin(np.arange(len(errors)), rows.in_order()[-MOST_ROWS:])
    rows = replace(rows, y=errors).only(latest)
    if len(rows.y) * n_columns > MOST_NUMBERS:
        return
    rho, order = autocorrelation(rows, rows.y), rows.in_order()

    def left(values: Floats) -> Floats:
        return innovations(rows, np.where(rows.number > 0, values, 0.0), rho)[order]

    def carried(columns: list[Floats], by: Floats, skip: int) -> Floats:
        lagged = (np.convolve(np.append(one, 0.0), by)[skip:][: len(one)] for one in columns)
        return np.column_stack([left(one) for one in lagged])

    features = list(rows.contexts.T)
    products = [features[one] * features[other] for one, other in pairs]
    target, about = left(rows.y), np.column_stack([left(one) for one in rows.beside.T])
    beside, every = (carried(columns, weights, 0) for columns in (features, products))
    ahead = (carried(columns, weights[::-1], len(weights)) for columns in (features, products))
    chance = _scores(np.column_stack([about, beside, next(ahead)]), next(ahead), target)
    limit = -float(ndtri(CHANCE / (2.0 * len(pairs))))
    limit *= max(1.0, float(np.sqrt(np.mean(chance**2))))
    beside = np.column_stack([about, beside])
    for _ in range(MOST_NAMED):
        scores = np.abs(_scores(beside, every, target))
        best = int(scores.argmax())
        if scores[best] < limit:
            return
        yield _finding(*pairs[best])
        beside = np.column_stack([beside, every[:, best]])  # it may explain what others do, too


def _scores(beside: Floats, products: Floats, target: Floats) -> Floats:
    """Return how clearly each product explains the target, in standard errors; 0 where unclear."""
    size = np.linalg.norm(beside, axis=0)
    basis, upper = np.linalg.qr(beside / np.where(size > 0.0, size, 1.0))
    basis = basis[:, np.abs(np.diag(upper)) > 1e-6]
    rest, errors = products - basis @ (basis.T @ products), target - basis @ (basis.T @ target)
    square, whole = (rest**2).sum(axis=0), (products**2).sum(axis=0)
    noise = float(errors @ errors) / max(len(errors) - len(basis.T), 1)
    scores = rest.T @ errors / np.sqrt(np.maximum(noise * square, 1e-300))
    return np.where(square > APART * whole, scores, 0.0)


def _finding(one: int, other: int) -> Finding:
    features, told = tuple(dict.fromkeys((one, other))), "their product"
    said = f"{named(features)} work together: what one pays depends on the other"
    if one == other:
        told = "its square"
        said = f"{named(features)} pays in a curve: twice as much of it does not pay twice as much"
    return Finding(
        "scores_curved",
        f"{said}. A session with {told} in the setting `products` finds how much.",
        features=features,
    )
