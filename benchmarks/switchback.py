"""How often the intervals of `lift` hold where blocks of slots take turns, and actions carry over.

An experiment is `DAYS` of hourly totals of everybody, with a day's season, errors that depend on
those of hours before, and an agent and a control that play by blocks. It is looked at every day.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lhb_engine.evaluation.batch_ratio import Refusal
from lhb_engine.evaluation.lift import GroupSums, lift
from lhb_engine.history import Floats

DAYS, HOURS, SHARE = 120, 24, 0.5
FIXED = 1.959964


@dataclass(frozen=True)
class BlockWorld:
    """A world of hourly totals.

    Attributes
    ----------
    name : str
    now, later : float
        What an action of the agent pays in its hour, and in the last hour of the horizon, more than
        one of control.
    horizon : int
        Number of lags.
    autocorrelation : float
        Of the errors from hour to hour.
    walk : float
        Standard deviation of a day's step of the rewards' random walk.
    burns_in : bool
        Whether a block's first hours, which still pay for the block before, are left out.
    """

    name: str
    now: float = 0.0
    later: float = 0.0
    horizon: int = 6
    autocorrelation: float = 0.8
    walk: float = 0.0
    burns_in: bool = True

    def experiment(self, n_users: int, seed: int) -> tuple[float, ...]:
        """Return what `LiftWorld.experiment` does; nothing is known of a past."""
        rng = np.random.default_rng([22, seed])
        size, n = 2 * self.horizon, DAYS * HOURS
        block = np.arange(n) // size
        is_agent = (rng.random(block[-1] + 1) >= SHARE)[block].astype(np.float64)
        totals = 10.0 + 2.0 * np.sin(2 * np.pi * np.arange(n) / HOURS) + self._errors(rng, n)
        totals += np.repeat(self.walk * rng.standard_normal(DAYS).cumsum(), HOURS)
        totals += self.now * is_agent
        lag = self.horizon - 1
        totals[lag:] += self.later * is_agent[: n - lag]
        counts = np.arange(n) % size >= lag if self.burns_in else np.ones(n, bool)
        whole = n // size
        rounds: Floats = np.bincount(block, counts)[:whole].astype(np.float64)
        rewards = np.bincount(block, totals * counts)[:whole]
        of_agent = is_agent[::size][:whole] == 1.0
        return self._looks(rounds, rewards.astype(np.float64), of_agent)

    def _errors(self, rng: np.random.Generator, n: int) -> Floats:
        errors = rng.standard_normal(n)
        step = np.sqrt(1.0 - self.autocorrelation**2)
        for t in range(1, n):
            errors[t] = self.autocorrelation * errors[t - 1] + step * errors[t]
        return errors

    def _looks(
        self, rounds: Floats, rewards: Floats, of_agent: NDArray[np.bool_]
    ) -> tuple[float, ...]:
        truth, planned = self.now + self.later, float(rounds.sum())
        always = fixed = last = True
        ratio = np.nan
        for day in range(1, DAYS + 1):
            seen = np.arange(len(rounds)) < day * HOURS // (2 * self.horizon)
            agent, control = (
                GroupSums.of(rounds[seen & group], rewards[seen & group])
                for group in (of_agent, ~of_agent)
            )
            found = lift(agent, control, planned)
            if isinstance(found, Refusal):
                continue
            last = bool(found.low <= truth <= found.high)
            always &= last
            fixed &= bool(abs(found.difference - truth) <= FIXED * found.standard_error)
            ratio = (found.high - found.low) / (2 * FIXED * found.standard_error)
        return float(always), float(last), float(fixed), ratio, 0.0, 0.0, 0.0


BLOCK_WORLDS = (
    BlockWorld("blocks: no effect"),
    BlockWorld("blocks: pays now, costs as much later", now=1.0, later=-1.0),
    BlockWorld("blocks: all of it later", later=0.5),
    BlockWorld("blocks: a random walk", now=1.0, later=-1.0, walk=0.2),
    BlockWorld("blocks: long errors", now=1.0, later=-1.0, autocorrelation=0.98),
    BlockWorld("blocks: no burn-in", now=1.0, later=-1.0, burns_in=False),
)
