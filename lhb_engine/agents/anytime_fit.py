"""One fit of the anytime agent (docs/model.md 7): from rows to an estimate."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from lhb_engine.agents.fit_past import ACTIVE, Part, RowsPast, too_little
from lhb_engine.agents.form_fits import SHARED, FormFits, KnownForm
from lhb_engine.agents.rank_one_agent import RankOneAgent
from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.design.moments import RowMoments
from lhb_engine.design.products import widened
from lhb_engine.estimate import FEW_LAGS, Estimate, LagForm
from lhb_engine.history import Floats
from lhb_engine.posterior.acceptance_and_alarm import HeldOut, alarm_limit
from lhb_engine.posterior.correlated_posterior import correlated_posterior
from lhb_engine.posterior.fit_data import FitData, fit_data, later_rows
from lhb_engine.posterior.forgetting import turned_since
from lhb_engine.posterior.gain import are_enough, gain
from lhb_engine.posterior.linearised_intervals import Certainty
from lhb_engine.posterior.outliers import are_repeated
from lhb_engine.posterior.own_responses import Evidence, ResponseSpread, spread_of
from lhb_engine.posterior.predictor import SHOWN, Predictor, residuals
from lhb_engine.posterior.profile_intervals import (
    LeastSquares,
    are_shared,
    drawn_intervals,
    drawn_totals,
    misfit,
)
from lhb_engine.posterior.random_walk import less_walk, walk_gain
from lhb_engine.posterior.rank_one_posterior import Posterior, rank_one_posterior
from lhb_engine.posterior.sparse_profiles import profile_posterior
from lhb_engine.posterior.thompson_sampling import are_untried, candidates

WORSENED = " The rounds since the last fit were predicted badly: something may have changed."
SAMPLED = (
    " Some directions hardly vary in the chosen contexts: decisions take posterior draws in turn."
)
ALIKE = "Some directions hardly vary in the chosen contexts."
TURNED = " What is paid has changed: rounds before {} count no more."
OWN_SPREAD = "Trajectories have responses of their own: their spread has intervals."
UNTRIED = "Some features are 0 in every chosen context: what arms with them pay is not known."
OWN_DIRECTIONS = "Each trajectory decides by its own direction."
REFUSED = "The rounds since the last direction was found speak against a new one: it stays."
LOST = "The rounds since the last fit were predicted badly, and speak for no direction: it stays."
LEAST_HISTORY = 200  # rows of a first fit whose halves judge the forms of lag profiles


class AnytimeFit:
    """One fit, with the agent's state at the round when it is due; the agent is not changed."""

    def __init__(self, agent: RankOneAgent, past: RowsPast, sets: Sequence[Floats] = ()) -> None:
        self.past, self.rows, self.window = past, past.rows, past.window
        self.units, self.prediction = past.units, past.prediction
        self.baseline = are_repeated(past.plain)
        self.options, self.settings = agent.options, agent.settings
        self.horizon = agent.horizon
        self.candidates, self.products, self.dim = agent.candidates, agent.products, agent.width
        self.theta = agent.theta
        self.sets = [widened(one, self.products) / self.units.contexts for one in sets]

    def estimate(self) -> Estimate:
        """Return the new estimate in the user's units; status `zero` if it is refused.

        Acceptance is docs/model.md (7.11): it compares the errors of the new and of the installed
        estimate on the rows since the last fit.
        """
        estimate, old = self._found(), self.prediction
        is_other = old and self.options.form is None and old.form != self._forms.in_use
        if old and is_other and self._is_refused(estimate):
            # forms were judged by the installed fit's parameters, which only another fit renews
            self._forms = replace(self._forms, in_use=old.form)
            estimate = self._found()
        why = LOST if self._is_lost(estimate) else REFUSED if self._is_refused(estimate) else None
        if why:
            estimate = replace(estimate.without_direction("zero", why), sign_margin=None)
        return replace(self.units.restore(estimate), products=self.products)

    def _is_lost(self, estimate: Estimate) -> bool:
        """Whether after an alarm nothing stands out where something did: docs/model.md (7.34)."""
        old, later, diagnostics = self.prediction, self.past.later, estimate.diagnostics or {}
        if self._turned or not (old and old.stands_out and later and diagnostics.get("alarm")):
            return False
        return not diagnostics.get("stands_out", True) and later.still_rises

    def _is_refused(self, estimate: Estimate) -> bool:
        """Whether a new estimate is refused, and the installed one stays: docs/model.md (7.11)."""
        new, since = Predictor.of(estimate), self.past.later
        return bool(new and since and since.is_better_than(new, self.settings.acceptance))

    @cached_property
    def _forms(self) -> FormFits:
        """The forms of lag profiles, judged by the rows since they were fitted."""
        return self._forms_of(self.past.later)

    def _forms_of(self, later: HeldOut | None) -> FormFits:
        """Return the forms, and which decides: the one that was told, or the best."""
        forms = FormFits.of(self.prediction, later, self.units, self.dim)
        return replace(forms, in_use=self.options.form or self.past.form or forms.in_use)

    def _forms_by_halves(self) -> FormFits:
        """Return the forms judged by the later half of the latest rows, fitted to the earlier half.

        A first fit of a long history has no rows that an earlier one had not seen. With few rows
        shared profiles decide until the next fit.
        """
        forms, rows, posterior = self._forms, self.rows, self._posterior
        half, n_unknown = rows.n_rows // 2, rows.n_lags * rows.contexts.shape[1]
        if 2 * half < LEAST_HISTORY or not forms.can_be_told_apart(half, n_unknown, self.horizon):
            return forms
        cut = int(np.median(rows.number[rows.number > 0]))
        early = self.past.parts({1}, cut, 0).get(1)
        if early is None:
            return forms
        fitted, _ = forms.fitted(early, self.horizon, cut, *posterior(early), posterior)
        if not fitted:
            return forms
        by_name = {name: KnownForm.from_json(form) for name, form in fitted.items()}
        shared = replace(by_name[SHARED].predictor, last_round=cut)
        return replace(forms, by_name=by_name).judged(later_rows(shared, rows))

    def _found(self) -> Estimate:
        """Return the estimate before its acceptance, in scaled units."""
        window = self.window
        covered = self.past.covered()
        zero = np.zeros(window.n_lags)
        if reason := self.past.too_little():
            return Estimate("insufficient_data", zero, message=reason, **covered)
        later = self.past.later
        checked = self.past.left_out | (later.check(self._old_draws) if later else {})
        if not checked.get("alarm", True) and self._is_young():
            message = "The direction predicts as well as it should: it stays."
            return Estimate("zero", zero, message=message, diagnostics=checked, **covered)
        first = self._turned or self.past.first
        part = self.past.part(first)
        if self.prediction is None and not self.options.form and self._forms.in_use == SHARED:
            self._forms = self._forms_by_halves()
        posterior, rho = self._posterior(part.data)
        unclear = checked.get("alarm") and not self._turned
        if unclear and self._explains(posterior, rho):
            checked["alarm"] = unclear = False
        if unclear:
            self._forms = self._forms_of(None)  # a change says nothing of forms
            predictor = None if self.rows.levels else self.prediction
            walk = walk_gain(predictor, self.rows) if predictor else None
            first = self._look_back(first, walk)
            part = self.past.part(first)
            posterior, rho = self._posterior(part.data)
            checked["alarm"] = walk is None or first > self.past.first
        if first > window.first:
            covered |= {"n_rows": part.data.n_rows, "first_round": first}
            checked["since_round"] = first
        samples = self.candidates is not None or part.stops_teaching()
        samples = samples or are_untried(part.data, self.sets)
        part, posterior, spread = self._about_mean(part, posterior, rho, first)
        active = np.flatnonzero(posterior.inclusion > ACTIVE)
        told = OWN_SPREAD if spread else part.all_lags(posterior, rho)
        certain: Certainty | str = OWN_SPREAD if spread else ALIKE
        if not posterior.stands_out:
            certain = "No direction stands out from the noise."
        elif not samples and spread is None:
            certain = part.certainty(posterior, told, active, rho, self.options)
        angles = (None, None) if isinstance(certain, str) else (certain.angle, certain.angle_95)
        covered |= {
            "sigma_hat": posterior.noise,
            "intercept": float(posterior.effects[0]),
            "effects": part.effects(posterior),
            "levels": part.levels(posterior),
            "own": spread and spread.to_json(),
            "diagnostics": {
                "concentration": posterior.concentration,
                "stands_out": posterior.stands_out,
                "smooth": posterior.smooth,
                "angle": angles[0],
                "angle_95": angles[1],
                "baseline_probability": float(posterior.included[0]),
                "expected_active_lags": float(posterior.inclusion.sum()),
                "autocorrelation": rho,
                **({} if self.options.zero_start else {"score_before": float(posterior.theta[-1])}),
                **checked,
            },
        }
        theta, profiles = posterior.theta[: posterior.n_features], None
        weights = np.zeros((len(zero), *posterior.weights.shape[1:]))
        weights[: len(posterior.weights)] = posterior.weights
        if weights.ndim == 2:
            profiles, weights = weights, weights[:, : posterior.n_features] @ theta
        forms, left = self._other_forms(part.data, posterior, rho)
        drawn = candidates(posterior) if samples else None
        earned = self._gain(left, told, theta, drawn, part.data, rho)
        paid = OWN_SPREAD if spread else self._few_lags or part.totals(left, told)
        return Estimate(
            "ok",
            weights if self.options.signed or profiles is not None else np.maximum(weights, 0.0),
            theta=theta,
            form=None if self.options.form == SHARED else posterior.form,
            lag_profiles=profiles,
            forms=forms,
            active_lags=tuple(active.tolist()),
            candidates=drawn,
            sign_margin=abs(float(weights.sum())) / max(float(np.abs(weights).sum()), 1e-300),
            intervals=drawn_intervals(left) if isinstance(certain, str) else certain.intervals(),
            no_intervals=certain if isinstance(certain, str) else certain.unclear,
            gain=None if isinstance(earned, str) else earned,
            no_gain=earned if isinstance(earned, str) else None,
            totals=None if isinstance(paid, str) else paid,
            no_totals=paid if isinstance(paid, str) else None,
            message=part.in_words(posterior, certain)
            + (WORSENED if checked.get("alarm") else "")
            + (TURNED.format(first) if first == self._turned else "")
            + (SAMPLED if samples else ""),
            **covered,
        )

    def _other_forms(
        self, data: FitData, posterior: Posterior, rho: float
    ) -> tuple[dict[LagForm, Any] | None, list[Posterior]]:
        """Return the forms for the next fit, and those that may hold; see `FormFits.fitted`."""
        if self.options.form is not None:
            return None, [posterior]
        last, fit = self.window.last, self._posterior
        return self._forms.fitted(data, self.horizon, last, posterior, rho, fit)

    @property
    def _few_lags(self) -> str:
        """Why nothing of totals is known; empty if all lags are fitted."""
        few = self.window.n_lags < self.horizon
        return FEW_LAGS.format(self.window.n_lags, self.horizon) if few else ""

    def _about_mean(
        self, part: Part, posterior: Posterior, rho: float, first: int
    ) -> tuple[Part, Posterior, ResponseSpread | None]:
        """Return the posterior, its rows, and how trajectories differ from it in these.

        Rows less own responses keep lag weights that were wrong. So the rows as they came are
        fitted, too, and the likelier fit decides: docs/model.md (15.2).
        """
        if not self.options.own:
            return part, posterior, None
        fits, plain = [(part, posterior)], self.past.plain
        if self.rows is not plain:
            rows, form = plain.rows(first, self.window.last), self._forms.in_use
            part = replace(part, data=fit_data(rows), rows=rows)
            data = part.data if form == SHARED else part.data.summed()
            fits.append((part, self._sample(data.whitened(rho), due=self.window.due, form=form)))
        spreads = [self._spread(_predictor(one, rho), first) for _, one in fits]
        best = int(np.argmin([one.cost if one else 0.0 for one in spreads]))
        (part, posterior), spread = fits[best], spreads[best]
        return (part, posterior, None) if spread is None else (part, *spread.about_mean(posterior))

    def _spread(self, predictor: Predictor, first: int) -> ResponseSpread | None:
        """Return how trajectories differ from a prediction in the rows from a round on."""
        evidence = Evidence.of(self.past.plain.rows(first, self.window.last), predictor, self.dim)
        shifts, told = predictor.lag_weights.ndim == 1, self.options
        return spread_of(evidence, shifts=shifts, by=told.groups, features=told.own_features)

    def _gain(
        self,
        forms: Sequence[Posterior],
        told: LeastSquares | str,
        theta: Floats,
        drawn: Floats | None,
        data: FitData,
        rho: float,
    ) -> dict[str, Any] | str:
        """Return what choices earn by theta, or by the drawn directions in turn; or why not.

        Forms of profiles that may hold say what choices earn: by (14.5b), or if they are shared.
        """
        if self.options.own:
            return OWN_DIRECTIONS
        if are_untried(data, self.sets):
            return UNTRIED
        if self._few_lags:
            return self._few_lags
        apart = misfit(forms, told, beyond=True)
        deciding = theta[None] if drawn is None else drawn
        arguments = self.sets, theta, deciding, drawn_totals(forms, apart), self.options.epsilon
        earned = gain(*arguments, data.n_rows, errors_last=rho > 0.0)
        if isinstance(earned, str):
            return earned
        if not forms[0].stands_out:
            chance = earned["over_chance"]
            chance["low"] = min(chance["low"], 0.0)  # of what pays nothing is known
        return earned | {"if_shared": apart == 0.0 and are_shared(forms)}

    @cached_property
    def _turned(self) -> int | None:
        """The round since which another theta decides, where it turns: docs/model.md (7.33)."""
        old, told = self.prediction, self.options
        if old is None or told.levels or told.own or told.memory is not None:
            return None
        if not old.stands_out or not (old.settled or old.since_round > 1):
            return None
        since = turned_since(old, self.rows, self.past.first)
        rows = self.past.part(since).rows if since else self.rows
        return None if too_little(rows, self.past.dim) else since

    def _is_young(self) -> bool:
        """Whether this fit only checks the installed direction (docs/model.md 7, Schedule)."""
        old, due = self.prediction, self.window.due
        if old is None or not (old.settled and old.stands_out) or self._turned:
            return False
        if self.past.is_summed or self.options.memory is not None or self.window.first > 1:
            return False
        if not old.theta[self.dim - len(self.products) : self.dim].all():
            return False  # products that no fit has counted yet
        if self._forms.in_use != old.form or (not old.has_sets and are_enough(self.sets)):
            return False
        least = min(self.settings.known * self.horizon, self.settings.known_rounds)
        is_late = old.last_round >= max(least, self.settings.early * self.horizon)
        fresh = 0 < self.settings.renewed * old.n_rows <= self.past.covered()["n_rows"]
        if not is_late or fresh or due >= self.settings.renewed * old.last_round:
            return False
        seeks = self.options.own and old.own is None  # the installed fit showed none
        spread = self._spread(old, self.past.first) if seeks else None
        return spread is None or spread.gains[0] < SHOWN

    def _explains(self, posterior: Posterior, rho: float) -> bool:
        """Return whether the new fit explains the later rows too (docs/model.md (7.21)).

        Then the installed estimate was wrong, and nothing has to have changed.
        """
        old, later = self.prediction, self.past.later
        assert old is not None
        assert later is not None
        new = later.comparable(_predictor(posterior, rho), old)
        return float(later.products(new)[0, 0]) <= alarm_limit(later.n_rows) * old.noise**2

    def _squares(self, posterior: Posterior, rho: float, walk: float | None = None) -> Floats:
        """Return the squares of the one-step prediction errors, (n_places,).

        With `walk` they are those about a walk of that gain, which follows them. Where
        trajectories have levels, their spread is the installed estimate's, whatever was fitted.
        """
        if self.rows.levels and self.prediction:
            rho = self.prediction.autocorrelation
        left = residuals(self.rows, posterior.theta, posterior.weights, posterior.effects)
        if walk is not None:
            return np.asarray(less_walk(self.rows, left, walk) ** 2)
        return np.asarray(innovations(self.rows, left, rho) ** 2)

    def _look_back(self, first: int, walk: float | None = None) -> int:
        """Return the first round that fits use after an alarm.

        The later half of the rows since the installed fit is held out. Fits on all earlier rows,
        and on the latest half, quarter, ... of them, are compared by their errors there, about a
        walk if one explains them. A shorter window must be better by a standard error.
        """
        cut, parts = self.past.earlier_parts(first)
        later = np.flatnonzero(self.rows.number > cut)
        best: int = min(parts, default=first)
        least = None
        for start, data in parts.items():
            posterior, rho = self._posterior(data)
            squares = self._squares(posterior, rho, walk)[later]
            if least is not None:
                gain = least - squares
                if gain.mean() <= gain.std() / np.sqrt(len(gain)):
                    continue
            best, least = start, squares
        return best

    def _posterior(self, data: FitData, form: LagForm | None = None) -> tuple[Posterior, float]:
        """Return the posterior from some rows, and the rho of the noise that it assumes.

        `form` is that of the lag profiles, by default the one that decides.
        """
        form = form or self._forms.in_use
        sample = partial(self._sample, due=self.window.due, form=form)
        data = data if form == SHARED else data.summed()
        return correlated_posterior(data, sample, self._forms.old(form), self.theta)

    def _sample(
        self,
        rows: AlignedRounds | RowMoments,
        *,
        due: int,
        form: LagForm,
        start: Floats | None = None,
        weights: Floats | None = None,
        errors_last: bool = False,
    ) -> Posterior:
        """Draw the posterior from rows with independent noise, by the seed of a fit due then."""
        if form != SHARED:
            assert isinstance(rows, RowMoments)
            return profile_posterior(
                rows,
                [8, due],
                form,
                self.dim,
                weights,
                baseline=self.baseline,
                groups=self.options.profile_groups,
            )
        return rank_one_posterior(
            rows,
            seed=[8, due],
            start=start,
            weights=weights,
            signed=self.options.signed,
            value_before=None if self.options.zero_start else 1.0 / self.units.contexts,
            baseline=self.baseline,
            errors_last=errors_last,
            settings=self.settings,
        )

    def _old_draws(self) -> tuple[Floats, Floats]:
        """Draw theta and w again from the rows of the installed estimate's fit, for D of (7.12)."""
        assert self.prediction is not None
        old = self.prediction
        data = self.past.seen() if old.form == SHARED else self.past.seen().summed()
        return self._sample(
            data.whitened(old.autocorrelation),
            due=old.last_round,
            form=old.form,
            start=old.theta,
            weights=old.lag_weights,
        ).draws


def _predictor(posterior: Posterior, rho: float) -> Predictor:
    """Return what a posterior predicts by, where noise has this correlation."""
    arguments = posterior.weights, posterior.theta, float(posterior.effects[0]), posterior.noise
    return Predictor(*arguments, 0, True, rho, effects=posterior.effects[1:])
