"""Which form of the lag profiles decides: the best on unseen rows (docs/model.md 14).

The forms are "shared" (the rank-one model), and "sparse" and "smooth" profiles of each feature's
own. Shared profiles are the default belief.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lhb_engine.design.level_sums import RowLevels
from lhb_engine.design.moments import Moments, SquareSums
from lhb_engine.design.scaling import Units
from lhb_engine.estimate import LagForm
from lhb_engine.history import Floats
from lhb_engine.posterior.later_moments import coefficients

SHARED: LagForm = "shared"
DISCOUNT = 0.7  # of earlier errors, a fit
SURE = 1.0  # standard errors by which another form must have predicted better than the shared one


@dataclass(frozen=True)
class KnownForm:
    """A form's prediction from an earlier fit, and how well those before it did.

    `profiles` (n_lags, fitted_dim) is phi; `effects` (1 + n_covariates,) the baseline and the
    effects of the covariates; `autocorrelation` rho of its noise. `excess` is the discounted sum of
    its squared one-step errors less those of the shared form, in mean squares of the latter, and
    `variance` that of the sum: (14.4).
    """

    profiles: Floats
    effects: Floats
    autocorrelation: float
    excess: float = 0.0
    variance: float = 0.0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "KnownForm":
        """Return the form that `to_json` described."""
        profiles, effects = (np.array(data[name], np.float64) for name in ("profiles", "effects"))
        return cls(**{**data, "profiles": profiles, "effects": effects})

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "profiles": self.profiles.tolist(),
            "effects": self.effects.tolist(),
            "autocorrelation": self.autocorrelation,
            "excess": self.excess,
            "variance": self.variance,
        }

    def in_units(self, units: Units) -> "KnownForm":
        """Return the form in scaled units; `Units.restore` is the inverse."""
        return replace(
            self,
            profiles=self.profiles * (units.contexts / units.rewards),
            effects=self.effects / units.rewards,
        )

    def judged(self, shared: "KnownForm", later: SquareSums | RowLevels) -> "KnownForm":
        """Return the form with its errors on rows that it has not seen, by (14.4)."""
        n = later.n_rows
        mean = _product(shared, shared, later)
        if n == 0 or mean <= 0.0:
            return self
        own, both = _product(self, self, later) / mean, _product(self, shared, later) / mean
        return replace(
            self,
            excess=DISCOUNT * self.excess + n * (own - 1.0),
            variance=DISCOUNT**2 * self.variance + 2.0 * n * max(1.0 + own**2 - 2.0 * both**2, 0.0),
        )


def best_form(known: Mapping[LagForm, KnownForm]) -> LagForm:
    """Return the form with the least errors, if it is surely better than the shared one."""
    name = min(known, key=lambda name: known[name].excess, default=SHARED)
    if name == SHARED or known[name].excess > -SURE * np.sqrt(known[name].variance):
        return SHARED
    return name


def _product(one: KnownForm, other: KnownForm, later: SquareSums | RowLevels) -> float:
    """Return the sum of the products of the one-step errors of two forms."""
    none = np.zeros(one.profiles.shape[1])
    by = np.array([coefficients(none, f.profiles, f.effects, later.n_lags) for f in (one, other)])
    if isinstance(later, Moments):
        rows = later.whitened(one.autocorrelation, other.autocorrelation)
    else:
        rows = later.whitened(other.autocorrelation)
    return float(rows.residual_products(by)[0, 1])
