"""Worlds in which some features have lag profiles of their own, for boards."""

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.simulation.environment import ProfileEnvironment


class Clickbait(ProfileEnvironment):
    """The first feature pays 1 at once and costs 1.6 over the next eight rounds."""

    @classmethod
    def profiles_of(cls, theta: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
        """Return the plain world's profiles but for the first feature's."""
        profiles = np.outer(weights, theta)
        profiles[:, 0] = 0.0
        profiles[0, 0], profiles[1:9, 0] = 1.0, -0.2
        return profiles


class SmoothClickbait(ProfileEnvironment):
    """The same where all profiles are smooth: others fade, and what the first costs, too."""

    @classmethod
    def profiles_of(cls, theta: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
        """Return profiles that fade by 0.8 a lag; the first feature costs from lag 3 on."""
        lags = np.arange(len(weights))
        fading = 0.8**lags
        profiles = np.outer(fading / fading.sum(), theta)
        at_once, later = 0.6**lags, lags**2 * 0.7**lags
        profiles[:, 0] = at_once / at_once.sum() - 1.6 * later / later.sum()
        return profiles


class Mismatch(ProfileEnvironment):
    """A second direction pays at other lags, by `share` of what the first pays.

    Attributes
    ----------
    share : float
        The second singular value of the profiles over the first.
    """

    share = 0.0

    @classmethod
    def profiles_of(cls, theta: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
        """Return the plain world's profiles, and those of the second direction."""
        aside = rng.standard_normal(len(theta))
        aside -= float(aside @ theta) * theta
        aside /= np.linalg.norm(aside)
        active = np.flatnonzero(weights)
        others = np.zeros_like(weights)
        free = np.flatnonzero(weights == 0)
        others[rng.choice(free, len(active), replace=False)] = weights[active]
        return np.outer(weights, theta) + cls.share * np.outer(others, aside)


def with_mismatch(share: float) -> type[Mismatch]:
    """Return the kind of world whose profiles have this second singular value over the first."""
    return type("Mismatch", (Mismatch,), {"share": share})
