"""Checks of what was forecast: rewards that fall short of it, and no effect of any choice."""

from collections.abc import Iterator

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.findings.finding import Finding
from lhb_engine.history import Floats
from lhb_engine.posterior.predictor import Predictor, residuals

LEAST_ROWS = 40  # since the fit that forecast
SURE = 4.5  # standard errors
LEAST_SHORT = 0.25  # standard deviations of the noise
LEAST_SHARE = 0.02  # standard deviations of rewards
MANY_ROWS = 1000
ROWS_AN_UNKNOWN = 10
WALKS = 0.85  # correlation of errors that last so long that no baseline is forecast
RUNS, LEAST_RUN, FEW_RUNS = 16, 20, 6  # of rows in order whose mean errors are compared
LASTING = 6.0  # times white noise: the squared step of runs' means where errors wander
CHI_MEDIAN = 0.455  # of a squared standard normal number
LASTS = 0.5  # of the errors' earlier correlation: it is there still


def check_forecast(rows: AlignedRounds, before: Predictor | None) -> Iterator[Finding]:
    """Look for rows since the last fit that earn less than its estimate, `before`, expects."""
    if before is None or not before.stands_out:
        return
    later = np.flatnonzero(rows.number > before.last_round)
    if len(later) < LEAST_ROWS or before.noise <= 0.0:
        return
    every = residuals(rows, before.theta, before.lag_weights, before.beside)
    if _wander(every[rows.in_order()]):
        return
    left = every[later]
    about = left - left.mean()
    rho = max(float(about[1:] @ about[:-1]) / max(float(about @ about), 1e-300), 0.0)
    if rho > LASTS * before.autocorrelation:  # else a step in earlier rows looked like correlation
        rho = max(rho, before.autocorrelation)
    if rho > WALKS:
        return
    n = float(rows.intercept[later] @ rows.intercept[later])
    spread = float(left.std()) or before.noise  # rewards without noise may all fall short alike
    short = -float(left @ rows.intercept[later]) / n
    told = rows.beside[(rows.number >= before.since_round) & (rows.number <= before.last_round)]
    far = rows.beside[later].T @ rows.intercept[later] / n
    known = float(far @ np.linalg.pinv(told.T @ told) @ far)  # a line errs more, the longer it goes
    known = max(known, 1.0 / max(before.n_rows, 1))
    error = spread * np.sqrt((1.0 + rho) / (1.0 - rho) * (1.0 / n + known))
    if short > max(SURE * error, LEAST_SHORT * spread, LEAST_SHARE * float(rows.y[later].std())):
        yield Finding(
            "earns_less",
            f"Since round {before.last_round} the session earns less than its estimate expects, by "
            f"{short / spread:.1f} standard deviations of a reward's error a round: what was "
            "learned before may not hold any more. Look for what changed then; if it stays, set "
            "the option `memory`, or a smaller one than now: older rounds then count no more.",
        )


def _wander(errors: Floats) -> bool:
    """Whether the mean of errors, (n_rows,) in order, moves all the time, and not once."""
    size = max(LEAST_RUN, len(errors) // RUNS)
    n = len(errors) // size
    if n < FEW_RUNS:
        return False
    runs = errors[len(errors) - n * size :].reshape(n, size)
    white = 2.0 * CHI_MEDIAN * float(np.median(runs.var(axis=1))) / size
    return float(np.median(np.diff(runs.mean(axis=1)) ** 2)) > LASTING * white


def check_effect(n_rows: int, n_unknown: int, predictor: Predictor | None) -> Iterator[Finding]:
    """Look for a fit of many rows in which nothing stands out."""
    least = max(MANY_ROWS, ROWS_AN_UNKNOWN * n_unknown)
    if predictor and not predictor.stands_out and n_rows >= least:
        yield Finding(
            "no_effect",
            f"After {n_rows} rewards no effect of any choice shows: check that each reward is "
            "reported for its own round and trajectory, and that what was chosen was shown.",
        )
