"""What the fits of `anytime` know of the forms of lag profiles (docs/model.md 14)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from lhb_engine.agents.form_choice import SHARED, KnownForm, best_form
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.scaling import Units
from lhb_engine.estimate import LagForm
from lhb_engine.posterior.fit_data import FitData, MomentData, RowData
from lhb_engine.posterior.later_moments import LaterMoments
from lhb_engine.posterior.prediction_check import HeldOut, LaterRows, Predictor
from lhb_engine.posterior.rank_one_posterior import Posterior

FORMS: tuple[LagForm, ...] = get_args(LagForm)
MOST_UNKNOWNS = 600  # lags times features; beyond, profiles are shared
ROWS_A_LAG = 1.0  # of the horizon: fewer rows do not tell forms apart


@dataclass(frozen=True)
class FormFits:
    """The forms that a fit knows, by name, judged by the rows since they were fitted.

    `in_use` decides; `prediction` is the installed estimate's. Units are scaled.
    """

    known: dict[LagForm, KnownForm]
    in_use: LagForm
    prediction: Predictor | None
    n_features: int

    @classmethod
    def of(
        cls, prediction: Predictor | None, later: HeldOut | None, units: Units, n_features: int
    ) -> "FormFits":
        """Judge the forms of an installed estimate by the rows after it."""
        found = prediction.forms if prediction else {}
        known = {name: KnownForm.from_json(form).in_units(units) for name, form in found.items()}
        if known and isinstance(later, LaterMoments | LaterRows):
            rows = (
                later.moments
                if isinstance(later, LaterMoments)
                else session_moments(later.rows, places=later.places)
            )
            known = {name: form.judged(known[SHARED], rows) for name, form in known.items()}
        return cls(known, best_form(known), prediction, n_features)

    def old(self, form: LagForm) -> Predictor | None:
        """Return the prediction of a form that the installed estimate's fit found, if it did."""
        old = self.prediction
        if old is None or old.form == form:
            return old
        if form not in self.known:
            return None
        known = self.known[form]
        theta, weights = np.zeros(known.profiles.shape[1]), known.profiles
        if form == SHARED:  # phi = w theta'
            total = weights[:, : self.n_features].sum(axis=0)
            unit = total / max(float(np.linalg.norm(total)), 1e-300)
            along = weights[:, : self.n_features] @ unit
            theta, weights = along @ weights / max(float(along @ along), 1e-300), along
        level, effects = float(known.effects[0]), known.effects[1:]
        return replace(old, theta=theta, lag_weights=weights, intercept=level, effects=effects)

    def fitted(
        self,
        data: FitData,
        horizon: int,
        found: Posterior,
        rho: float,
        fit: Callable[[FitData, LagForm], tuple[Posterior, float]],
    ) -> dict[LagForm, Any] | None:
        """Fit the other forms beside the one found, and return all as JSON, for the next fit.

        `found` and its autocorrelation `rho` are of the form in use. None with few rows, many
        unknowns or one feature.
        """
        unknown = data.n_lags * found.draws[0].shape[1]
        few = data.n_rows < ROWS_A_LAG * horizon
        if self.n_features == 1 or unknown > MOST_UNKNOWNS or few:
            return None
        out, data = {}, of_moments(data)
        for form in FORMS:
            one, noise = (found, rho) if form == found.form else fit(data, form)
            own = one.weights.ndim == 2
            profiles = one.weights if own else np.outer(one.weights, one.theta)
            before = self.known.get(form)
            score = (before.excess, before.variance) if before else (0.0, 0.0)
            out[form] = KnownForm(profiles, one.effects, noise, *score).to_json()
        return out


def of_moments(data: FitData) -> MomentData:
    """Return the moments of a fit's rows, whatever costs less."""
    return MomentData(session_moments(data.rows)) if isinstance(data, RowData) else data
