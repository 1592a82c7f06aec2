"""Checks of what there is to choose: context sets whose arms, or features, are alike."""

from collections.abc import Iterator, Sequence

import numpy as np

from lhb_engine.findings.finding import Finding, Unchecked, named
from lhb_engine.history import Flags, Floats

LEAST_SETS = 16


def check_choices(
    sets: Sequence[Floats], totals: Flags | None = None
) -> Iterator[Finding | Unchecked]:
    """Look for features that never differ between the arms of a round.

    `totals` says which features vary over rounds, (dim,). One that does, and is the same number in
    all of `sets`, counts decisions: it tells what a decision by itself earns.
    """
    several = [contexts for contexts in sets if len(contexts) > 1]
    if len(several) < LEAST_SETS:
        if several or not sets:  # else there is never a choice
            yield Unchecked(("arms_alike",), "rows" if several else "sets")
        return
    differs = np.any([np.ptp(contexts, axis=0) > 0.0 for contexts in several], axis=0)
    counts = np.ptp(np.concatenate(several), axis=0) == 0.0
    if totals is not None:
        counts &= totals[: len(counts)]  # further columns are no features of arms
    alike = np.flatnonzero(~differs if totals is None else ~differs & ~counts)
    if not differs.any():
        yield Finding(
            "arms_alike",
            "The arms of a round have the same contexts: there is nothing to choose. Give arms "
            "features in which they differ.",
        )
    elif len(alike):
        features = tuple(alike.tolist())
        yield Finding(
            "never_differs",
            f"{named(features)} never differ{'s' * (len(features) == 1)} between the arms of a "
            "round, so no choice goes by it: report it as a covariate, or multiply it by a feature "
            "in which the arms differ.",
            features=features,
        )
