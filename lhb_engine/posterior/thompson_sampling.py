"""Thompson sampling where greedy play has stopped teaching (docs/model.md 7, Fixed arms).

Greedy play on arms that never change selects one context for good, and rewards then say nothing
about the other arms. Where contexts vary by themselves, greedy play teaches every direction.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import eigh

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.rank_one_posterior import (
    CONSTANT,
    MOST_FEATURES,
    Posterior,
    context_scale,
)

LEAST_ROWS = 40
ROWS_A_FEATURE = 8
STOPPED = 0.005  # of (7.20)
MOST_CANDIDATES, LEAST_CANDIDATES = 64, 8
MOST_NUMBERS = 4096  # of all candidates, beyond the fewest


def stops_teaching(rows: AlignedRounds, moments: RowMoments | None = None) -> bool:
    """Whether the selected contexts no longer vary where they varied before, by (7.20).

    Fewer rows than 40, or 8 a feature, do not tell; nor do more than 300 features. With the
    `moments` of all rows, `rows` are the latest of them, and are compared with all.
    """
    n, dim = rows.n_rows, rows.contexts.shape[1]
    if dim > MOST_FEATURES or n < max(LEAST_ROWS, ROWS_A_FEATURE * dim):
        return False
    places = np.flatnonzero(rows.number > 0)
    places = places[np.argsort(rows.number[places], kind="stable")]
    scale = context_scale(rows if moments is None else moments)
    selected = rows.contexts[places] / scale
    late = selected[n // 2 :] if moments is None else selected
    late = np.cov(late, rowvar=False, bias=True).reshape(dim, dim)
    if moments is None:
        every = np.cov(selected, rowvar=False, bias=True).reshape(dim, dim)
    else:
        every = moments.covariance / np.outer(scale, scale)
    variance, axes = np.linalg.eigh(every)
    varied = axes[:, variance > CONSTANT]
    if varied.shape[1] == 0:
        return True
    ratios = eigh(varied.T @ late @ varied, varied.T @ every @ varied, eigvals_only=True)
    return bool(ratios[0] < STOPPED)


def are_untried(data: FitData, sets: Sequence[Floats]) -> bool:
    """Whether arms of kept context sets have a feature that is 0 in every selected context.

    Fewer rows than (7.20) asks for do not tell.
    """
    if not sets or data.n_rows < max(LEAST_ROWS, ROWS_A_FEATURE * sets[0].shape[1]):
        return False
    unseen = ~data.seen[: sets[0].shape[1]]  # a presample is one feature more
    return any(contexts[:, unseen].any() for contexts in sets)


def candidates(posterior: Posterior) -> Floats:
    """Return the directions that decisions take in turn, (n_candidates, dim): posterior draws.

    The directions are draws of sum(w) theta, divided by the mean of their lengths.
    """
    drawn = posterior.totals
    most = max(MOST_NUMBERS // drawn.shape[1], LEAST_CANDIDATES)
    most = min(most, MOST_CANDIDATES, len(drawn))
    chosen = drawn[np.linspace(0, len(drawn) - 1, most).astype(np.int64)]
    return np.asarray(chosen / max(float(np.linalg.norm(chosen, axis=1).mean()), 1e-300))
