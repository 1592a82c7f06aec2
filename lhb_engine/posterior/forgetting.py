"""Since which round theta is another one, where it turns (docs/model.md (7.33))."""

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.estimate import lagged_sums
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.posterior.random_walk import GAINS, less_walk

RUNS, LEAST_RUN = 64, 4  # of rows in order, between which theta may turn
FEWEST_ROWS = 16  # on either side of a turn
MOST_ROWS = 8192  # the latest
SURE = 10.0  # nats by which rows are likelier where theta turns than where nothing does
MOVES = 3.0  # and than where the baseline moves
PRIOR_ROWS = 0.01  # rows that the prior of a baseline, or a covariate's effect, counts as
LEAST = (
    0.02  # squared sine of a turn: without noise, what no theta explains looks like smaller ones
)


def turned_since(old: Predictor, rows: AlignedRounds, first: int) -> int | None:
    """Return the round of the session since which rows speak for another theta; None if all agree.

    Rows from round `first` on are cut in two at each of some rounds, and so are the rows after the
    cut at which they are likeliest, as long as a cut is sure. The estimate's theta is corrected
    anew in the later part; or the baseline is; or nothing. Lag weights stay. Rows that choices
    before round 1 pay for count no more, either.
    """
    order = np.flatnonzero(rows.number >= max(first, 1))
    order = order[np.argsort(rows.number[order], kind="stable")][-MOST_ROWS:]
    size = max(LEAST_RUN, -(-len(order) // RUNS))
    n, fewest = len(order) // size, -(-FEWEST_ROWS // size)
    if n < 2 * fewest or not old.noise > 0.0:
        return None
    order = order[len(order) - n * size :]
    weights = old.lag_weights if old.lag_weights.ndim == 1 else old.lag_weights @ old.theta
    weights, told = weights[: rows.n_lags], np.minimum(rows.round, rows.n_lags)
    before = np.append(np.cumsum(weights[::-1])[::-1], np.zeros(rows.n_lags))[told]
    carried, beside = lagged_sums(rows.contexts, weights), np.column_stack([before, rows.beside])
    columns = np.column_stack([beside, carried, old.residuals(rows)])
    dim, known = carried.shape[1], np.arange(columns.shape[1] - 1)  # what errors go with
    sizes = np.maximum(np.square(beside[order]).mean(axis=0), 1e-300)
    prior = np.append(PRIOR_ROWS * sizes, np.full(dim, dim * old.noise**2))

    def likely(columns: Floats, again: Ints) -> Floats:
        """Return by cut the log likelihood and the squares left, columns `again` after it, too."""
        runs = columns[order].reshape(n, size, -1)
        sums = np.cumsum(runs.transpose(0, 2, 1) @ runs, axis=0)
        every, later = sums[-1], sums[-1] - sums[fewest - 1 : n - fewest]
        joint = np.block([[np.broadcast_to(every, later.shape), later], [later, later]])
        kept, by = np.append(known, again + len(known) + 1), np.append(prior, prior[again])
        gram, target = joint[:, kept][..., kept] + np.diag(by), joint[:, kept, len(known), None]
        explained = np.swapaxes(target, 1, 2) @ np.linalg.solve(gram, target)
        left = np.maximum(every[-1, -1] - explained[:, 0, 0], 1e-300)
        narrowed = np.linalg.slogdet(gram)[1] - np.log(by).sum()
        return np.array([-0.5 * (n * size * np.log(left) + narrowed), left])

    no, plain = known[:0], columns * (np.arange(len(known) + 1) > 0)  # nothing before round 1
    stays, steps, turns = (likely(plain, again) for again in (no, known[1:2], known[-dim:]))
    best, past = int(turns[0].argmax()), float(likely(columns, no)[0, 0])
    later, n_early = order[(best + fewest) * size :], np.count_nonzero(told[order] < rows.n_lags)
    slight = LEAST * float(np.square(carried[later]).sum()) / dim
    most, is_slight = turns[0, best], stays[1, 0] - turns[1, best] <= slight
    are_first = 0 < 2 * n_early <= len(order) and bool((told[order[n_early:]] == rows.n_lags).all())
    if past > stays[0, 0] + SURE and are_first:
        most, later = past, order[n_early:]
    elif most <= max(stays[0, 0] + SURE, steps[0].max() + MOVES) or is_slight:
        return None
    walks = [likely(less_walk(rows, plain, gain), no)[0, 0] for gain in GAINS]
    if most <= max(walks) + MOVES:
        return None
    since = int(rows.number[later[0]])
    return turned_since(old, rows, since) or since
