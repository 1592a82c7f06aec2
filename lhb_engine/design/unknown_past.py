"""A past before a trajectory's first round, of which nothing is known (docs/model.md (7.29)).

What was chosen then still pays in the first h - 1 rounds. Its mean score is one more unknown, as if
each round before the first had a feature of its own, which no later round has.
"""

from dataclasses import replace

import numpy as np

from lhb_engine.history import History, Trajectory


def with_past(history: History) -> History:
    """Return a history with one more feature, 1 in the rounds before the first one and 0 after.

    Trajectories that begin with round 1 have as many rounds before it as lags reach. All rounds are
    numbered from the first of these. The history has a window.
    """
    assert history.window is not None
    n = history.window.n_lags - 1
    parts = {key: _with_past(part, n) for key, part in history.trajectories.items()}
    return replace(history, dim=history.dim + 1, trajectories=parts)


def _with_past(part: Trajectory, n: int) -> Trajectory:
    contexts = np.pad(part.contexts, ((0, 0), (0, 1)))
    numbering, covariates, m = part.numbering, part.covariates, part.measurements
    if part.first_round == 1:
        contexts = np.pad(contexts, ((n, 0), (0, 0)))
        contexts[:n, -1] = 1.0
        numbering = np.pad(numbering, (n, 0))
        covariates = None if covariates is None else np.pad(covariates, ((n, 0), (0, 0)))
    return replace(
        part,
        contexts=contexts,
        measurements=replace(m, first=m.first + n, last=m.last + n),
        first_round=1 if part.first_round == 1 else part.first_round + n,
        positions=numbering,
        covariates=covariates,
    )
