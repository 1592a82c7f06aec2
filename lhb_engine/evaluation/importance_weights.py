"""The mean reward of a policy, from a log that another policy has made: importance weights.

A reward depends on the actions at every lag that pays, so its weight is the product of their
probability ratios. The effective sample size falls geometrically with the number of such lags.
"""

import numpy as np

from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.history import Floats

LEAST_EFFECTIVE = 30.0
MOST_UNSUPPORTED = 0.01  # share of the rounds
FAR_FROM_ONE = 0.1  # of the mean weight, beyond its interval


class ImportanceWeights:
    """Self-normalised importance weights over the lags that pay, and replay for lag 0 alone.

    A value is refused, with the reason, where the log cannot support it: without propensities,
    where the policy takes arms that the log never does, or where weights do not average to 1, as
    they do in expectation if the propensities are true and every arm had a chance.

    Parameters
    ----------
    lags : tuple of int
        Lags that are taken to pay, in order.
    batch : int
        Rounds of one batch of the intervals.
    """

    def __init__(self, lags: tuple[int, ...], batch: int) -> None:
        self.lags = lags
        self._reach = max(lags, default=0)
        self._before: Floats = np.ones(self._reach)  # ratios of the rounds before the next block
        self._weighted, self._agree = BatchRatio(batch), BatchRatio(batch)
        self._mean_weight = BatchRatio(batch)
        self._n_rounds = self._n_unsupported = 0
        self._why_weighted = self._why_replay = ""
        if not lags:
            self._why_weighted = self._why_replay = "no lag is known to pay: nothing to weigh"
        elif lags != (0,):
            self._why_replay = f"lags {list(lags)} pay: a reward is not its own round's alone"

    def add(
        self,
        first: int,
        rewards: Floats,
        chances: Floats,
        propensities: Floats | None,
        n_arms: int,
    ) -> None:
        """Add consecutive rounds.

        Parameters
        ----------
        first : int
            Number of the first round.
        rewards : (n,) array
            NaN where missing.
        chances : (n,) array
            Probability of the logged arm under the policy; NaN where it is not known.
        propensities : (n,) array or None
            Probability of the logged arm under the logging policy.
        n_arms : int
        """
        if not self.lags:
            return
        if not np.isfinite(chances).all():
            self._refuse("the log must hold the contexts of all arms and the arm taken")
            return
        if propensities is None or not np.isfinite(propensities).all():
            self._refuse("the log holds no logging propensities")
            return
        n = len(rewards)
        self._n_rounds += n
        # an arm taken with probability 1 leaves none for the others
        self._n_unsupported += int(((propensities >= 1.0) & (chances < 1.0)).sum())
        ratios = np.concatenate([self._before, chances / propensities])
        weights = np.ones(n)
        for lag in self.lags:
            weights = weights * ratios[self._reach - lag : self._reach - lag + n]
        self._before = ratios[len(ratios) - self._reach :]
        known = np.isfinite(rewards)
        rounds = np.arange(first, first + n)[known]
        self._weighted.add(weights[known] * rewards[known], weights[known], rounds)
        self._mean_weight.add(weights[known], np.ones(len(rounds)), rounds)
        if not np.allclose(propensities, 1 / n_arms):
            self._why_replay = self._why_replay or "the log was not made by uniform play"
        agree = chances[known]  # a tie agrees in part
        self._agree.add(agree * rewards[known], agree, rounds)

    def weighted(self) -> Interval | Refusal:
        """Return the mean reward by self-normalised importance weights."""
        found = self._value(self._weighted, self._why_weighted or self._unsupported())
        return found if isinstance(found, Refusal) else self._off_balance() or found

    def replay(self) -> Interval | Refusal:
        """Return the mean reward where the policy agrees with a uniform log (Li et al. 2011)."""
        return self._value(self._agree, self._why_replay)

    def _refuse(self, why: str) -> None:
        self._why_weighted = self._why_weighted or why
        self._why_replay = self._why_replay or why

    def _unsupported(self) -> str:
        """Why the log leaves out arms of the policy; empty where it does not."""
        if self._n_unsupported <= MOST_UNSUPPORTED * self._n_rounds:
            return ""
        return (
            f"in {self._n_unsupported} of {self._n_rounds} rounds the log took its arm with "
            "propensity 1, where the agent may take another: the log says nothing of that"
        )

    def _off_balance(self) -> Refusal | None:
        """Refuse where the mean weight is clearly not 1."""
        mean = self._mean_weight.interval()
        if mean.low <= 1 + FAR_FROM_ONE and mean.high >= 1 - FAR_FROM_ONE:
            return None
        return Refusal(
            f"the weights average {mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}], not 1: "
            "the propensities are wrong, or the log never takes some of the agent's arms"
        )

    def _value(self, ratio: BatchRatio, why: str) -> Interval | Refusal:
        if why:
            return Refusal(why)
        found = ratio.interval()
        if found.effective < LEAST_EFFECTIVE:
            return Refusal(
                f"effective sample size {found.effective:.1f}, below {LEAST_EFFECTIVE:.0f}: "
                f"the agent and the log agree too rarely over lags {list(self.lags)}"
            )
        return found
