"""Ragged, interleaved histories, and their rows and sums by definition."""

import numpy as np
from hypothesis import strategies as st

from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from tests.lhb_engine.dense_algebra import toeplitz


@st.composite
def histories(draw):
    """Ragged, interleaved trajectories with gaps and spans, and a window that cuts them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, n_lags = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    lengths = draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
    n = sum(lengths)
    interleaved = draw(st.booleans())
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if interleaved:
        rng.shuffle(owner)
    longest_span = draw(st.sampled_from([1, 1, 2, 5, 12]))
    keep = draw(st.sampled_from([1.0, 0.9, 0.5]))
    parts = {}
    for i, length in enumerate(lengths):
        first, spans = [], []
        while sum(spans) < length:
            first.append(sum(spans) + 1)
            size = int(rng.integers(1, longest_span + 1)) if rng.random() < 0.5 else longest_span
            spans.append(min(size, length - sum(spans)))
        kept = rng.random(len(first)) < keep
        first, spans = np.array(first)[kept], np.array(spans)[kept]
        measured = Measurements(first, first + spans - 1, rng.normal(2.0, 1.0, len(first)))
        parts[str(i)] = Trajectory(
            rng.normal(0.5, 1.0, (length, dim)),
            measured,
            positions=np.flatnonzero(owner == i) + 1,
        )
    first = draw(st.integers(1, n))
    last = draw(st.integers(first, n))
    return History(dim, parts).over(FitWindow(1, first, last, n_lags, last))


def dense(past, n_lags):
    """Rows [X, sqrt(m), y] by definition, the row before each (or None), and its last round."""
    rows, before, order = [], [], []
    for part in past.trajectories.values():
        lagged = toeplitz([part.contexts], n_lags)
        inside = (part.numbering >= past.window.first) & (part.numbering <= past.window.last)
        at, measured = {}, part.measurements
        for first, last, value in zip(measured.first, measured.last, measured.value, strict=True):
            a, b = first - part.first_round, last - part.first_round + 1
            if not inside[a:b].all():
                continue
            m = b - a
            row = np.append(lagged[a:b].sum(axis=0), [m, value]) / np.sqrt(m)
            before.append(at.get((a, m)))
            at[b, m] = len(rows)
            rows.append(row)
            order.append(part.numbering[b - 1])
    width = n_lags * past.dim + 2
    return np.array(rows).reshape(len(rows), width), before, np.array(order, int)


def sums_of(rows, before, chosen):
    """Sums by definition over the chosen rows and their pairs."""
    p = rows.shape[1]
    out = np.zeros((3, p, p))
    for i in chosen:
        out[0] += np.outer(rows[i], rows[i])
        if before[i] is not None:
            last = rows[before[i]]
            out[1] += np.outer(rows[i], last) + np.outer(last, rows[i])
            out[2] += np.outer(rows[i], rows[i]) + np.outer(last, last)
    return out


def alike(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-10 * max(1.0, np.abs(expected).max()))
