"""The presample: rounds before the first, of which nothing is known (docs/model.md (7.29)).

What was chosen then still pays in the first h - 1 rounds. Its mean score is one more unknown, as if
each round before the first had a feature of its own, which no later round has.
"""

from dataclasses import replace

import numpy as np

from lhb_engine.history import History, Parts


def with_presample(history: History) -> History:
    """Return a history with one more feature, 1 in the rounds before the first one and 0 after.

    Trajectories that begin with round 1 have as many rounds before it as lags reach. All rounds are
    numbered from the first of these. The history has a window.
    """
    parts, n = Parts.of(history.trajectories), history.cut_window.n_lags - 1
    begins = parts.first_rounds == 1
    lengths = parts.lengths + n * begins
    to = np.arange(len(parts.contexts)) + parts.spread(n * np.cumsum(begins))
    size, rows, told = int(lengths.sum()), parts.measurements, parts.covariates
    contexts, numbering = np.zeros((size, history.dim + 1)), np.zeros(size, np.int64)
    contexts[:, -1] = 1.0
    contexts[to, -1] = 0.0
    contexts[to, :-1], numbering[to] = parts.contexts, parts.numbering
    if told is not None:
        told = np.zeros((size, told.shape[1]))
        told[to] = parts.covariates
    trajectories = replace(
        parts,
        contexts=contexts,
        numbering=numbering,
        covariates=told,
        lengths=lengths,
        first_rounds=parts.first_rounds + n * ~begins,
        measurements=replace(rows, first=rows.first + n, last=rows.last + n),
    )
    return replace(history, dim=history.dim + 1, trajectories=trajectories)
