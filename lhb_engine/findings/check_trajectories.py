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
TOGETHER = 16  # rows in the session's order, of which half are of different trajectories
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

    What is expected of a row's own choices is compared among rows at about the same time, by
    docs/model.md (12.10).
    """
    order = rows.in_order()
    order = order[len(order) % TOGETHER :]
    owner = rows.owner[order].reshape(-1, TOGETHER)
    n_apart = 1 + (np.diff(np.sort(owner, axis=1), axis=1) > 0).sum(axis=1)
    if len(np.unique(owner)) < 2 * LEAST_TRAJECTORIES or 2 * np.median(n_apart) < TOGETHER:
        if rows.owner.max(initial=0) > 0:  # whoever plays alone is compared with nobody
            yield Unchecked(("rewards_of_others",), "rows")
        return
    alone = residuals(rows, predictor.theta, predictor.lag_weights, 0.0 * predictor.beside)
    both = np.stack([rows.y - alone, errors])[:, order].reshape(2, -1, TOGETHER)
    expected, left = (both - both.mean(axis=2, keepdims=True)).reshape(2, -1)
    size = float(expected @ expected)
    missing = -float(expected @ left) / max(size, 1e-300)
    each = np.bincount(owner.reshape(-1), expected * (left + missing * expected))
    error = float(np.linalg.norm(each)) / max(size, 1e-300)
    unclear, known = not size > 0.0 or SURE * error > 1.0, "rewards_of_others" in predictor.found
    if unclear and not known:
        yield Unchecked(("rewards_of_others",), "rows")
    elif unclear or missing > max(LEAST_MISSING, (not known) * SURE * error):
        yield Finding(
            "rewards_of_others",
            "Rewards go with what all trajectories choose at about the same time, and not with "
            "what their own chose: check that each reward is reported for its own trajectory.",
        )
