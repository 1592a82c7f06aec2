"""Sums over spans of rounds, each a function of its own rounds alone, to the bit."""

import numpy as np

from lhb_engine.history import Floats


def span_sums(values: Floats, span: int) -> Floats:
    """Return the sums over `span` rounds, (n_rounds, n), over sqrt(span).

    They are added up from sums over 1, 2, 4, ... rounds. So a sum depends on its own rounds alone,
    to the bit, and not on where the rounds begin.
    """
    out, done = np.zeros_like(values), 0
    block, size = values, 1
    while True:
        if span & size:
            out = _plus_later(block, out, size) if done else block.copy()
            done += size
        if done == span:
            return np.asarray(out * (1.0 / np.sqrt(span)))
        block, size = _plus_later(block, block, size), 2 * size


def _plus_later(values: Floats, earlier: Floats, delay: int) -> Floats:
    """Return values plus `earlier` ones, `delay` rounds later."""
    out = values.copy()
    out[delay:] += earlier[: max(0, len(earlier) - delay)]
    return out
