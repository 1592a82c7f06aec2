"""A check of rewards that run into a limit, or bend: what is expected does not add up in them."""

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.estimate import signal_of
from lhb_engine.findings.check_scores import APART, CarriedErrors, less_beside, score_weights
from lhb_engine.findings.finding import Finding
from lhb_engine.history import Floats
from lhb_engine.posterior.predictor import Predictor

LEAST_TOP, LEAST_SHARE = 20, 0.03  # rewards that are equal to the largest
LEAST_VALUES = 0.5  # of other rewards: with fewer, as clicks and ratings have, all are usual
CHANCE = 1e-4  # of a bend by chance
IN_EACH = 2.0  # standard errors in each half of the rows
LEAST_BEND = 0.1  # of what one more pays, a standard deviation of what is expected further


def check_limits(rows: AlignedRounds, errors: Floats, predictor: Predictor) -> Iterator[Finding]:
    """Look for many rewards that are the largest, and for rewards that bend (docs/model.md (12.9)).

    Both make what choices earn look like less, or more, than what it is.
    """
    rewards = rows.y[np.rint(rows.intercept**2) == 1]
    values, counts = np.unique(rewards, return_counts=True)
    top = int(counts[-1]) if len(counts) else 0
    if len(counts) - 1 < max(LEAST_TOP, LEAST_VALUES * (len(rewards) - top)):
        return
    middle, below, limit = values[len(values) // 2], values[-2], values[-1]
    # 0 is that nothing happened, as no cost; a price that nothing comes near is what is usual
    reached = limit != 0.0 and limit - below < below - middle
    if reached and top >= max(LEAST_TOP, LEAST_SHARE * len(rewards)):
        yield Finding(
            "rewards_limited",
            f"{top} of {len(rewards)} rewards are equal to the largest: a limit hides what choices "
            "earn beyond, so no gain is said. Report what was measured before the limit, or raise "
            "it.",
        )
        return
    carried = CarriedErrors.of(rows, errors, score_weights(rows, predictor), rows.dim + 2)
    if carried is None:
        return
    whole = signal_of(carried.rows.contexts, predictor.theta, predictor.lag_weights)
    there = carried.rows.number > 0
    spread = float(whole[there].std())
    bend = carried.left((whole - whole[there].mean()) ** 2)
    beside = np.column_stack([carried.about, carried.past([*carried.rows.contexts.T])])
    # a curve of each choice's own score is no limit of their sum, where these can be told apart
    own = carried.past([(carried.rows.contexts @ predictor.theta) ** 2])
    both = np.column_stack([beside, own])
    if np.sum(less_beside(both, bend[:, None], bend)[0] ** 2) > APART * float(bend @ bend):
        beside = both
    clear, by = _bent(beside, bend, carried.errors)
    halves = zip(*(np.array_split(one, 2) for one in (beside, bend, carried.errors)), strict=True)
    each = min(float(np.sign(clear)) * _bent(*half)[0] for half in halves)
    bends = abs(by) * spread > LEAST_BEND
    if abs(clear) > -float(ndtri(CHANCE / 2.0)) and each > IN_EACH and bends:
        how = "less" if clear < 0.0 else "more"
        yield Finding(
            "rewards_limited",
            f"Rewards bend: the more is expected, the {how} a further choice adds, so no gain is "
            "said. Report rewards on a scale on which what choices pay adds up, as a "
            "logarithm or a rate, or raise the limit that they run into.",
        )


def _bent(beside: Floats, bend: Floats, target: Floats) -> tuple[float, float]:
    """Return how clearly a column explains the target, in White's errors, and its coefficient."""
    columns, errors, _ = less_beside(beside, bend[:, None], target)
    rest = columns[:, 0]
    along, white = float(rest @ errors), float(np.linalg.norm(rest * errors))
    return along / max(white, 1e-300), along / max(float(rest @ rest), 1e-300)
