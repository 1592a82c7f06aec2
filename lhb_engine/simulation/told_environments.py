"""Worlds in which a number that comes with each round moves its reward, whatever is chosen."""

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment

_WEATHER = 6  # number of its stream


class Weather(LongHorizonEnvironment):
    """Rewards grow by `effect` times a number from -1 to 1 that is drawn anew for each round.

    Attributes
    ----------
    effect : float
        In units of the reward, like the largest effect of an arm, which is 1.
    """

    effect = 1.0

    def covariates(self, first: int, last: int) -> Floats:
        """Return the numbers of rounds first..last, (n, 1)."""
        return 2.0 * self._uniform(_WEATHER, first, (last - first + 1, 1)) - 1.0

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards, and what the weather adds."""
        numbers = self.covariates(first, len(signals))[:, 0]
        return np.asarray(super().rewards(signals, first) + self.effect * numbers)


def with_weather(effect: float) -> type[Weather]:
    """Return the kind of world whose weather has this effect."""
    return type("Weather", (Weather,), {"effect": effect})


class WeatherOfThree(Weather):
    """The weather moves rewards three times as far as an arm can."""

    effect = 3.0
