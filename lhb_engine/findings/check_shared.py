"""A check of what a round's arms have in common: whether rewards move with it by themselves."""

from collections.abc import Iterator, Mapping

import numpy as np
from scipy.special import stdtr

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.findings.finding import Finding, Unchecked, named
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import Predictor

LEAST_SETS = 16
LEAST_LEFT = 10  # rows beyond the unknowns
CHANCE = 2e-5  # of a finding by chance
APART = 0.01  # of the square of the shared score's differences: what chosen contexts do not explain
NAMED = 0.5  # of the largest feature's part in the shared score: with less a feature is not named
MOST_NAMED = 3


def check_shared(
    rows: AlignedRounds, errors: Floats, known: Predictor, sets: Mapping[int, Floats]
) -> Iterator[Finding | Unchecked]:
    """Look for errors that go with the mean score of a round's arms beside what was chosen (12.4).

    `sets` are contexts of all arms by round, in the units of `rows`. Neighbouring rounds are
    subtracted from each other, so that slow changes of rewards and contexts count for nothing.
    """
    of_one = (rows.number > 0) & (rows.number == rows.last) & np.isin(rows.last, list(sets))
    places = [
        place
        for place in sorted(np.flatnonzero(of_one).tolist(), key=rows.last.__getitem__)
        if (sets[int(rows.last[place])] == rows.contexts[place]).all(axis=1).any()
    ]
    if len(places) < max(LEAST_SETS, rows.dim + LEAST_LEFT):
        yield Unchecked(("shared_with_rewards",), "rows" if sets else "sets")
        return
    means = np.array([sets[int(rows.last[place])].mean(axis=0) for place in places])
    shared, target = np.diff(means @ known.theta), np.diff(errors[places])
    basis, upper = np.linalg.qr(np.diff(rows.contexts[places], axis=0))
    basis = basis[:, np.abs(np.diag(upper)) > 1e-9]
    rest, left = (part - basis @ (basis.T @ part) for part in (shared, target))
    size = float(rest @ rest)
    if size <= APART * float(shared @ shared):
        return
    effect = float(rest @ left) / size
    left = left - effect * rest
    n_left = len(left) - basis.shape[1] - 1
    error = max(float(np.sqrt(float(left @ left) / n_left / size)), 1e-300)
    if 2.0 * stdtr(n_left, -abs(effect) / error) > CHANCE:
        return
    parts = np.abs(known.theta) * np.diff(means, axis=0).std(axis=0)
    order = np.argsort(-parts)[:MOST_NAMED]
    features = tuple(sorted(order[parts[order] >= NAMED * parts.max()].tolist()))
    yield Finding(
        "shared_with_rewards",
        f"{named(features)}: what all arms of a round have in common moves with the rewards by "
        "itself, so what choosing by it earns is not told apart from that. Make a session that "
        "names it among its `covariates` from the first round on: a copy lacks the means of rounds "
        "before.",
        features=features,
    )
