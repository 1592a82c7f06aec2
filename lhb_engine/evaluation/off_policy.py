"""The mean reward of a policy, from a log that another policy has made (docs/evaluate.md).

Importance weights multiply probability ratios over the lags that pay, for a reward depends on the
actions at every one; the effective sample size falls geometrically with their number. The doubly
robust value is that of an estimate, corrected by the log, whose weights add over lags: their
variance grows with the number of lags and not exponentially.
"""

import numpy as np

from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.history import Floats, Ints

LEAST_EFFECTIVE = 30.0
MOST_UNSUPPORTED = 0.01  # share of the rounds
FAR_FROM_ONE = 0.1  # of the mean weight, beyond its interval


class Support:
    """What the log says of its own choices, and where it leaves out those of the policy.

    `is_uniform`: every logged propensity is that of uniform play.
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


def judged(
    interval: Interval, lags: tuple[int, ...], support: Support, weights: BatchRatio | None = None
) -> Interval | Refusal:
    """Return a value, or why there is none.

    No lag pays, the log does not say how it chose, the value rests on too little, or the mean of
    `weights` is clearly not 1, as it is in expectation.
    """
    why = support.refusal() if lags else "no lag is known to pay: nothing to weigh"
    if not why and interval.effective < LEAST_EFFECTIVE:
        why = (
            f"effective sample size {interval.effective:.1f}, below {LEAST_EFFECTIVE:.0f}: "
            f"the agent and the log agree too rarely over lags {list(lags)}"
        )
    if not why and weights is not None:
        mean = weights.interval()
        if not (mean.low <= 1 + FAR_FROM_ONE and mean.high >= 1 - FAR_FROM_ONE):
            why = (
                f"the weights average {mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}], not 1: "
                "the propensities are wrong, or the log never takes some of the agent's arms"
            )
    return Refusal(why) if why else interval


class ImportanceWeights:
    """Self-normalised importance weights over the lags that pay, and replay for lag 0 alone.

    A value is refused, with the reason, where the log cannot support it: without propensities,
    where the policy takes arms that the log never does, or where weights do not average to 1, as
    they do in expectation if the propensities are true and every arm had a chance.
    """

    def __init__(self, lags: tuple[int, ...], support: Support) -> None:
        self.lags = lags
        self._support = support
        self._weighted, self._agree = BatchRatio(), BatchRatio()
        self._mean_weight = BatchRatio()

    def add(self, rewards: Floats, ratios: Floats, chances: Floats, batches: Ints) -> None:
        """Add rounds; rewards are NaN where missing.

        `ratios` (n, n_lags) are the probability of the arm under the policy over that of the log,
        at each of `lags` before, NaN where it is not known; `chances` (n,) those of the round's own
        arm under the policy.
        """
        if not self.lags:
            return
        weights = ratios.prod(axis=1)
        usable = np.isfinite(rewards) & np.isfinite(weights)
        rewards, weights, batches = rewards[usable], weights[usable], batches[usable]
        self._weighted.add(weights * rewards, weights, batches)
        self._mean_weight.add(weights, np.ones(len(weights)), batches)
        agree = chances[usable]  # a tie agrees in part
        self._agree.add(agree * rewards, agree, batches)

    def weighted(self) -> Interval | Refusal:
        """Return the mean reward by self-normalised importance weights."""
        return judged(self._weighted.interval(), self.lags, self._support, self._mean_weight)

    def replay(self) -> Interval | Refusal:
        """Return the mean reward where the policy agrees with a uniform log (Li et al. 2011)."""
        if self.lags not in ((), (0,)):
            return Refusal(f"lags {list(self.lags)} pay: a reward is not its own round's alone")
        if self.lags and not self._support.refusal() and not self._support.is_uniform:
            return Refusal("the log was not made by uniform play")
        return judged(self._agree.interval(), self.lags, self._support)


class DoublyRobust:
    """The doubly robust value of a policy, and what it gains over the log.

    `value` is the mean of d_t over the rounds whose reward and weights are known.
    """

    def __init__(self, lags: tuple[int, ...], support: Support) -> None:
        self.lags = lags
        self.value = BatchRatio()
        self._support = support
        self._log, self._weights = BatchRatio(), BatchRatio()
        self._sum = self._squares = 0.0  # of the weights

    def add(
        self, rewards: Floats, expected: Floats, change: Floats, ratios: Floats, batches: Ints
    ) -> None:
        """Add rounds; rewards are NaN where missing, `ratios` as in `ImportanceWeights.add`.

        `expected` (n,) is what an earlier estimate expects of these rewards, `change` (n,) what it
        expects to change where the policy chooses at these lags.
        """
        weights = 1.0 + (ratios - 1.0).sum(axis=1)
        usable = np.isfinite(rewards) & np.isfinite(weights)
        rewards, weights, batches = rewards[usable], weights[usable], batches[usable]
        ones = np.ones(len(rewards))
        robust = expected[usable] + change[usable] + weights * (rewards - expected[usable])
        self.value.add(robust, ones, batches)
        self._log.add(rewards, ones, batches)
        self._weights.add(weights, ones, batches)
        self._sum += float(weights.sum())
        self._squares += float((weights**2).sum())

    def robust(self) -> Interval | Refusal:
        """Return the policy's mean reward a round."""
        return self._judged(self.value.interval())

    def gain(self) -> Interval | Refusal:
        """Return the policy's mean reward less that of the log, on the same rounds."""
        return self._judged(self.value.less(self._log))

    def over(self, other: "DoublyRobust") -> Interval | Refusal:
        """Return the policy's mean reward less that of another on the same log and lags."""
        value, theirs = self._judged(self.value.less(other.value)), other.robust()
        return value if isinstance(value, Refusal) or isinstance(theirs, Interval) else theirs

    def _judged(self, interval: Interval) -> Interval | Refusal:
        """Judge an interval with the effective sample size of the weights."""
        effective = self._sum**2 / self._squares if self._squares else 0.0
        interval = Interval(interval.value, interval.low, interval.high, effective)
        return judged(interval, self.lags, self._support, self._weights)
