"""The presample: rounds before the first, of which nothing is known (docs/model.md (7.29)).

What was chosen then still pays in the first h - 1 rounds. Its mean score is one more unknown, as if
each round before the first had a feature of its own, which no later round has.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from lhb_engine.history import BeforeVoids, Floats, History, Parts


def with_presample(history: History) -> History:
    """Return a history with one more feature, 1 in the rounds before the first one and 0 after.

    Trajectories that begin with round 1 have as many rounds before it as lags reach. All rounds are
    numbered from the first of these. The history has a window.
    """
    parts, n = Parts.of(history.trajectories), history.cut_window.n_lags - 1
    begins = parts.first_rounds == 1
    lengths = parts.lengths + n * begins
    to = np.arange(len(parts.contexts)) + parts.spread(n * np.cumsum(begins))
    size, rows = int(lengths.sum()), parts.measurements

    def later(values: Any) -> Any:
        if values is None:
            return None
        out = np.zeros((size, *values.shape[1:]), values.dtype)
        out[to] = values
        return out

    def widened(contexts: Floats) -> Floats:
        feature = np.ones((size, 1))
        feature[to] = 0.0
        return np.concatenate([later(contexts), feature], axis=1)

    before = parts.before_voids
    if before is not None:
        beside = later(before.covariates)
        before = BeforeVoids(later(before.position), widened(before.contexts), beside)
    trajectories = replace(
        parts,
        contexts=widened(parts.contexts),
        numbering=later(parts.numbering),
        covariates=later(parts.covariates),
        before_voids=before,
        lengths=lengths,
        first_rounds=parts.first_rounds + n * ~begins,
        measurements=replace(rows, first=rows.first + n, last=rows.last + n),
    )
    return replace(history, dim=history.dim + 1, trajectories=trajectories)
