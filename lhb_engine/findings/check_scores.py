"""A check of scores: products of two features, or of one with itself, that pay beside features."""

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.findings.carried import CarriedErrors, clearness, score_weights
from lhb_engine.findings.finding import Finding, named
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import Predictor

CHANCE = 1e-4  # of a finding by chance
MOST_NAMED = 3  # products


def check_scores(rows: AlignedRounds, errors: Floats, known: Predictor) -> Iterator[Finding]:
    """Look for products that explain errors, the clearest first (docs/model.md (12.3)).

    Products are carried over lags as scores are. What those of later rounds explain is chance.
    """
    pairs = list(zip(*(axis.tolist() for axis in np.triu_indices(rows.dim)), strict=True))
    carried = CarriedErrors.of(rows, errors, score_weights(rows, known), rows.dim + len(pairs))
    if carried is None or not known.stands_out:
        return
    features = list(carried.rows.contexts.T)
    products = [features[one] * features[other] for one, other in pairs]
    target, every = carried.errors, carried.past(products)
    ahead = np.column_stack([carried.about, carried.future(features)])
    chance = clearness(ahead, carried.future(products), target)
    limit = -float(ndtri(CHANCE / (2.0 * len(pairs))))
    limit *= max(1.0, float(np.sqrt(np.mean(chance**2))))
    beside = np.column_stack([carried.about, carried.past(features)])
    for _ in range(MOST_NAMED):
        scores = np.abs(clearness(beside, every, target))
        best = int(scores.argmax())
        if scores[best] < limit:
            return
        yield _finding(*pairs[best])
        beside = np.column_stack([beside, every[:, best]])  # it may explain what others do, too


def _finding(one: int, other: int) -> Finding:
    features, told = tuple(dict.fromkeys((one, other))), "their product"
    said = f"{named(features)} work together: what one pays depends on the other"
    if one == other:
        told = "its square"
        said = f"{named(features)} pays in a curve: twice as much of it does not pay twice as much"
    return Finding(
        "scores_curved",
        f"{said}. Make a copy with {told} in the setting `products`: it finds how much.",
        features=features,
    )
