"""Checks of the selected contexts: features that are alike, and rewards that were known before."""

from collections.abc import Iterator, Mapping

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.findings.finding import Finding, Unchecked, named
from lhb_engine.history import Flags, Floats

ROWS_A_FEATURE = 8
LEAST_ROWS = 40
MOST_FEATURES = 300  # the test costs their cube
ALIKE = 0.005  # least eigenvalue of the features' second moments, each scaled to 1
INVOLVED = 0.3  # of the direction that does not vary: a feature with less takes no part in it
LEAST_SHARE = 0.05  # of rounds with an action, and of those without
ACTING = 0.25  # of the rewards' variance that acting or not explains
SURE = 4.0  # standard errors


def actions(rows: AlignedRounds) -> Flags:
    """Return whether there was an action at each place, (n_places,)."""
    return np.asarray(rows.contexts.any(axis=1))


def check_features(rows: AlignedRounds) -> Iterator[Finding | Unchecked]:
    """Look for features whose selected values cannot be told apart, or are always 0."""
    dim, acted = rows.contexts.shape[1], actions(rows)
    n = int(acted.sum())
    if dim > MOST_FEATURES or n < max(LEAST_ROWS, ROWS_A_FEATURE * dim):
        yield Unchecked(("features_alike",), "features" if dim > MOST_FEATURES else "rows")
        return
    selected = rows.contexts[acted]
    size = np.sqrt((selected**2).mean(axis=0))
    unused = np.flatnonzero(size == 0.0)
    if len(unused):
        are, it = ("is", "it") if len(unused) == 1 else ("are", "them")
        yield Finding(
            "features_alike",
            f"{named(unused.tolist())} {are} 0 in every chosen context, so nothing can be "
            f"learned of {it}: choose what has {it} now and then (`forced_arm`), or leave {it} "
            "out.",
            features=tuple(unused.tolist()),
        )
    used = np.flatnonzero(size > 0.0)
    scaled = selected[:, used] / size[used]
    values, axes = np.linalg.eigh(scaled.T @ scaled / n)
    still = axes[:, values < ALIKE]
    if _only_level(selected[:, used], still / size[used, None]):
        return
    involved = np.flatnonzero((np.abs(still) > INVOLVED).any(axis=1))
    if alike := used[involved].tolist():
        yield Finding(
            "features_alike",
            f"{named(alike)} hardly vary apart from each other in the chosen contexts: their "
            "effects cannot be told apart. Leave one out, or let arms differ in them.",
            features=tuple(alike),
        )


def _only_level(selected: Floats, directions: Floats) -> bool:
    """Whether directions (dim, m) move the scores of all contexts (n, dim) alike.

    Scores move alike where columns fall into groups whose sum never varies, as a category's do.
    """
    if not directions.size:
        return False
    alike = np.round(directions / np.abs(directions).max(), 6)
    rows, group = np.unique(alike, axis=0, return_inverse=True)
    parts = [selected[:, group.ravel() == i] for i in np.flatnonzero(rows.any(axis=1))]
    sums = [part.sum(axis=1) for part in parts if part.shape[1] > 1]
    return len(sums) == len(parts) == directions.shape[1] + 1 and all(
        np.ptp(one) <= 1e-9 * np.abs(one).max() for one in sums
    )


def check_actions(rows: AlignedRounds, sets: Mapping[int, Floats]) -> Iterator[Finding]:
    """Look for rewards that tell whether there was an action, and not which, as visits do.

    Not where no action is one of the arms of `sets`, or was chosen beside them, as control does.
    A set of such arms alone is none to choose from.
    """
    sets = {number: arms for number, arms in sets.items() if arms.any()}
    offered = np.isin(rows.last, list(sets)) & ~actions(rows)
    if offered.any() or not all(one.any(axis=1).all() for one in sets.values()):
        return
    is_row = (rows.number > 0) & (np.rint(rows.intercept**2) == 1)
    acted = rows.contexts[is_row].any(axis=1)
    y, contexts = rows.y[is_row], rows.contexts[is_row][acted]
    n, share = len(y), float(acted.mean()) if len(acted) else 0.0
    few = n < LEAST_ROWS or min(share, 1.0 - share) < LEAST_SHARE
    if few or contexts.shape[1] * ROWS_A_FEATURE > len(contexts):
        return
    between = share * (1.0 - share) * float(y[acted].mean() - y[~acted].mean()) ** 2
    if between < ACTING * float(y.var()):
        return
    if _depends(y[acted] - y[acted].mean(), contexts - contexts.mean(axis=0)):
        return
    yield Finding(
        "known_before",
        "Rewards differ between rounds with and without an action, and not between the actions. "
        "If a reward is known before its round's decision, as a visit is, earlier rounds caused "
        "it: report it for the round before.",
        lags=(0,),
    )


def _depends(y: Floats, contexts: Floats) -> bool:
    """Whether rewards depend on the contexts of their own round: an F statistic far above 1."""
    n, dim = contexts.shape
    if float(np.abs(y).max()) <= 1e-9:
        return False
    by, *_ = np.linalg.lstsq(contexts, y)
    left = y - contexts @ by
    explained, rest = float(y @ y - left @ left), float(left @ left)
    ratio = explained / dim / max(rest / max(n - dim - 1, 1), 1e-300)
    return bool(ratio > 1.0 + SURE * float(np.sqrt(2.0 / dim)))
