"""The rows of a block-lasso fit: from a history to a design and measured values."""

from dataclasses import dataclass

import numpy as np
import scipy

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import FitWindow, Flags, Floats, History, Ints, Measurements, Trajectory


@dataclass(frozen=True)
class FitRows:
    """The least-squares rows of one fit; `y` of a span over m rounds is scaled by 1/sqrt(m).

    `n_missing` are rounds of the window (of the two quarters, where quarters are used) that no
    measurement covers. A measured round whose partner in the other quarter is missing makes no row,
    but does not count as missing.
    """

    design: LaggedDesign
    y: Floats
    name: str
    n_missing: int


def measured_rows(history: History, *, quarters: int | None = None) -> FitRows:
    """Return one row for each measurement inside the window, by docs/model.md (1.5).

    With `quarters`, the length q of one, of the second and fourth of the epoch that ends with the
    window. Raises ValueError: there is no window or no round in it, or a reward is not finite.
    """
    window = history.checked_window()
    firsts, lasts, values = [], [], []
    n_rounds = n_before = 0
    for part in history.trajectories.values():
        inside, group = window.marks(part.numbering), None
        if quarters:
            group = _quarter_of(part.numbering, window, quarters)
            inside &= group >= 0
        n_rounds += int(inside.sum())
        kept = _measured_inside(part, inside, group)
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
    """Return the rows of the fourth quarter less those of the second, docs/model.md (3.2).

    There is a row where both partners are measured, each wholly inside its quarter. None if the
    window has rounds of more than one trajectory, or a difference overflows.
    """
    window = history.checked_window()
    if len(history.trajectories) != 1:
        return None
    (part,) = history.trajectories.values()
    if part.last_round - part.first_round != part.numbering[-1] - part.numbering[0]:
        return None  # rounds of other trajectories lie between
    group = _quarter_of(part.numbering, window, quarter)
    kept = _measured_inside(part, group >= 0, group)
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
        design.measure(scipy.sparse.csr_array(matrix[plus] - matrix[minus])),
        difference / np.sqrt(spans[plus]),
        "differenced",
        int((group >= 0).sum()) - int(spans.sum()),
    )


def _measured_inside(part: Trajectory, inside: Flags, group: Ints | None) -> Measurements:
    """Return the measurements whose rounds are all `inside`, (n_rounds,), and of one `group`."""
    m = part.measurements.between(part.first_round, part.last_round)
    before = np.concatenate([[0], np.cumsum(inside)])
    first, last = m.first - part.first_round, m.last - part.first_round
    whole = before[last + 1] - before[first] == last - first + 1
    if group is not None:
        whole &= group[first] == group[last]
    return m.chosen(whole)


def _quarter_of(numbering: np.ndarray, window: FitWindow, quarter: int) -> np.ndarray:
    """Return 0 in the epoch's second quarter, 1 in its fourth, -1 elsewhere, a number a round."""
    back = window.last - numbering
    fourth = (back >= 0) & (back < quarter)
    second = (back >= 2 * quarter) & (back < 3 * quarter)
    return np.where(fourth, 1, np.where(second, 0, -1))


def span_matrix(first: Ints, last: Ints, n_rounds: int) -> "scipy.sparse.csr_array":
    """Return the matrix M of docs/model.md (1.5), (n_spans, n_rounds): 1/sqrt(m) over m rounds.

    `first` and `last` (n_spans,) are rounds from 0.
    """
    spans = last - first + 1
    pointer = np.concatenate([[0], np.cumsum(spans)])
    offset = np.arange(pointer[-1]) - np.repeat(pointer[:-1], spans)
    columns = np.repeat(first, spans) + offset
    data = np.repeat(1.0 / np.sqrt(spans), spans)
    return scipy.sparse.csr_array((data, columns, pointer), shape=(len(spans), n_rounds))
