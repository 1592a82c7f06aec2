"""Whether a log can speak for a policy that did not make it."""

import numpy as np

from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.history import Floats

LEAST_EFFECTIVE = 30.0
MOST_UNSUPPORTED = 0.01  # share of the rounds
FAR_FROM_ONE = 0.1  # of the mean weight, beyond its interval


class Support:
    """What the log says of its own choices, and where it leaves out those of the policy.

    Attributes
    ----------
    is_uniform : bool
        Every logged propensity is that of uniform play.
    """

    def __init__(self) -> None:
        self.is_uniform = True
        self._n_rounds = self._n_unsupported = 0
        self._has_contexts = self._has_propensities = False

    def add(self, chances: Floats, propensities: Floats, n_arms: int) -> None:
        """Add rounds: the policy's and the log's probabilities of the logged arms, (n,) each.

        NaN where one is not known.
        """
        self._has_contexts |= bool(np.isfinite(chances).any())
        usable = np.isfinite(chances) & np.isfinite(propensities)
        if not usable.any():
            return
        self._has_propensities = True
        chances, propensities = chances[usable], propensities[usable]
        self._n_rounds += len(chances)
        # an arm taken with probability 1 leaves none for the others
        self._n_unsupported += int(((propensities >= 1.0) & (chances < 1.0)).sum())
        self.is_uniform &= bool(np.allclose(propensities, 1 / max(n_arms, 1)))

    def refusal(self) -> str:
        """Why no weight is known, or none is to be trusted; empty where there is no reason."""
        if not self._has_contexts:
            return "the log must hold the contexts of all arms and the arm taken"
        if not self._has_propensities:
            return "the log holds no logging propensities"
        if self._n_unsupported > MOST_UNSUPPORTED * self._n_rounds:
            return (
                f"in {self._n_unsupported} of {self._n_rounds} rounds the log took its arm with "
                "propensity 1, where the agent may take another: the log says nothing of that"
            )
        return ""


def off_balance(weights: BatchRatio) -> Refusal | None:
    """Refuse where the mean weight is clearly not 1, as it is in expectation."""
    mean = weights.interval()
    if mean.low <= 1 + FAR_FROM_ONE and mean.high >= 1 - FAR_FROM_ONE:
        return None
    return Refusal(
        f"the weights average {mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}], not 1: "
        "the propensities are wrong, or the log never takes some of the agent's arms"
    )


def supported(found: Interval, lags: tuple[int, ...]) -> Interval | Refusal:
    """Refuse a value that rests on too little."""
    if found.effective < LEAST_EFFECTIVE:
        return Refusal(
            f"effective sample size {found.effective:.1f}, below {LEAST_EFFECTIVE:.0f}: "
            f"the agent and the log agree too rarely over lags {list(lags)}"
        )
    return found
