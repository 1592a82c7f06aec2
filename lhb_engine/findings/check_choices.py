"""Checks of what there is to choose: context sets whose arms, or features, are alike."""

from collections.abc import Iterator, Sequence

import numpy as np

from lhb_engine.findings.finding import Finding, named
from lhb_engine.history import Floats

LEAST_SETS = 16


def check_choices(sets: Sequence[Floats]) -> Iterator[Finding]:
    """Look for features that never differ between the arms of a round."""
    several = [contexts for contexts in sets if len(contexts) > 1]
    if len(several) < LEAST_SETS:
        return
    alike = np.flatnonzero(
        ~np.any([np.ptp(contexts, axis=0) > 0.0 for contexts in several], axis=0)
    )
    if len(alike) == several[0].shape[1]:
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
