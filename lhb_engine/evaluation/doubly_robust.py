"""The mean reward of a policy by an estimate, corrected by a log that another policy has made.

Rewards are taken to add up over lags, r_t = sum_k f_k(t-k) + noise, where f_k(s) depends on the
choice of round s. Then the policy's mean reward is that of

    d_t = r^_t + sum_k w_k <x~_{t-k}, theta> + (1 + sum_k (rho_{t-k} - 1)) (r_t - r^_t)

with the sums over the lags that pay: r^ is what an estimate made before round t expects of the
log's choices, x~_s the context that the policy expects to choose in round s less the chosen one,
and rho_s the policy's probability of the logged arm over the log's. With true propensities the mean
is right whatever the estimate; a good estimate makes it narrow. Weights add over lags rather than
multiply, so that their variance grows with the number of lags and not exponentially.
"""

import numpy as np

from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.evaluation.support import Support, off_balance, supported
from lhb_engine.history import Floats, Ints


class DoublyRobust:
    """The doubly robust value of a policy, and what it gains over the log.

    Parameters
    ----------
    lags : tuple of int
        Lags that are taken to pay, in order.
    support : Support
        What the log says of its own choices.

    Attributes
    ----------
    value : BatchRatio
        Mean of d_t over the rounds whose reward and weights are known.
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
        """Add rounds.

        Parameters
        ----------
        rewards : (n,) array
            NaN where missing.
        expected : (n,) array
            What an earlier estimate expects of these rewards.
        change : (n,) array
            What it expects to change where the policy chooses at these lags.
        ratios : (n, n_lags) array
            Probability of the arm under the policy over that of the log, at each of `lags` before;
            NaN where it is not known.
        batches : (n,) array
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
        return self._refusal() or self._weighed(self.value.interval())

    def gain(self) -> Interval | Refusal:
        """Return the policy's mean reward less that of the log, on the same rounds."""
        return self._refusal() or self._weighed(self.value.less(self._log))

    def over(self, other: "DoublyRobust") -> Interval | Refusal:
        """Return the policy's mean reward less that of another on the same log and lags."""
        refused = self._refusal() or other._refusal()
        return refused or self._weighed(self.value.less(other.value))

    def _refusal(self) -> Refusal | None:
        if not self.lags:
            return Refusal("no lag is known to pay: nothing to weigh")
        why = self._support.refusal()
        if why:
            return Refusal(why)
        interval = supported(self._weighed(self.value.interval()), self.lags)
        return interval if isinstance(interval, Refusal) else off_balance(self._weights)

    def _weighed(self, found: Interval) -> Interval:
        """Return an interval with the effective sample size of the weights."""
        effective = self._sum**2 / self._squares if self._squares else 0.0
        return Interval(found.value, found.low, found.high, effective)
