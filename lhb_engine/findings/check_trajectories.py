"""Checks of what trajectories differ in: what works for them, and their levels."""

from collections.abc import Iterator

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import in_time, innovations
from lhb_engine.findings.finding import Finding, Unchecked
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.own_responses import carried_over
from lhb_engine.posterior.predictor import Predictor, residuals

LEAST_TRAJECTORIES = 8
SURE = 4.5  # standard errors of a correlation
LEAST_OF_TWO = 6  # rows of a trajectory, whose halves are compared
LEAST_RESPONSE = 0.1  # of what everybody's response moves rewards by
LEAST_LEVELS = 0.1  # of the errors' variance
BEYOND = 2.0  # standard errors of a correlation, more than by errors that last
LEAST_OF_EACH = 4  # rows of a trajectory
TOGETHER = 4  # different trajectories, one after the other, are a turn
LEAST_TURNS = 32  # that are compared with each other
TURNS_A_FEATURE, MOST_OF_FEW = 4, 64  # rows in a turn of few turns
CLEARER = 2.5  # standard errors, by which choices of all pay more than own ones do
LEAST_MISSING = 0.5  # of what is expected of a trajectory's choices beside those of the others


def check_responses(
    rows: AlignedRounds, errors: Floats, predictor: Predictor
) -> Iterator[Finding | Unchecked]:
    """Look for trajectories whose errors go with their contexts alike, earlier and later.

    Two halves of a trajectory share its response, and no noise.
    """
    starts, order = _halves(rows, LEAST_OF_TWO)
    if len(starts) < 2 * LEAST_TRAJECTORIES:
        if len(np.unique(rows.owner[rows.number > 0])) > 1:
            yield Unchecked(("responses_differ",), "rows")
        return
    rho = in_time(rows, predictor.autocorrelation)
    dim = rows.contexts.shape[1]
    both = np.column_stack([carried_over(rows, predictor, dim), errors])
    both = np.column_stack([innovations(rows, column, rho) for column in both.T])[order]
    counts = np.diff(np.append(starts, len(order)))
    both -= np.repeat(np.add.reduceat(both, starts, axis=0) / counts[:, None], counts, axis=0)
    carried, left = both[:, :dim], both[:, dim]
    gram = np.stack(
        [np.add.reduceat(carried * x[:, None], starts, axis=0) for x in carried.T], axis=2
    )
    size = np.einsum("nii->i", gram)
    if not size.max() > 0.0:
        return
    unit = np.where(size > 1e-9 * size.max(), 1.0 / np.maximum(size, 1e-300), 0.0) ** 0.5
    gram *= unit[:, None] * unit
    product = np.add.reduceat(carried * left[:, None], starts, axis=0) * unit
    mean = np.linalg.lstsq(gram.sum(axis=0), product.sum(axis=0))[0]
    product -= gram @ mean
    alike = float(np.sum(product[::2] * product[1::2]))
    expected = float(np.einsum("nij,nij->", gram[::2], gram[1::2]))
    parts = np.einsum("nii->n", gram)[:, None]
    weighed = product / np.sqrt(np.where(parts > 0.0, parts, 1.0))
    early, late = (part - part.mean(axis=0) for part in (weighed[::2], weighed[1::2]))
    by_chance = float(np.sum((early.T @ early) * (late.T @ late))) / (len(early) - 1)
    clear = float(np.sum(early * late)) / max(by_chance, 1e-300) ** 0.5
    theta = predictor.theta[:dim] / np.where(unit > 0.0, unit, 1.0)
    whole = float(theta @ gram.sum(axis=0) @ theta)
    share = (max(alike, 0.0) * dim / max(expected * whole, 1e-300)) ** 0.5
    if clear > SURE and share > LEAST_RESPONSE:
        yield Finding(
            "responses_differ",
            "Trajectories differ in what works for them (by about "
            f"{share:.0%} of what works for all): set the option `own`.",
        )


def _halves(rows: AlignedRounds, fewest: int) -> tuple[Ints, Ints]:
    """Return where the halves of each trajectory of enough rows begin, and rows in this order."""
    order = np.flatnonzero(rows.number > 0)
    order = order[np.argsort(rows.owner[order], kind="stable")]
    counts = np.unique(rows.owner[order], return_counts=True)[1]
    several = counts >= fewest
    order, counts = order[np.repeat(several, counts)], counts[several]
    firsts = np.cumsum(counts) - counts
    return np.column_stack([firsts, firsts + counts // 2]).reshape(-1), order


def check_levels(rows: AlignedRounds, errors: Floats) -> Iterator[Finding | Unchecked]:
    """Look for trajectories whose errors are alike in their earlier and in their later rounds."""
    if rows.levels:
        return
    starts, order = _halves(rows, LEAST_OF_EACH)
    if len(starts) < 2 * LEAST_TRAJECTORIES:
        if len(np.unique(rows.owner[rows.number > 0])) > 1:
            yield Unchecked(("levels_differ",), "rows")
        return
    left, counts = errors[order] - errors[order].mean(), np.diff(np.append(starts, len(order)))
    means = (np.add.reduceat(left, starts) / counts).reshape(-1, 2)  # of earlier and later rows
    means -= means.mean(axis=0)
    variance, both = max(float(left @ left) / len(left), 1e-300), float(np.mean(means.prod(axis=1)))
    follows = np.diff(rows.owner[order]) == 0
    rho = np.clip(np.mean((left[1:] * left[:-1])[follows]) / variance, 0.0, 1.0)
    sums = np.cumsum(rho ** np.arange(counts.max()))[counts - 1] / counts
    lasting = variance * rho * np.mean(sums.reshape(-1, 2).prod(axis=1))
    alike = np.array([both, lasting]) / max(float(means.std(axis=0).prod()), 1e-300)
    clear, more = np.arctanh(np.clip(alike, 0.0, 1.0 - 1e-12)) * np.sqrt(len(means) - 3)
    if both > LEAST_LEVELS * variance and clear > max(SURE, more + BEYOND):
        yield Finding(
            "levels_differ",
            "Trajectories differ in their level of rewards, whatever is chosen "
            f"({both / variance:.0%} of what is not explained): set the option `levels`.",
        )


def check_others(
    rows: AlignedRounds, errors: Floats, predictor: Predictor
) -> Iterator[Finding | Unchecked]:
    """Look for rewards that go with what all choose, and not with their own trajectory's choices.

    What choices pay is compared within turns of all trajectories, and between turns, by
    docs/model.md (12.10).
    """
    order = rows.in_order()
    owner = np.unique(rows.owner[order], return_inverse=True)[1]
    least = max(LEAST_TURNS, TURNS_A_FEATURE * rows.dim)
    turn = _turns(owner, max(MOST_OF_FEW, len(order) // least))
    counts = np.bincount(turn)
    if owner.max(initial=0) < 2 * LEAST_TRAJECTORIES - 1 or np.median(counts[turn]) < TOGETHER:
        if rows.owner.max(initial=0) > 0:  # whoever plays alone is compared with nobody
            yield Unchecked(("rewards_of_others",), "turns")
        return
    own = rows.y - residuals(rows, predictor.theta, predictor.lag_weights, 0.0 * predictor.beside)
    every = np.column_stack([carried_over(rows, predictor, rows.dim), own + errors, own])[order]
    every -= _means(every, owner)[owner]  # levels
    of_turns = _means(every, turn)
    within, between = every - of_turns[turn], of_turns * np.sqrt(counts)[:, None]
    expected, left = within[:, -1], within[:, -2] - within[:, -1]
    size = float(expected @ expected)
    missing = -float(expected @ left) / max(size, 1e-300)
    each = np.bincount(owner, expected * (left + missing * expected))
    error = float(np.linalg.norm(each)) / max(size, 1e-300)
    unclear = not size > 0.0 or 1.0 - missing < SURE * error
    more, sure = 0.0, CLEARER if unclear and predictor.stands_out else SURE
    if len(counts) >= least:
        pays, doubt = _effects(between[:, :-1], 1)
        own_pays, own_doubt = _effects(within[:, :-1], len(counts) + int(owner.max()))
        weights = np.linalg.pinv(doubt + own_doubt)
        along = weights @ pays
        more = float(along @ (pays - own_pays) - np.trace(weights @ doubt))
        more /= max(float(along @ pays), 1e-300) ** 0.5
    if missing > max(LEAST_MISSING, SURE * error) or more > sure:
        yield Finding(
            "rewards_of_others",
            "Rewards go with what all trajectories choose at about the same time, and not with "
            "what their own chose: check that each reward is reported for its own trajectory.",
        )
    elif unclear:
        yield Unchecked(("rewards_of_others",), "rows")


def _turns(owner: Ints, most: int) -> Ints:
    """Return the turn of each row, (n,): of at most so many rows, each of another trajectory."""
    last, turns, start = dict[int, int](), [0] * len(owner), 0
    for i, one in enumerate(owner.tolist()):
        if last.get(one, -1) >= start or i - start == most:
            start = i
        last[one], turns[i] = i, start
    return np.unique(turns, return_inverse=True)[1]


def _means(columns: Floats, group: Ints) -> Floats:
    """Return the mean of each group's rows, (n_groups, n_columns)."""
    sums = np.column_stack([np.bincount(group, column) for column in columns.T])
    return np.asarray(sums / np.bincount(group)[:, None])


def _effects(columns: Floats, n_means: int) -> tuple[Floats, Floats]:
    """Return the regression of the last column on the others, and its covariance.

    Of the columns so many means were taken; errors may last.
    """
    features, target = columns[:, :-1], columns[:, -1]
    inverse = np.linalg.pinv(features.T @ features)
    pays = inverse @ (features.T @ target)
    left = target - features @ pays
    rho = min(max(float(left[1:] @ left[:-1]) / max(float(left @ left), 1e-300), 0.0), 0.99)
    n = max(len(left) - len(pays) - n_means, 1)
    return pays, inverse * float(left @ left) / n * (1.0 + rho) / (1.0 - rho)
