"""The row layout of the posterior: each measurement is a row at a place of one padded sequence.

A lag is then a shift of that sequence: column k of the design is the signal shifted by k places.
Zeros between trajectories keep lags from reaching across. A sum over m rounds is an ordinary row of
a sequence whose contexts are sums over m rounds, so each span length has a sequence of its own.
"""

from dataclasses import dataclass, replace

import numpy as np

from lhb_engine.design.window_rows import checked_window, measured_inside, rounds_inside
from lhb_engine.history import Floats, History, Ints, Measurements, Trajectory


@dataclass(frozen=True)
class AlignedRounds:
    """The rows of a fit, one place a round, scaled as in docs/model.md (1.5).

    Attributes
    ----------
    contexts : (n_places, dim) array
        Selected contexts, zero in the gaps; for a span of m rounds their sum over sqrt(m).
    y : (n_places,) array
        Measured values over sqrt(m), at the last round of the span; zero where there is no row.
    intercept : (n_places,) array
        The column c of the baseline, sqrt(m); zero where there is no row.
    number : (n_places,) array
        Session number of the first round of the row; zero where there is no row.
    last : (n_places,) array
        Session number of the last round of the row; zero where there is no row.
    before : (n_places,) array
        The place m rounds earlier in the same trajectory; -1 where there is none.
    n_lags : int
        Number of lags that at least one row can see.
    n_rows, n_missing : int
        Measurements used; rounds of the window that no measurement covers.
    """

    contexts: Floats
    y: Floats
    intercept: Floats
    number: Ints
    last: Ints
    before: Ints
    n_lags: int
    n_rows: int
    n_missing: int

    def rows(self, first: int, last: int) -> "AlignedRounds":
        """Return the rows whose first round is in the session's rounds first..last.

        Contexts of the lags before them are kept. Without such a row all rows are returned.
        """
        kept = (self.number >= max(first, 1)) & (self.number <= last)
        places = np.flatnonzero(kept)
        if len(places) == 0:
            return self
        start, stop = max(0, int(places[0]) - self.n_lags + 1), int(places[-1]) + 1
        here, kept = slice(start, stop), kept[start:stop]
        return replace(
            self,
            contexts=self.contexts[here],
            y=np.where(kept, self.y[here], 0.0),
            intercept=np.where(kept, self.intercept[here], 0.0),
            number=np.where(kept, self.number[here], 0),
            last=np.where(kept, self.last[here], 0),
            before=np.maximum(self.before[here] - start, -1),
            n_rows=len(places),
        )

    def in_order(self) -> Ints:
        """Return the places of all rows, in the session's order of their last rounds."""
        places = np.flatnonzero(self.number > 0)
        return places[np.argsort(self.last[places], kind="stable")]

    def followers(self) -> Ints:
        """Return the places of rows directly after a row of the same trajectory and span length."""
        is_row = self.number > 0
        return np.flatnonzero(is_row & (self.before >= 0) & is_row[self.before])


def align(history: History) -> AlignedRounds:
    """Lay out the measurements inside the history's window.

    Parameters
    ----------
    history : History
        With a window.

    Raises
    ------
    ValueError
        The history has no window or no round in it, or its numbers are not finite.
    """
    window = checked_window(history)
    parts: list[tuple[Floats, Floats, Floats, Ints, Ints, int]] = []
    n_rows = n_rounds = n_covered = longest = 0
    for part in history.trajectories.values():
        if not np.isfinite(part.contexts).all():
            raise ValueError("contexts must be finite")
        inside = rounds_inside(part, window)
        kept = measured_inside(part, inside)
        spans = kept.last - kept.first + 1
        n_rounds += int(inside.sum())
        n_rows += len(kept)
        n_covered += int(spans.sum())
        longest = max(longest, len(part.contexts))
        lengths = np.unique(spans).tolist() or [1]
        parts += [_place(part, kept, spans == length, length) for length in lengths]
    n_lags = max(1, min(window.n_lags, longest))
    gap = n_lags - 1
    lengths = np.array([len(part[0]) for part in parts])
    starts = np.concatenate([[0], np.cumsum(lengths + gap)[:-1]])
    n_places = int(starts[-1] + lengths[-1])
    out = AlignedRounds(
        np.zeros((n_places, history.dim)),
        np.zeros(n_places),
        np.zeros(n_places),
        np.zeros(n_places, np.int64),
        np.zeros(n_places, np.int64),
        np.full(n_places, -1),
        n_lags,
        n_rows,
        n_rounds - n_covered,
    )
    for start, sequence in zip(starts.tolist(), parts, strict=True):
        contexts, y, intercept, number, last, span = sequence
        stop = start + len(contexts)
        out.contexts[start:stop] = contexts
        out.y[start:stop] = y
        out.intercept[start:stop] = intercept
        out.number[start:stop] = number
        out.last[start:stop] = last
        out.before[start + span : stop] = np.arange(start, stop - span)
    return out


def _place(
    part: Trajectory, kept: Measurements, chosen: np.ndarray, span: int
) -> tuple[Floats, Floats, Floats, Ints, Ints, int]:
    """Return contexts, y, intercept, number and last of the rows of one span length, and it.

    `chosen` marks the measurements of that length.
    """
    scale = 1.0 / np.sqrt(span)
    contexts = np.array(part.contexts, dtype=np.float64)
    if span > 1:
        total = np.cumsum(np.concatenate([np.zeros((span, contexts.shape[1])), contexts]), axis=0)
        contexts = (total[span:] - total[:-span]) * scale
    n = len(contexts)
    y, intercept = np.zeros(n), np.zeros(n)
    number, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    place = kept.last[chosen] - part.first_round
    y[place] = kept.value[chosen] * scale
    intercept[place] = np.sqrt(span)
    number[place] = part.numbering[kept.first[chosen] - part.first_round]
    last[place] = part.numbering[place]
    return contexts, y, intercept, number, last, span
