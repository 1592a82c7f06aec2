"""Units of a fit: contexts and rewards are scaled to about 1, and results are scaled back.

The factors are powers of two, so scaling is exact: a change of units changes no decision, and no
sum overflows.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from lhb_engine.estimate import Estimate, LagForm
from lhb_engine.history import Floats

if TYPE_CHECKING:
    from lhb_engine.design.aligned_rounds import AlignedRounds
    from lhb_engine.design.fit_rows import FitRows
    from lhb_engine.design.moments import SquareSums

Rows = TypeVar("Rows", "AlignedRounds", "SquareSums")

# units as powers of those of rewards and contexts; that of lag weights, of their square, of lam
REWARD, WEIGHT, SQUARE, PENALTY = (1, 0), (1, -1), (2, -2), (1, 1)
# the units of an estimate's members, and of the members of these
UNITS: dict[str, Any] = {
    "lam": PENALTY,
    "lambda_max": PENALTY,
    "sigma_hat": REWARD,
    "intercept": REWARD,
    "intervals": {
        "lag_weights": WEIGHT,
        "lag_profiles": WEIGHT,
        "lag_sums": WEIGHT,
        "effects": REWARD,
    },
    "gain": dict.fromkeys(("over_chance", "over_best_arm", "still_to_gain"), REWARD),
    "totals": {"values": WEIGHT, "squares": SQUARE},
    "effects": {"values": REWARD},
    "levels": {"spread": REWARD, "interval": REWARD},
    "own": {"noise": REWARD},
    "forms": {form: {"profiles": WEIGHT, "effects": REWARD} for form in get_args(LagForm)},
}
# those of standard errors
ERROR_UNITS = {"sigma": REWARD, "lag_weights": WEIGHT, "lag_weights_error": WEIGHT}
LEAST_CONTEXT = 1e-100  # in these units: squares of smaller ones are 0
OUT_OF_RANGE = "Rewards and contexts are so far apart in size that no number holds a lag weight."


def power_of_two(values: Floats) -> float:
    """Return the power of two just above max |values|; 1 where all are 0."""
    largest = float(np.abs(values).max(initial=0.0))
    return float(2.0 ** np.clip(np.frexp(largest)[1], -1000, 1000)) if largest > 0 else 1.0


@dataclass(frozen=True)
class Units:
    """The factors by which contexts and rewards were divided, both powers of two."""

    contexts: float
    rewards: float
    offset: float = 0.0  # taken from the rewards of a round before, in the user's units

    def of(self, rows: Rows) -> Rows:
        """Convert rows, or sums of them, to these units."""
        return rows.divided(np.full(rows.dim, self.contexts), self.rewards)

    def restore(self, estimate: Estimate) -> Estimate:
        """Convert an estimate from these units to the user's.

        What has a number beyond a float's range becomes None. If a lag weight, or all of them, are
        beyond it, the estimate becomes "insufficient_data".
        """
        data = {name: self.restored(getattr(estimate, name), unit) for name, unit in UNITS.items()}
        weights, profiles = self.weights(estimate.lag_weights), estimate.lag_profiles
        profiles = None if profiles is None else self.weights(profiles)
        if self.offset and data["intercept"] is not None:
            data["intercept"] += self.offset
            for form in (data["forms"] or {}).values():
                form["effects"][0] += self.offset
        scaled = replace(estimate, lag_weights=weights, lag_profiles=profiles, **data)
        whole = weights if profiles is None else profiles
        held = np.abs(whole).max(initial=0.0) >= np.finfo(float).tiny or not estimate.pays.any()
        if held and np.isfinite(weights).all() and np.isfinite(whole).all():
            return scaled
        return scaled.without_direction("insufficient_data", OUT_OF_RANGE)

    def weights(self, weights: Floats) -> Floats:
        """Convert lag weights to the user's units."""
        with np.errstate(over="ignore", invalid="ignore"):
            return weights * (self.rewards / self.contexts)

    def restored(self, value: Any, unit: Any) -> Any:
        """Convert JSON to the user's units, by a unit or those of its members; see `UNITS`.

        None where a number is beyond a float's range.
        """
        try:
            return self._restored(value, unit)
        except OverflowError:
            return None

    def _restored(self, value: Any, unit: Any) -> Any:
        if value is None:
            return None
        if isinstance(unit, dict):
            return value | {n: self._restored(value[n], unit[n]) for n in value if n in unit}
        if isinstance(value, dict):
            return {name: self._restored(one, unit) for name, one in value.items()}
        if isinstance(value, list):
            return [self._restored(one, unit) for one in value]
        power, of_contexts = unit
        number = value * (self.rewards**power * self.contexts**of_contexts)
        if not isfinite(number):
            raise OverflowError
        return number


def in_units(rows: "FitRows") -> tuple["FitRows", Units]:
    """Scale rows so that all contexts and values are within [-1, 1]; return the factors too."""
    units = Units(power_of_two(rows.design.contexts), power_of_two(rows.y))
    design = rows.design.scaled(np.full(rows.design.dim, 1.0 / units.contexts))
    return replace(rows, design=design, y=rows.y / units.rewards), units
