"""One fit of the anytime agent (docs/model.md 7): from a history to an estimate."""

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds, align
from lhb_engine.design.coloured_noise import innovations, whitened
from lhb_engine.design.scaling import Units, power_of_two
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History
from lhb_engine.posterior.fit_data import fit_data, later_rows
from lhb_engine.posterior.linearised_intervals import Certainty, certainty
from lhb_engine.posterior.prediction_check import HeldOut, Predictor, alarm_limit, residuals
from lhb_engine.posterior.rank_one_posterior import Posterior, rank_one_posterior
from lhb_engine.posterior.thompson_sampling import candidates, stops_teaching

if TYPE_CHECKING:
    from lhb_engine.agents.anytime import Anytime

WORSENED = " The rounds since the last fit were predicted badly: something may have changed."
SAMPLED = " The selected contexts stopped varying: decisions take posterior draws in turn."
REFUSED = "The rounds since the last direction was found speak against a new one"
REFIT = 0.1  # change of rho above which the fit is repeated
FEWEST_ROWS = 40  # that a fit after an alarm may use
ACTIVE = 0.95  # a lag is reported active if it is so in this share of the draws


class AnytimeFit:
    """One fit, with the agent's state at the round when it is due.

    Parameters
    ----------
    agent : Anytime
        The agent; it is not changed.
    history : History
        With a window.
    goes_on : str
        How the agent decides if the fit installs nothing, for the message.

    Raises
    ------
    ValueError
        The history holds no round of its window, or numbers that are not finite.
    """

    def __init__(self, agent: "Anytime", history: History, goes_on: str) -> None:
        assert history.window is not None
        self.window, self.goes_on = history.window, goes_on
        self.options, self.settings = agent.options, agent.settings
        self.horizon = agent.horizon
        rows = align(agent.options.covariates.told(history))
        self.units = Units(power_of_two(rows.contexts), power_of_two(rows.y))
        contexts, y = rows.contexts / self.units.contexts, rows.y / self.units.rewards
        self.rows = replace(rows, contexts=contexts, y=y)
        self.theta, self.candidates = agent.theta, agent.candidates
        self.prediction = agent.prediction and agent.prediction.in_units(self.units)

    def estimate(self) -> Estimate:
        """Return the new estimate in the user's units; status `zero` if the guard refuses it.

        The guard is docs/model.md (7.11): it compares the errors of the new and of the installed
        estimate on the rows since the last fit.
        """
        found = self._found()
        new, since = Predictor.of(found), self._since
        if new and since and since.is_better_than(new, self.settings.guard):
            found = replace(
                found,
                status="zero",
                theta=None,
                lag_weights=np.zeros_like(found.lag_weights),
                active_lags=(),
                candidates=None,
                intervals=None,
                sign_margin=None,
                message=f"{REFUSED}: {self.goes_on}.",
            )
        return self.units.restore(found)

    @cached_property
    def _since(self) -> HeldOut | None:
        """The rows since the installed estimate's fit; None if there are none."""
        return later_rows(self.prediction, self.rows) if self.prediction else None

    def _found(self) -> Estimate:
        """Return the estimate before the guard, in scaled units."""
        window, rows = self.window, self.rows
        covered: dict[str, Any] = {
            "n_rows": rows.n_rows,
            "n_missing": rows.n_missing,
            "first_round": window.first,
            "last_round": window.last,
        }
        zero = np.zeros(window.n_lags)
        reason = _too_little(rows)
        if reason:
            return Estimate("insufficient_data", zero, message=reason, **covered)
        checked = self._since.check(self._old_draws) if self._since else {}
        if checked and self._is_young() and not checked["alarm"]:
            message = f"The direction predicts as well as it should: {self.goes_on}."
            return Estimate("zero", zero, message=message, diagnostics=checked, **covered)
        first = self.prediction.since_round if self.prediction else 1
        rows = self.rows.rows(first, window.last) if first > window.first else self.rows
        found, rho = self._posterior(rows)
        if checked.get("alarm") and self._explains(found, rho):
            checked["alarm"] = False
        if checked.get("alarm"):
            first = self._look_back(first)
            rows = self.rows.rows(first, window.last) if first > window.first else self.rows
            found, rho = self._posterior(rows)
        if first > window.first:
            covered |= {"n_rows": rows.n_rows, "first_round": first}
            checked["since_round"] = first
        active = np.flatnonzero(found.inclusion > ACTIVE)
        samples = self.candidates is not None or stops_teaching(rows)
        known: Certainty | str = "The selected contexts hardly vary."
        if not samples:
            known = certainty(whitened(rows, rho), found, active, rho, self.options.signed)
        angles = (None, None) if isinstance(known, str) else (known.angle, known.angle_95)
        covered |= {
            "sigma_hat": found.noise,
            "intercept": float(found.effects[0]),
            "effects": _effects(rows, found),
            "diagnostics": {
                "concentration": found.concentration,
                "angle": angles[0],
                "angle_95": angles[1],
                "baseline_probability": float(found.included[0]),
                "expected_active_lags": float(found.inclusion.sum()),
                "autocorrelation": rho,
                **checked,
            },
        }
        enough = self.options.signed or rows.n_rows >= 2 * rows.n_lags
        learned = found.concentration >= self.settings.learned
        unsure = enough and not samples and found.sign < self.settings.sure_sign
        if not learned or unsure:
            message = f"No direction stands out from the noise yet: {self.goes_on}."
            if self.options.signed and learned:
                message = "The lag weights nearly cancel: the sign of the direction is a guess."
            return Estimate("zero", zero, message=message, **covered)
        weights = zero.copy()
        weights[: len(found.weights)] = found.weights
        return Estimate(
            "ok",
            weights if self.options.signed else np.maximum(weights, 0.0),
            theta=found.theta,
            active_lags=tuple(active.tolist()),
            candidates=candidates(found) if samples else None,
            sign_margin=abs(float(weights.sum())) / max(float(np.abs(weights).sum()), 1e-300),
            intervals=None if isinstance(known, str) else known.intervals(),
            no_intervals=known if isinstance(known, str) else None,
            message=_in_words(found, rows, angles[0])
            + (WORSENED if checked.get("alarm") else "")
            + (SAMPLED if samples else ""),
            **covered,
        )

    def _is_young(self) -> bool:
        """Whether this fit only checks the installed direction (docs/model.md 7, Schedule)."""
        old, due = self.prediction, self.window.due
        if old is None or self.options.memory is not None or not old.settled:
            return False
        is_late = old.last_round >= self.settings.early * self.horizon
        fresh = old.n_rows > 0 and self.rows.n_rows >= self.settings.renewed * old.n_rows
        return is_late and due < self.settings.renewed * old.last_round and not fresh

    def _explains(self, found: Posterior, rho: float) -> bool:
        """Return whether the new fit explains the later rows too (docs/model.md (7.21)).

        Then the installed estimate was wrong, and nothing has to have changed.
        """
        assert self.prediction is not None
        later = self.rows.number > self.prediction.last_round
        left = residuals(self.rows, found.theta, found.weights, found.effects)
        squares = innovations(self.rows, left, rho)[later] ** 2
        return bool(squares.mean() <= alarm_limit(len(squares)) * self.prediction.noise**2)

    def _look_back(self, first: int) -> int:
        """Return the first round that fits use after an alarm.

        The later half of the rows since the installed fit is held out. Fits on all earlier rows,
        and on the latest half, quarter, ... of them, are compared by their errors on the held-out
        rows. A shorter window must be better by a standard error.
        """
        assert self.prediction is not None
        last = self.window.last
        cut = last - (last - self.prediction.last_round) // 2
        starts, back = [1, first], cut // 2
        while back >= max(FEWEST_ROWS, 8 * self.rows.contexts.shape[1]):
            starts.append(cut - back + 1)
            back //= 2
        later = np.flatnonzero(self.rows.number > cut)
        best, least = 1, None
        for start in sorted(set(starts)):
            rows = self.rows.rows(start, cut)
            if _too_little(rows):
                continue
            found, rho = self._posterior(rows)
            left = residuals(self.rows, found.theta, found.weights, found.effects)
            squares = innovations(self.rows, left, rho)[later] ** 2
            if least is not None:
                gain = least - squares
                if gain.mean() <= gain.std() / np.sqrt(len(gain)):
                    continue
            best, least = start, squares
        return best

    def _posterior(self, rows: AlignedRounds) -> tuple[Posterior, float]:
        """Return the posterior from some rows, and the rho of the noise (7.15) that it assumes.

        rho is that of the installed estimate's residuals. If the new estimate's residuals have a
        rho that differs by more than 0.1, the fit is repeated with that one.
        """
        sample = partial(
            rank_one_posterior,
            seed=[8, self.window.due],
            signed=self.options.signed,
            settings=self.settings,
        )
        data, rho, weights = fit_data(rows), 0.0, None
        if self.prediction:
            old = self.prediction
            rho = data.autocorrelation(old.theta, old.lag_weights, old.beside)
            weights = self.prediction.lag_weights
        found = sample(data.whitened(rho), start=self.theta, weights=weights)
        again = data.autocorrelation(found.theta, found.weights, found.effects)
        if abs(again - rho) > REFIT:
            rho = again
            found = sample(data.whitened(rho), start=found.theta, weights=found.weights)
        return found, rho

    def _old_draws(self) -> tuple[Floats, Floats]:
        """Draw theta and w again from the rows of the installed estimate's fit, for D of (7.12)."""
        assert self.prediction is not None
        old = self.prediction
        seen = fit_data(self.rows.rows(1, old.last_round))
        return rank_one_posterior(
            seen.whitened(old.autocorrelation),
            seed=[8, old.last_round],
            start=old.theta,
            weights=old.lag_weights,
            signed=self.options.signed,
            settings=self.settings,
        ).draws


def _too_little(rows: AlignedRounds) -> str:
    """Return why the rows cannot be fitted; empty if they can."""
    if rows.n_rows < 4:
        return f"{rows.n_rows} measured rows; a fit needs at least 4."
    level = float(rows.intercept @ rows.y) / float(rows.intercept @ rows.intercept)
    rest = rows.y - level * rows.intercept
    if float(np.abs(rest).max()) <= 1e-12 * float(np.abs(rows.y).max()):
        return "All rewards are equal: nothing to learn from."
    if not rows.contexts.any():
        return "All contexts are zero: nothing to learn from."
    return ""


def _effects(rows: AlignedRounds, found: Posterior) -> dict[str, Any] | None:
    """Return what the covariates do, a number each or one a group; None if there are none."""
    if not rows.groups:
        return None
    is_row = rows.number > 0
    parts = np.split(rows.covariates[is_row] * found.effects[1:], np.cumsum(rows.groups)[:-1], 1)
    variance = float(rows.y[is_row].var())
    return {
        "values": found.effects[1:].tolist(),
        "included": found.included[1:].tolist(),
        "share": [float(part.sum(axis=1).var()) / variance for part in parts],
    }


def _in_words(found: Posterior, rows: AlignedRounds, angle: float | None) -> str:
    """Return the message of an estimate."""
    known = "a direction is found, and how far it may be off is not clear yet"
    if angle is not None:
        known = f"the direction is known to about {angle * 180.0 / np.pi:.0f} degrees"
    active = f"about {found.inclusion.sum():.0f} of {rows.n_lags} lags are active"
    return f"From {rows.n_rows} rows {known}; {active}."
