"""The mean reward of a policy, from a log that another policy has made: importance weights.

A reward depends on the actions at every lag that pays, so its weight is the product of their
probability ratios. The effective sample size falls geometrically with the number of such lags.
"""

import numpy as np

from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.evaluation.support import Support, off_balance, supported
from lhb_engine.history import Floats, Ints


class ImportanceWeights:
    """Self-normalised importance weights over the lags that pay, and replay for lag 0 alone.

    A value is refused, with the reason, where the log cannot support it: without propensities,
    where the policy takes arms that the log never does, or where weights do not average to 1, as
    they do in expectation if the propensities are true and every arm had a chance.

    Parameters
    ----------
    lags : tuple of int
        Lags that are taken to pay, in order.
    support : Support
        What the log says of its own choices.
    """

    def __init__(self, lags: tuple[int, ...], support: Support) -> None:
        self.lags = lags
        self._support = support
        self._weighted, self._agree = BatchRatio(), BatchRatio()
        self._mean_weight = BatchRatio()

    def add(self, rewards: Floats, ratios: Floats, chances: Floats, batches: Ints) -> None:
        """Add rounds.

        Parameters
        ----------
        rewards : (n,) array
            NaN where missing.
        ratios : (n, n_lags) array
            Probability of the arm under the policy over that of the log, at each of `lags` before;
            NaN where it is not known.
        chances : (n,) array
            Probability of the round's own arm under the policy.
        batches : (n,) array
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
        why = self._no_lags() or self._support.refusal()
        if why:
            return Refusal(why)
        interval = supported(self._weighted.interval(), self.lags)
        return (
            interval
            if isinstance(interval, Refusal)
            else off_balance(self._mean_weight) or interval
        )

    def replay(self) -> Interval | Refusal:
        """Return the mean reward where the policy agrees with a uniform log (Li et al. 2011)."""
        why = self._no_lags()
        if not why and self.lags != (0,):
            why = f"lags {list(self.lags)} pay: a reward is not its own round's alone"
        why = why or self._support.refusal()
        if not why and not self._support.is_uniform:
            why = "the log was not made by uniform play"
        return Refusal(why) if why else supported(self._agree.interval(), self.lags)

    def _no_lags(self) -> str:
        return "" if self.lags else "no lag is known to pay: nothing to weigh"
