"""How much of what an arm has was chosen lately: a column that a session works out.

With m rounds of memory a trajectory keeps F, which begins at 0 and after a choice of context x is

    F + (x - F) / m,

where a round without action counts as x = 0. The column of an arm with context x is <x, F>, over
all columns but those that a session works out.
"""

import numpy as np

from lhb_engine.history import Floats
from service.session.names import Names


def fill_repetition(names: Names, contexts: Floats, lately: bytes | None) -> None:
    """Fill the column in contexts (K, dim), in place, by what a trajectory keeps, F as bytes."""
    alike = 0.0 if lately is None else contexts @ np.frombuffer(lately)
    contexts[:, names.repetition_column] = alike


def after_choice(names: Names, lately: bytes | None, context: bytes, dim: int) -> bytes:
    """Return F after a choice of `context`, as a decision stores it; empty: no action."""
    before = np.zeros(dim) if lately is None else np.frombuffer(lately)
    chosen = np.frombuffer(context, count=dim) if context else np.zeros(dim)
    after = before + (chosen - before) / names.repetition
    after[names.worked_out] = 0.0
    return after.tobytes()
