"""From a history to the rows of a fit: a design and its measured values."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.design.window_rows import checked_window, measured_inside, rounds_inside
from lhb_engine.history import FitWindow, Floats, History, Ints


@dataclass(frozen=True)
class FitRows:
    """The least-squares rows of one fit.

    Attributes
    ----------
    design : LaggedDesign
    y : (n_rows,) array
        Measured values; a span over m rounds is scaled by 1/sqrt(m).
    name : "full", "undifferenced" or "differenced"
    n_missing : int
        Rounds that could have been rows and that no measurement within the window (within one
        quarter, where quarters are used) covers. Rounds measured without their partner of the
        other quarter are not missing, though they make no row.
    """

    design: LaggedDesign
    y: Floats
    name: str
    n_missing: int


def measured_rows(history: History, *, quarters: int | None = None) -> FitRows:
    """Make one row of each measurement inside the window.

    Parameters
    ----------
    history : History
        With a window.
    quarters : int, optional
        Length q of a quarter: keep the second and fourth of the epoch that ends with the window.
    """
    window = checked_window(history)
    firsts, lasts, values = [], [], []
    n_rounds = n_before = 0
    for part in history.trajectories.values():
        inside, group = rounds_inside(part, window), None
        if quarters:
            group = _quarter_of(part.numbering, window, quarters)
            inside &= group >= 0
        n_rounds += int(inside.sum())
        kept = measured_inside(part, inside, group)
        firsts.append(kept.first - part.first_round + n_before)
        lasts.append(kept.last - part.first_round + n_before)
        values.append(kept.value)
        n_before += len(part.contexts)
    first, last = np.concatenate(firsts), np.concatenate(lasts)
    spans = last - first + 1
    whole = LaggedDesign([p.contexts for p in history.trajectories.values()], window.n_lags)
    single = bool((spans == 1).all())
    return FitRows(
        whole.select(first) if single else whole.measure(span_matrix(first, last, n_before)),
        np.concatenate(values) / np.sqrt(spans),
        "undifferenced" if quarters else "full",
        n_rounds - int(spans.sum()),
    )


def differenced_rows(history: History, quarter: int) -> FitRows | None:
    """Fourth quarter less second: y = r'' - r', X = P'' - P' (Algorithm 1).

    A row exists where both partners were measured, each wholly inside its quarter; None where
    the history has more than one trajectory, or a difference is beyond a float's range.
    """
    window = checked_window(history)
    if len(history.trajectories) != 1:
        return None
    (part,) = history.trajectories.values()
    if part.last_round - part.first_round != part.numbering[-1] - part.numbering[0]:
        return None  # rounds of other trajectories lie between
    group = _quarter_of(part.numbering, window, quarter)
    kept = measured_inside(part, group >= 0, group)
    late = group[kept.first - part.first_round] == 1
    early_at = {
        (a, b): i
        for i, (a, b) in enumerate(zip(kept.first.tolist(), kept.last.tolist(), strict=True))
        if not late[i]
    }
    pairs = [
        (i, early_at[a - 2 * quarter, b - 2 * quarter])
        for i, (a, b) in enumerate(zip(kept.first.tolist(), kept.last.tolist(), strict=True))
        if late[i] and (a - 2 * quarter, b - 2 * quarter) in early_at
    ]
    plus = np.array([i for i, _ in pairs], dtype=np.int64)
    minus = np.array([i for _, i in pairs], dtype=np.int64)
    with np.errstate(over="ignore"):
        difference = kept.value[plus] - kept.value[minus]
    if not np.isfinite(difference).all():
        return None
    spans = kept.last - kept.first + 1
    start = part.first_round
    matrix = span_matrix(kept.first - start, kept.last - start, len(part.contexts))
    design = LaggedDesign(part.contexts, window.n_lags)
    return FitRows(
        design.measure(sparse.csr_array(matrix[plus] - matrix[minus])),
        difference / np.sqrt(spans[plus]),
        "differenced",
        int((group >= 0).sum()) - int(spans.sum()),
    )


def _quarter_of(numbering: np.ndarray, window: FitWindow, quarter: int) -> np.ndarray:
    """0 in the epoch's second quarter, 1 in its fourth, -1 elsewhere."""
    back = window.last - numbering
    fourth = (back >= 0) & (back < quarter)
    second = (back >= 2 * quarter) & (back < 3 * quarter)
    return np.where(fourth, 1, np.where(second, 0, -1))


def span_matrix(first: Ints, last: Ints, n_rounds: int) -> sparse.csr_array:
    """(n_spans, n_rounds): a row of 1/sqrt(m) over each span of m rounds, first..last from 0."""
    spans = last - first + 1
    pointer = np.concatenate([[0], np.cumsum(spans)])
    offset = np.arange(pointer[-1]) - np.repeat(pointer[:-1], spans)
    columns = np.repeat(first, spans) + offset
    data = np.repeat(1.0 / np.sqrt(spans), spans)
    return sparse.csr_array((data, columns, pointer), shape=(len(spans), n_rounds))
