"""Which form of the lag profiles decides: the best on unseen rows (docs/model.md 14).

The forms are "shared" (the rank-one model), and "sparse" and "smooth" profiles of each feature's
own. Shared profiles are the default belief.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from lhb_engine.design.scaling import Units
from lhb_engine.estimate import LagForm
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import HeldOut, Predictor

SHARED: LagForm = "shared"
DISCOUNT = 0.7  # of earlier errors, a fit
SURE = 1.0  # standard errors by which another form must have predicted better than the shared one
WORSE = 2.0  # standard errors by which a form that rests predicted worse


@dataclass(frozen=True)
class KnownForm:
    """A form's prediction from an earlier fit, and how well those before it did.

    `profiles` (n_lags, fitted_dim) is phi; `effects` (1 + n_covariates,) the baseline and the
    effects of the covariates; `autocorrelation` rho of its noise. `excess` is the discounted sum of
    its squared one-step errors less those of the shared form, in mean squares of the latter, and
    `variance` that of the sum: (14.4). `over_none` is the sum of its errors less those of no
    profiles at all. `rests_until` is the session's round up to which it need not be fitted again if
    it predicts clearly worse.
    """

    profiles: Floats
    effects: Floats
    autocorrelation: float
    excess: float = 0.0
    variance: float = 0.0
    over_none: float = 0.0
    rests_until: int = 0

    @property
    def is_worse(self) -> bool:
        """Whether it clearly predicted worse than shared profiles."""
        return self.excess > WORSE * float(np.sqrt(self.variance))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "KnownForm":
        """Return the form that `to_json` described."""
        profiles, effects = (np.array(data[name], np.float64) for name in ("profiles", "effects"))
        return cls(**{**data, "profiles": profiles, "effects": effects})

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        arrays = {"profiles": self.profiles.tolist(), "effects": self.effects.tolist()}
        return asdict(self) | arrays

    def in_units(self, units: Units) -> "KnownForm":
        """Return the form in scaled units; `Units.restore` is the inverse."""
        return replace(
            self,
            profiles=self.profiles * (units.contexts / units.rewards),
            effects=self.effects / units.rewards,
        )

    @property
    def predictor(self) -> Predictor:
        """The form as what predicts rewards."""
        none, about = np.zeros(self.profiles.shape[1]), (float(self.effects[0]), 0.0, 0, False)
        rho, others = self.autocorrelation, self.effects[1:]
        return Predictor(self.profiles, none, *about, autocorrelation=rho, effects=others)

    def judged(self, shared: "KnownForm", later: HeldOut) -> "KnownForm":
        """Return the form with its errors on rows that it has not seen, by (14.4).

        A form of an earlier fit than the shared one's has rested, and is not judged.
        """
        if self.rests_until != shared.rests_until or later.n_rows == 0:
            return self
        mine, nothing = self.predictor, replace(self, profiles=0.0 * self.profiles).predictor
        n, common = later.n_rows, shared.predictor
        mean = later.product(common, common)
        if mean <= 0.0:
            return self
        own, both = later.product(mine, mine) / mean, later.product(common, mine) / mean
        none = later.product(nothing, nothing) / mean
        return replace(
            self,
            excess=DISCOUNT * self.excess + n * (own - 1.0),
            over_none=DISCOUNT * self.over_none + n * (own - none),
            variance=DISCOUNT**2 * self.variance + 2.0 * n * max(1.0 + own**2 - 2.0 * both**2, 0.0),
        )


def best_form(known: Mapping[LagForm, KnownForm]) -> LagForm:
    """Return the form with the least errors, if it is surely better than the shared one.

    It has to be better than no effect at all, too: where there is none, shared profiles that were
    fitted to noise predict worst.
    """
    name = min(known, key=lambda name: known[name].excess, default=SHARED)
    best = known.get(name)
    if best is None or best.over_none >= 0.0 or best.excess > -SURE * np.sqrt(best.variance):
        return SHARED
    return name
