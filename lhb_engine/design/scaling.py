"""Units of a fit: contexts and rewards are scaled to about 1, and results are scaled back.

The factors are powers of two, so scaling is exact: a change of units changes no decision, and no
sum overflows.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lhb_engine.estimate import Estimate, LagForm
from lhb_engine.history import Floats

if TYPE_CHECKING:
    from lhb_engine.design.aligned_rounds import AlignedRounds
    from lhb_engine.design.fit_rows import FitRows
    from lhb_engine.design.moments import SquareSums

Rows = TypeVar("Rows", "AlignedRounds", "SquareSums")

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

    def of(self, rows: Rows) -> Rows:
        """Convert rows, or sums of them, to these units."""
        return rows.divided(np.full(rows.dim, self.contexts), self.rewards)

    def restore(self, estimate: Estimate) -> Estimate:
        """Convert an estimate from these units to the user's.

        Numbers beyond a float's range become None. If a lag weight is beyond it, the estimate
        becomes "insufficient_data".
        """
        lam = self.rewards * self.contexts
        scaled = replace(
            estimate,
            lam=_times(estimate.lam, lam),
            lambda_max=_times(estimate.lambda_max, lam),
            sigma_hat=_times(estimate.sigma_hat, self.rewards),
            intercept=_times(estimate.intercept, self.rewards),
            intervals=self._intervals(estimate.intervals),
            gain=self._gain(estimate.gain),
            totals=self._totals(estimate.totals),
            effects=self._effects(estimate.effects),
            levels=self._levels(estimate.levels),
            own=estimate.own and {**estimate.own, "noise": estimate.own["noise"] * self.rewards},
            forms=self._forms(estimate.forms),
        )
        weights = self.weights(estimate.lag_weights)
        profiles = estimate.lag_profiles
        if profiles is not None:
            profiles = self.weights(profiles)
        if np.isfinite(weights).all() and (profiles is None or np.isfinite(profiles).all()):
            return replace(scaled, lag_weights=weights, lag_profiles=profiles)
        return replace(
            scaled,
            status="insufficient_data",
            theta=None,
            lag_weights=np.zeros(len(weights)),
            active_lags=(),
            candidates=None,
            intervals=None,
            gain=None,
            totals=None,
            form=None,
            lag_profiles=None,
            forms=None,
            message=OUT_OF_RANGE,
        )

    def weights(self, weights: Floats) -> Floats:
        """Convert lag weights to the user's units."""
        with np.errstate(over="ignore", invalid="ignore"):
            return weights * (self.rewards / self.contexts)

    def _intervals(self, intervals: dict[str, Any] | None) -> dict[str, Any] | None:
        """Convert intervals to the user's units; None where one overflows."""
        if intervals is None:
            return None
        unknown = [np.nan, np.nan]
        bounds = np.array([w or unknown for w in intervals["lag_weights"]]).reshape(-1, 2)
        weights = self.weights(bounds)
        if np.isinf(weights).any():
            return None
        shown = [None if np.isnan(w[0]) else w.tolist() for w in weights]
        effects = np.array(intervals.get("effects", [])) * self.rewards
        others = {"effects": effects.tolist()} if len(effects) else {}
        for name in {"lag_profiles", "lag_sums"} & intervals.keys():
            others[name] = self.weights(np.array(intervals[name])).tolist()
        return intervals | {"lag_weights": shown} | others

    def _gain(self, gain: dict[str, Any] | None) -> dict[str, Any] | None:
        """Convert what choices earn to the user's units; None where a number overflows."""
        earned = {
            name: {end: number * self.rewards for end, number in one.items()}
            for name, one in (gain or {}).items()
            if isinstance(one, dict)
        }
        is_finite = np.isfinite([*map(list, map(dict.values, earned.values()))]).all()
        return gain and gain | earned if is_finite else None

    def _totals(self, totals: dict[str, Any] | None) -> dict[str, Any] | None:
        """Convert what actions pay in all to the user's units; None where a number overflows."""
        if totals is None:
            return None
        values = self.weights(np.array(totals["values"]))
        squares = self.weights(self.weights(np.array(totals["squares"])))
        if not (np.isfinite(values).all() and np.isfinite(squares).all()):
            return None
        return totals | {"values": values.tolist(), "squares": squares.tolist()}

    def _effects(self, effects: dict[str, Any] | None) -> dict[str, Any] | None:
        """Convert the effects of covariates to the user's units."""
        if effects is None:
            return None
        return effects | {"values": (np.array(effects["values"]) * self.rewards).tolist()}

    def _levels(self, levels: dict[str, Any] | None) -> dict[str, Any] | None:
        """Convert the spread of levels to the user's units."""
        if levels is None:
            return None
        interval = [end * self.rewards for end in levels["interval"]]
        return {"spread": levels["spread"] * self.rewards, "interval": interval}

    def _forms(self, forms: dict[LagForm, Any] | None) -> dict[LagForm, Any] | None:
        """Convert the forms of lag profiles to the user's units; None where one overflows."""
        out = {}
        for name, form in (forms or {}).items():
            profiles = self.weights(np.array(form["profiles"]))
            if not np.isfinite(profiles).all():
                return None
            effects = np.array(form["effects"]) * self.rewards
            out[name] = form | {"profiles": profiles.tolist(), "effects": effects.tolist()}
        return out or None

    def restore_errors(self, errors: dict[str, Any]) -> dict[str, Any] | None:
        """Convert standard errors to the user's units; None where one overflows."""
        out = {**errors, "sigma": errors["sigma"] * self.rewards}
        for name in ("lag_weights", "lag_weights_error"):
            out[name] = self.weights(np.array(errors[name])).tolist()
        numbers = [out["sigma"], *out["lag_weights"], *out["lag_weights_error"]]
        return out if np.isfinite(numbers).all() else None


def in_units(rows: "FitRows") -> tuple["FitRows", Units]:
    """Scale rows so that all contexts and values are within [-1, 1]; return the factors too."""
    units = Units(power_of_two(rows.design.contexts), power_of_two(rows.y))
    design = rows.design.scaled(np.full(rows.design.dim, 1.0 / units.contexts))
    return replace(rows, design=design, y=rows.y / units.rewards), units


def _times(value: float | None, by: float) -> float | None:
    product = None if value is None else value * by
    return product if product is None or np.isfinite(product) else None
