"""Since which round theta is another one, where it turns slowly (docs/model.md (7.33))."""

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.estimate import lagged_sums
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.predictor import Predictor

RUNS, LEAST_RUN, FEWEST_RUNS = 64, 4, 16  # of rows in order, each predicted from those before
FEWEST_ROWS, ROWS_A_FEATURE = 40, 8  # of a window
MOST_ROWS = 8192  # the latest
SURE = 3.5  # standard errors by which a window predicts better than its baseline alone
LEAST = 0.01  # of the noise's variance, by which it does: a baseline may be known to a hair
PRIOR_ROWS = 0.01  # rows that the prior of a window's baseline counts as


def turned_since(old: Predictor, rows: AlignedRounds, first: int) -> int | None:
    """Return the round of the session since which rows speak for another theta; None if all agree.

    Each run of the later half of the rows from round `first` on is predicted by the estimate with
    theta corrected from all rows before the run, and from a window of the latest of these; its
    lag weights stay. The window that predicts best counts, if it does so surely.
    """
    order = np.flatnonzero(rows.number >= max(first, 1))
    order = order[np.argsort(rows.number[order], kind="stable")][-MOST_ROWS:]
    size = max(LEAST_RUN, -(-len(order) // RUNS))
    n = len(order) // size
    if n < FEWEST_RUNS or not old.noise > 0.0:
        return None
    order = order[len(order) - n * size :]
    carried = lagged_sums(rows.contexts, old.lag_weights[: rows.n_lags])
    columns = np.column_stack([rows.intercept, carried, old.residuals(rows)])
    columns[rows.number == 0] = 0.0
    white = [innovations(rows, column, old.autocorrelation)[order] for column in columns.T]
    runs = np.column_stack(white).reshape(n, size, -1)
    dim = carried.shape[1]
    prior = np.diag(np.append(PRIOR_ROWS, np.full(dim, dim * old.noise**2)))
    sums = np.zeros((n + 1, dim + 2, dim + 2))
    np.cumsum(runs.transpose(0, 2, 1) @ runs, axis=0, out=sums[1:])
    later = np.arange(n // 2, n)
    x, errors = runs[later, :, :-1], runs[later, :, -1]

    def left(window: Ints | int) -> tuple[Floats, Floats]:
        """Return the squares that a window leaves, and with the theta of all rows."""
        inside = sums[later] - sums[later - window]
        gram, target = inside[:, :-1, :-1], inside[:, :-1, -1:]
        base = (target[:, :1] - gram[:, :1, 1:] @ of_all[:, 1:]) / (gram[:, :1, :1] + PRIOR_ROWS)
        solutions = np.linalg.solve(gram + prior, target), np.append(base, of_all[:, 1:], axis=1)
        own, other = (((errors - (x @ one)[..., 0]) ** 2).sum(axis=1) for one in solutions)
        return own, other

    of_all = np.linalg.solve(sums[later, :-1, :-1] + prior, sums[later, :-1, -1:])
    least, window, since = float(left(later)[0].sum()), n // 2, None
    shown = LEAST * old.noise**2 * errors.size
    while window * size >= max(FEWEST_ROWS, ROWS_A_FEATURE * dim):
        own, other = left(window)
        gain = other - own
        sure = max(SURE * gain.std() * np.sqrt(len(gain)), shown)
        if own.sum() < least and gain.sum() > sure:
            least, since = float(own.sum()), int(rows.number[order[(n - window) * size]])
        window //= 2
    return since
