"""Checks of what there is to choose: arms, or features, that are alike, and what choices change."""

from collections.abc import Iterator, Sequence

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.findings.check_scores import APART, less_beside
from lhb_engine.findings.finding import Finding, Unchecked, named
from lhb_engine.history import Flags, Floats

LEAST_SETS = 16
LEAST_PAIRS = 100  # of consecutive rounds
SURE = 6.0  # standard errors
LEAST_CHANGE = 0.15  # of what choices earn
LASTING = 0.98  # of an offer, at most, is there in the next round


def check_choices(
    sets: Sequence[Floats], totals: Flags | None = None
) -> Iterator[Finding | Unchecked]:
    """Look for features that never differ between the arms of a round.

    `totals` says which features vary over rounds, (dim,). One that does, and is the same number in
    all of `sets`, counts decisions: it tells what a decision by itself earns.
    """
    several = [contexts for contexts in sets if len(contexts) > 1]
    if len(several) < LEAST_SETS:  # in sets of one arm there is never a choice
        if several or not sets:
            yield Unchecked(("arms_alike",), "sets")
        return
    differs = np.any([np.ptp(contexts, axis=0) > 0.0 for contexts in several], axis=0)
    counts = np.ptp(np.concatenate(several), axis=0) == 0.0
    if totals is not None:
        counts &= totals[: len(counts)]  # further columns are no features of arms
    alike = np.flatnonzero(~differs if totals is None else ~differs & ~counts)
    if not differs.any():
        yield Finding(
            "arms_alike",
            "The arms of a decision have the same contexts: there is nothing to choose. Give arms "
            "features in which they differ.",
        )
    elif len(alike):
        features = tuple(alike.tolist())
        yield Finding(
            "never_differs",
            f"{named(features)} never differ{'s' * (len(features) == 1)} between the arms of a "
            "decision, so no choice goes by it: report it as a covariate, or multiply it by a "
            "feature in which the arms differ.",
            features=features,
        )


def check_offers(
    rows: AlignedRounds, means: Floats, theta: Floats
) -> Iterator[Finding | Unchecked]:
    """Look for offers that go with the choice before, by docs/model.md (12.5).

    `means` (n_places, dim) are the mean contexts of a round's arms, 0 where not known.
    """
    plain = means.any(axis=1) & (np.rint(rows.intercept**2) == 1)
    later = rows.followers()
    later = later[plain[later] & plain[rows.before[later]]]
    dim = len(theta)
    if len(later) < max(LEAST_PAIRS, 4 * dim) or dim < 2:
        yield Unchecked(("offers_follow",), "rows")
        return
    now = rows.before[later]
    across = np.linalg.qr(np.column_stack([theta, np.eye(dim)]))[0][:, 1:dim]
    # a further column of the rows is that of the presample, and no arm's
    taken, offered = rows.contexts[now, :dim] - means[now], means[now]
    beside = np.column_stack([np.ones(len(now)), offered])
    columns, target = (one @ across for one in (taken, means[later]))
    whole = (columns**2).sum(axis=0)
    columns, target, _ = less_beside(beside, columns, target)
    square, product = (columns**2).sum(axis=0), (columns * target).sum(axis=0)
    apart = square > APART * whole
    if not apart.any():
        return
    columns, target = columns[:, apart], target[:, apart]
    square, product = square[apart], product[apart]
    noise = np.maximum(((target - columns * (product / square)) ** 2).mean(axis=0), 1e-300)
    share = float((product / noise).sum()) / float((square / noise).sum())
    if abs(share) * np.sqrt(float((square / noise).sum())) < SURE:
        return
    score, after = offered @ theta, (means[later] - share * taken) @ theta
    score, after = score - score.mean(), after - after.mean()
    lasting = float(score @ after) / max(float(score @ score), 1e-300)
    change = share / (1.0 - min(max(lasting, 0.0), LASTING))
    if abs(change) < LEAST_CHANGE:
        return
    worse = "worse" if change < 0.0 else "better"
    yield Finding(
        "offers_follow",
        f"Arms are {worse} after good choices, as choices change what is offered next. What "
        "choices earn over chance is not said: chance would have had other offers. Make a session "
        "with a control group (`holdout`): the group measures what choices earn.",
    )
