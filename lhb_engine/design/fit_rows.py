"""The rows of a block-lasso fit: from a history to a design and measured values."""

from dataclasses import dataclass

import numpy as np
import scipy

from lhb_engine.design.aligned_rounds import joined_rounds, measured_inside
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import FitWindow, Flags, Floats, History, Ints, Measurements, Parts


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
    rounds, group = joined_rounds(history), None
    inside = window.marks(rounds.numbering)
    if quarters:
        group = _quarter_of(rounds.numbering, window, quarters)
        inside &= group >= 0
    kept = _measured_inside(rounds, inside, group)
    spans = kept.last - kept.first + 1
    whole = LaggedDesign([part.contexts for part in rounds.values()], window.n_lags)
    if (spans == 1).all():
        design = whole.select(kept.first)
    else:
        design = whole.measure(span_matrix(kept.first, kept.last, len(inside)))
    return FitRows(
        design,
        kept.value / np.sqrt(spans),
        "undifferenced" if quarters else "full",
        int(inside.sum()) - int(spans.sum()),
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
    kept = _measured_inside(joined_rounds(history), group >= 0, group)
    late = group[kept.first] == 1
    ends = list(zip(kept.first.tolist(), kept.last.tolist(), strict=True))
    early_at = {
        (a + 2 * quarter, b + 2 * quarter): i for i, (a, b) in enumerate(ends) if not late[i]
    }
    pairs = [(i, early_at[span]) for i, span in enumerate(ends) if late[i] and span in early_at]
    plus, minus = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    with np.errstate(over="ignore"):
        difference = kept.value[plus] - kept.value[minus]
    if not np.isfinite(difference).all():
        return None
    spans = kept.last - kept.first + 1
    matrix = span_matrix(kept.first, kept.last, len(part.contexts))
    design = LaggedDesign(part.contexts, window.n_lags)
    return FitRows(
        design.measure(scipy.sparse.csr_array(matrix[plus] - matrix[minus])),
        difference / np.sqrt(spans[plus]),
        "differenced",
        int((group >= 0).sum()) - int(spans.sum()),
    )


def _measured_inside(rounds: Parts, inside: Flags, group: Ints | None) -> Measurements:
    """Return the measurements whose rounds are all `inside`, (n_rounds,), and of one `group`."""
    _, kept = measured_inside(rounds, inside)
    return kept if group is None else kept.chosen(group[kept.first] == group[kept.last])


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
