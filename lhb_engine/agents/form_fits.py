"""What the fits of `anytime` know of the forms of lag profiles, and which one decides.

The forms are "shared" (the rank-one model), and "sparse" and "smooth" profiles of each feature's
own (docs/model.md 14). The best on unseen rows decides; shared profiles are the default belief.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from lhb_engine.agents.anytime_options import MOST_UNKNOWNS
from lhb_engine.design.scaling import Units
from lhb_engine.estimate import LagForm
from lhb_engine.history import Floats
from lhb_engine.posterior.acceptance_and_alarm import HeldOut
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.posterior.rank_one_posterior import Posterior

SHARED: LagForm = "shared"
DISCOUNT = 0.7  # of earlier errors, a fit
SURE = 2.0  # standard errors by which another form must predict better to replace the shared one
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

    def is_worse_than(self, other: "KnownForm") -> bool:
        """Whether it clearly predicted worse than another form."""
        error = float(np.sqrt(max(self.variance, other.variance)))
        return self.excess - other.excess > WORSE * error > 0.0

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
            effects=np.append(self.effects[0] - units.offset, self.effects[1:]) / units.rewards,
        )

    @property
    def predictor(self) -> Predictor:
        """The form as what predicts rewards."""
        none, about = np.zeros(self.profiles.shape[1]), (float(self.effects[0]), 0.0, 0, False)
        rho, others = self.autocorrelation, self.effects[1:]
        return Predictor(self.profiles, none, *about, autocorrelation=rho, effects=others)

    def judged(self, shared: "KnownForm", later: HeldOut) -> "KnownForm":
        """Return the form with its errors on rows that it has not seen, by (14.4).

        This form and the shared one are judged at the smaller of the two autocorrelations: errors
        of a form that does not hold last, and would predict the next errors. A form whose
        autocorrelation is the smaller one must not predict clearly worse than the shared form at
        the shared form's, either: where errors do last, such a form takes errors for effects. A
        form of an earlier fit than the shared one's has rested, and is not judged.
        """
        if self.rests_until < shared.rests_until or later.n_rows == 0:
            return self
        rho = min(self.autocorrelation, shared.autocorrelation)
        mine, common = (replace(form.predictor, autocorrelation=rho) for form in (self, shared))
        nothing = replace(mine, lag_weights=0.0 * self.profiles)
        products = later.products(common, mine, nothing)
        (excess, variance), (none, _) = (_compared(later.n_rows, products, i) for i in (1, 2))
        worse = excess
        if self.autocorrelation < shared.autocorrelation:
            theirs = later.comparable(shared.predictor, self.predictor)
            products = later.products(theirs, self.predictor)
            apart, spread = _compared(later.n_rows, products, 1)
            worse = apart - WORSE * float(np.sqrt(spread))
        return replace(
            self,
            excess=DISCOUNT * self.excess + max(excess, worse),
            over_none=DISCOUNT * self.over_none + excess - none,
            variance=DISCOUNT**2 * self.variance + variance,
        )


def _compared(n: int, products: Floats, one: int) -> tuple[float, float]:
    """Return the sum of e_one^2 - e_0^2 of n rows over the mean of e_0^2, and its variance."""
    mean = float(products[0, 0])
    if mean <= 0.0:
        return 0.0, 0.0
    own, both = (float(products[of, one]) / mean for of in (one, 0))
    return n * (own - 1.0), 2.0 * n * max(1.0 + own**2 - 2.0 * both**2, 0.0)


def best_form(forms: Mapping[LagForm, KnownForm], used: LagForm) -> LagForm:
    """Return the form with the least errors, if it is surely better than the shared one.

    Where the form in use is not the shared one, any better form will do. The form has to be better
    than no effect at all, too: where there is no effect, shared profiles that were fitted to noise
    predict worst.
    """
    name = min(forms, key=lambda name: forms[name].excess, default=SHARED)
    best, sure = forms.get(name), SURE if used == SHARED else 0.0
    if best is None or best.over_none >= 0.0 or best.excess > -sure * np.sqrt(best.variance):
        return SHARED
    return name


FORMS: tuple[LagForm, ...] = get_args(LagForm)
SCOUT: LagForm = "smooth"  # the form of features' own profiles that is tried first
ROWS_A_LAG = 1.0  # of the horizon: fewer rows do not tell forms apart
ROWS_TO_REST = 6.0  # times the horizon: with fewer, errors that last are not known to


@dataclass(frozen=True)
class FormFits:
    """The forms that a fit knows, by name, judged by the rows since they were fitted.

    `in_use` decides; `prediction` is the installed estimate's. Units are scaled.
    """

    by_name: dict[LagForm, KnownForm]
    in_use: LagForm
    prediction: Predictor | None
    n_features: int

    @classmethod
    def of(
        cls, prediction: Predictor | None, later: HeldOut | None, units: Units, n_features: int
    ) -> "FormFits":
        """Judge the forms of an installed estimate by the rows after it."""
        forms = prediction.forms if prediction else {}
        by_name = {name: KnownForm.from_json(form).in_units(units) for name, form in forms.items()}
        return cls(by_name, SHARED, prediction, n_features).judged(later)

    def judged(self, later: HeldOut | None) -> "FormFits":
        """Return the forms judged by some rows that their fits had not seen, and which decides."""
        by_name = self.by_name
        if later is not None:
            by_name = {name: form.judged(by_name[SHARED], later) for name, form in by_name.items()}
        used = self.prediction.form if self.prediction else SHARED
        return replace(self, by_name=by_name, in_use=best_form(by_name, used))

    def can_be_told_apart(self, n_rows: int, n_unknown: int, horizon: int) -> bool:
        """Whether there are several features, not too many unknowns, and rows enough."""
        return self.n_features > 1 and n_unknown <= MOST_UNKNOWNS and n_rows >= ROWS_A_LAG * horizon

    def old(self, form: LagForm) -> Predictor | None:
        """Return the prediction of a form that the installed estimate's fit found, if it did."""
        old = self.prediction
        if old is None or old.form == form:
            return old
        if form not in self.by_name:
            return None
        earlier = self.by_name[form]
        theta, weights = np.zeros(earlier.profiles.shape[1]), earlier.profiles
        if form == SHARED:  # phi = w theta'
            total = weights[:, : self.n_features].sum(axis=0)
            unit = total / max(float(np.linalg.norm(total)), 1e-300)
            along = weights[:, : self.n_features] @ unit
            theta, weights = along @ weights / max(float(along @ along), 1e-300), along
        intercept, effects = float(earlier.effects[0]), earlier.effects[1:]
        return replace(old, theta=theta, lag_weights=weights, intercept=intercept, effects=effects)

    def fitted(
        self,
        data: FitData,
        horizon: int,
        last: int,
        posterior: Posterior,
        rho: float,
        fit: Callable[[FitData, LagForm], tuple[Posterior, float]],
    ) -> tuple[dict[LagForm, Any] | None, list[Posterior]]:
        """Fit the other forms beside the one in use; return all as JSON, and those that may hold.

        `last` is the session's last round that is used; `posterior`, of autocorrelation `rho`, is
        of the form in use. The JSON is for the next fit, None with few rows, many unknowns or one
        feature. The posteriors are of the form in use and of all forms that are not ruled out.
        """
        n_unknown = data.n_lags * posterior.draws[0].shape[1]
        if not self.can_be_told_apart(data.n_rows, n_unknown, horizon):
            return None, [posterior]
        out: dict[LagForm, Any] = {}
        may_hold, until, moments = [posterior], last + data.n_rows, data.summed()
        used = self.by_name.get(self.in_use)
        for form in FORMS:
            before = self.by_name.get(form)
            if self._rests(form, horizon, last, until):
                out |= {form: before.to_json()} if before else {}
                continue
            one, noise = (posterior, rho) if form == posterior.form else fit(moments, form)
            if form != posterior.form and not (before and used and before.is_worse_than(used)):
                may_hold.append(one)
            profiles = one.weights if one.weights.ndim == 2 else np.outer(one.weights, one.theta)
            score = (before.excess, before.variance, before.over_none) if before else (0.0,) * 3
            out[form] = KnownForm(profiles, one.effects, noise, *score, until).to_json()
        return out, may_hold

    def _rests(self, form: LagForm, horizon: int, last: int, until: int) -> bool:
        """Whether a form is not fitted now; arguments as in `fitted`, `until` as in `KnownForm`.

        A form that clearly predicts worse than shared profiles, or with rows enough these than the
        form in use, rests for as many rounds as its fit had rows. Sparse profiles are first fitted
        where smooth ones are not clearly worse.
        """
        if form == self.in_use or (form == SHARED and until - last < ROWS_TO_REST * horizon):
            return False
        scout, earlier = self.by_name.get(SCOUT), self.by_name.get(form)
        if earlier is None:
            no_scout = scout is None or scout.is_worse_than(self.by_name[SHARED])
            return form not in (SHARED, SCOUT) and no_scout
        beside = self.by_name.get(self.in_use if form == SHARED else SHARED)
        is_worse = beside is not None and earlier.is_worse_than(beside)
        return is_worse and last < earlier.rests_until < until
