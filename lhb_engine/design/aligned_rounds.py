"""Rows in place: every measurement becomes a row that sits at a round of one padded sequence.

Then a lag is a shift of that sequence: column k of the design is the signal moved by k places.
Zeros between two trajectories keep lags apart. The sum over a span of m rounds is an ordinary
row of the trajectory whose contexts are summed over m rounds, so spans need no other algebra.
"""

from dataclasses import dataclass

import numpy as np

from lhb_engine.history import FitWindow, Floats, History, Measurements, Trajectory


@dataclass(frozen=True)
class AlignedRounds:
    """The rows of a fit, laid out by round.

    Attributes
    ----------
    contexts : (n_places, dim) array
        Selected contexts, zero in the gaps; those of a span of m rounds are scaled by 1/sqrt(m).
    y : (n_places,) array
        Measured values, zero where there is no row.
    intercept : (n_places,) array
        What a baseline of 1 a round adds to the row, zero where there is no row.
    n_lags : int
        Lags that at least one row can see.
    n_rows, n_missing : int
        Measurements used; rounds of the window that none covers.
    """

    contexts: Floats
    y: Floats
    intercept: Floats
    n_lags: int
    n_rows: int
    n_missing: int


def align(history: History) -> AlignedRounds:
    """Lay out the measurements inside the history's window.

    Raises
    ------
    ValueError
        No window, no round in it, or numbers that are not finite.
    """
    window = history.window
    if window is None:
        raise ValueError("the history has no window: take History.over(window)")
    if not history.trajectories:
        raise ValueError("the history holds no round of its window")
    parts: list[tuple[Floats, Floats, Floats]] = []
    n_rows = n_rounds = n_covered = longest = 0
    for part in history.trajectories.values():
        if not np.isfinite(part.measurements.value).all():
            raise ValueError("rewards must be finite")
        if not np.isfinite(part.contexts).all():
            raise ValueError("contexts must be finite")
        kept, inside = _inside(part, window)
        spans = kept.last - kept.first + 1
        n_rounds += inside
        n_rows += len(kept)
        n_covered += int(spans.sum())
        longest = max(longest, len(part.contexts))
        lengths = np.unique(spans).tolist() or [1]
        parts += [_place(part, kept, spans == length, length) for length in lengths]
    n_lags = max(1, min(window.n_lags, longest))
    width = next(iter(history.trajectories.values())).contexts.shape[1]
    gap = np.zeros(n_lags - 1)
    columns: list[list[Floats]] = [[], [], []]
    for part_columns in parts:
        for column, values in zip(columns, part_columns, strict=True):
            column += [gap if values.ndim == 1 else np.zeros((n_lags - 1, width)), values]
    contexts, y, intercept = (np.concatenate(column[1:]) for column in columns)
    return AlignedRounds(contexts, y, intercept, n_lags, n_rows, n_rounds - n_covered)


def _inside(part: Trajectory, window: FitWindow) -> tuple[Measurements, int]:
    """Measurements whose rounds are all in the window, and how many of its rounds there are."""
    numbering = part.numbering
    inside = (numbering >= window.first) & (numbering <= window.last)
    before = np.concatenate([[0], np.cumsum(inside)])
    m = part.measurements.between(part.first_round, part.last_round)
    first, last = m.first - part.first_round, m.last - part.first_round
    whole = before[last + 1] - before[first] == last - first + 1
    return Measurements(m.first[whole], m.last[whole], m.value[whole]), int(inside.sum())


def _place(
    part: Trajectory, kept: Measurements, chosen: np.ndarray, span: int
) -> tuple[Floats, Floats, Floats]:
    """Contexts summed over `span` rounds, and the rows of that span at their last rounds."""
    scale = 1.0 / np.sqrt(span)
    contexts = np.array(part.contexts, dtype=np.float64)
    if span > 1:
        total = np.cumsum(np.concatenate([np.zeros((span, contexts.shape[1])), contexts]), axis=0)
        contexts = (total[span:] - total[:-span]) * scale
    y, intercept = np.zeros(len(contexts)), np.zeros(len(contexts))
    place = kept.last[chosen] - part.first_round
    y[place] = kept.value[chosen] * scale
    intercept[place] = np.sqrt(span)
    return contexts, y, intercept
