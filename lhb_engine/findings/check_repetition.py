"""A check of repetition: whether a choice pays less, or more, where the same was chosen lately."""

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.findings.carried import CarriedErrors, clearness, score_weights
from lhb_engine.findings.finding import Finding
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import Predictor

CHANCE = 1e-4  # of a finding by chance
MOST_FEATURES = 8  # whose products stand beside
CLEARER = 2.5  # times what rounds to come explain
MEMORIES = (2, 5, 20)  # rounds


def check_repetition(rows: AlignedRounds, errors: Floats, known: Predictor) -> Iterator[Finding]:
    """Look for errors that go with how alike a choice and those before are (docs/model.md (12.4)).

    What was chosen lately is taken about its mean over all rounds, in features of equal size.
    """
    carried = CarriedErrors.of(rows, errors, score_weights(rows, known), 2 * rows.dim + 1)
    if carried is None:
        return
    there = carried.rows.owner >= 0
    features = carried.rows.contexts - carried.rows.contexts[there].mean(axis=0)
    features = np.where(there[:, np.newaxis], features, 0.0)
    target = carried.errors
    curved: list[Floats] = []  # scores that bend look like repetition where choices repeat
    if rows.dim <= MOST_FEATURES:
        one, other = np.triu_indices(rows.dim)
        curved = [*(features[:, one] * features[:, other]).T]
    found: list[float] = []
    chance: list[float] = []
    for memory in MEMORIES:
        fading = (1.0 - 1.0 / memory) ** np.arange(carried.rows.n_lags) / memory
        lately = [np.convolve(np.append(0.0, one), fading)[: len(one)] for one in features.T]
        lately = [np.where(there, one, 0.0) for one in lately]
        alike = [np.einsum("pi,ip->p", features, lately)]
        others = [*features.T, *lately, *curved]
        for scores, over in ((found, carried.past), (chance, carried.future)):
            beside = np.column_stack([carried.about, over(others)])
            scores.append(float(clearness(beside, over(alike), target)[0]))
    limit = -float(ndtri(CHANCE / (2.0 * len(MEMORIES))))
    limit = max(limit, CLEARER * float(np.abs(chance).max()))
    best = int(np.argmax(np.abs(found)))
    if abs(found[best]) >= limit:
        yield _finding(MEMORIES[best], tires=found[best] < 0.0)


def _finding(memory: int, *, tires: bool) -> Finding:
    pays = "less" if tires else "more"
    return Finding(
        "repetition",
        f"A choice pays {pays} where the same was chosen in the last {memory} rounds or so: what "
        "choices earn changes with them, so no gain is said. Make a copy whose setting "
        f"`repetition` is {memory}: the repetition is then a feature, and counts in each choice.",
    )
