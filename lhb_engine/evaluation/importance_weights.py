"""What a policy would have earned, from a log that another has made: importance weights.

A reward depends on the actions of every lag that pays, so its weight is the product of their
ratios, and the effective sample size falls geometrically with the number of lags.
"""

import numpy as np

from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.history import Floats

LEAST_EFFECTIVE = 30.0


class ImportanceWeights:
    """Self-normalised weights over the lags that pay, and replay where lag 0 alone does.

    Parameters
    ----------
    lags : tuple of int
        The lags that are taken to pay.
    batch : int
        Rounds of one batch of the intervals.
    """

    def __init__(self, lags: tuple[int, ...], batch: int) -> None:
        self.lags = lags
        self._reach = max(lags, default=0)
        self._before: Floats = np.ones(self._reach)  # ratios of the rounds before the next block
        self._weighted, self._agree = BatchRatio(batch), BatchRatio(batch)
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
        """Rounds from `first`: rewards (NaN: missing), P(arm) under the policy and the log."""
        if not self.lags:
            return
        if not np.isfinite(chances).all():
            self._refuse("the log must hold the contexts of all arms and the arm taken")
            return
        if propensities is None or not np.isfinite(propensities).all():
            self._refuse("the log holds no logging propensities")
            return
        n = len(rewards)
        ratios = np.concatenate([self._before, chances / propensities])
        weights = np.ones(n)
        for lag in self.lags:
            weights = weights * ratios[self._reach - lag : self._reach - lag + n]
        self._before = ratios[len(ratios) - self._reach :]
        known = np.isfinite(rewards)
        rounds = np.arange(first, first + n)[known]
        self._weighted.add(weights[known] * rewards[known], weights[known], rounds)
        if not np.allclose(propensities, 1 / n_arms):
            self._why_replay = self._why_replay or "the log was not made by uniform play"
        agree = chances[known]  # a tie agrees in part
        self._agree.add(agree * rewards[known], agree, rounds)

    def weighted(self) -> Interval | Refusal:
        """Mean reward by self-normalised importance weights."""
        return self._value(self._weighted, self._why_weighted)

    def replay(self) -> Interval | Refusal:
        """Mean reward where the policy agrees with a uniform log (Li et al. 2011)."""
        return self._value(self._agree, self._why_replay)

    def _refuse(self, why: str) -> None:
        self._why_weighted = self._why_weighted or why
        self._why_replay = self._why_replay or why

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
