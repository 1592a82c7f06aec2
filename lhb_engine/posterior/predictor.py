"""The parameters by which an installed estimate predicts rewards, and the residuals it leaves."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from lhb_engine.context_sets import FEW
from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.design.products import resized
from lhb_engine.design.scaling import Units
from lhb_engine.estimate import Estimate, LagForm, signal_of
from lhb_engine.history import Floats

MOST_SIZE = 1e100  # of what is squared
_ARRAYS = ("lag_weights", "theta", "effects")
_OWN = ("covariance", "noise", "groups", "intervals")
SHOWN = 5.0  # nats by which own responses have to be likelier than none, to decide


@dataclass(frozen=True)
class Predictor:
    """The parameters by which an installed estimate predicts rewards."""

    # (n_lags,) or (n_lags, dim): lag weights, scaled for a unit theta; or lag profiles, where
    # features have their own
    lag_weights: Floats
    # (dim,) or (dim + 1,): unit direction; after it the mean score of what was chosen before round
    # 1, where it is fitted
    theta: Floats
    intercept: float  # reward baseline per round
    noise: float  # standard deviation of eps, or of u_t where the noise is autocorrelated
    last_round: int  # last round of the session that the fit used
    settled: bool  # the fit had at least two rows a lag
    autocorrelation: float = 0.0  # rho of eps_t = rho eps_(t-1) + u_t
    since_round: int = 1  # first round of the session that the fit used
    # (n_covariates,): effects of the covariates
    effects: Floats = field(default_factory=lambda: np.zeros(0))
    n_rows: int = 0  # rows that the fit used; 0: not known
    form: LagForm = "shared"  # that of the lag profiles: "shared", "sparse" or "smooth"
    # by its name each form that was fitted, as `Estimate.forms`
    forms: dict[LagForm, Any] = field(default_factory=dict)
    stands_out: bool = True  # the direction stands out from the noise
    own: dict[str, Any] | None = None  # how own responses differ: `Responses.to_json`
    in_doubt: bool = False  # the last fit found that what it forecast did not come
    found: list[str] = field(default_factory=list)  # codes of what its checks found, or left open
    # the fit knew what there was to choose from, so that `gain` could be said
    has_sets: bool = True

    @property
    def beside(self) -> Floats:
        """b: the baseline and the effects of the covariates, (1 + n_covariates,)."""
        return np.append(self.intercept, self.effects)

    @property
    def has_squares(self) -> bool:
        """Whether squares of noise and lag weights are floats; not so once sizes change by far."""
        size = max(self.noise, float(np.abs(self.lag_weights).max(initial=0.0)))
        return size < MOST_SIZE and (self.noise == 0.0 or self.noise * MOST_SIZE > 1.0)

    @classmethod
    def of(cls, estimate: Estimate) -> "Predictor | None":
        """Return the prediction of `estimate`, or None if it has no finite direction."""
        if estimate.theta is None or not np.isfinite(estimate.theta).all():
            return None
        before = estimate.diagnostics.get("score_before", [])
        own = estimate.own if estimate.own and estimate.own["gain"] >= SHOWN else None
        return cls(
            estimate.lag_weights if estimate.lag_profiles is None else estimate.lag_profiles,
            np.append(estimate.theta, before),
            estimate.intercept or 0.0,
            estimate.sigma_hat or 0.0,
            estimate.last_round,
            estimate.n_rows >= 2 * len(estimate.lag_weights),
            estimate.diagnostics.get("autocorrelation", 0.0),
            estimate.diagnostics.get("since_round", 1),
            np.array(estimate.effects["values"] if estimate.effects else [], np.float64),
            estimate.n_rows,
            estimate.form or "shared",
            estimate.forms or {},
            estimate.diagnostics.get("stands_out", True),
            own and {name: own[name] for name in _OWN if name in own},
            has_sets=estimate.no_gain != FEW,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object.

        `autocorrelation` 0, `since_round` 1 and `effects` of no covariates may be absent, and so
        may the form of shared profiles, that the direction stands out, and that there were sets.
        """
        out = asdict(self) | {name: getattr(self, name).tolist() for name in _ARRAYS}
        usual = {"autocorrelation": 0.0, "since_round": 1, "effects": [], "own": None}
        usual |= {"stands_out": True, "has_sets": True, "forms": {}, "form": "shared", "found": []}
        return {n: v for n, v in out.items() if n not in usual or v != usual[n]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Predictor":
        """Return the prediction that `to_json` described."""
        arrays = {name: np.array(data[name], np.float64) for name in _ARRAYS if name in data}
        return cls(**data | arrays)

    def in_units(self, units: Units) -> "Predictor":
        """Return the prediction in scaled units; the inverse of `Units.restore`."""
        return replace(
            self,
            lag_weights=self.lag_weights * (units.contexts / units.rewards),
            intercept=(self.intercept - units.offset) / units.rewards,
            noise=self.noise / units.rewards,
            effects=self.effects / units.rewards,
            own=self.own and {**self.own, "noise": self.own["noise"] / units.rewards},
        )

    def resized(self, at: int, n: int) -> "Predictor":
        """Return it with n more features at a place, which do nothing, or without -n from there."""
        forms = {
            name: {**form, "profiles": resized(form["profiles"], at, n).tolist()}
            for name, form in self.forms.items()
        }
        weights = (
            self.lag_weights if self.lag_weights.ndim == 1 else resized(self.lag_weights, at, n)
        )
        return replace(self, theta=resized(self.theta, at, n), lag_weights=weights, forms=forms)

    def residuals(self, rows: AlignedRounds) -> Floats:
        """Return y less its prediction, (n_places,); see `residuals`."""
        return residuals(rows, self.theta, self.lag_weights, self.beside)

    def errors(self, rows: AlignedRounds) -> Floats:
        """Return the one-step prediction errors, (n_places,): `innovations` of the residuals."""
        return innovations(rows, self.residuals(rows), self.autocorrelation)


def residuals(rows: AlignedRounds, theta: Floats, weights: Floats, effects: Floats) -> Floats:
    """Return the residuals of docs/model.md (1.1) with a baseline and covariates, (n_places,).

    Residuals are y_t - b'z_t - sum_k w_k <xi_{t-k}, theta>, zero where there is no row. Lag weights
    beyond `rows.n_lags` are ignored; they may be profiles, as in `signal_of`. `effects` are b: the
    baseline per round, and the effects of the covariates, of which the last ones may lack: 0.
    """
    beside = rows.beside[:, : len(effects)]
    signal = signal_of(rows.contexts, theta, weights[: rows.n_lags])
    return np.where(rows.number > 0, rows.y - signal - beside @ effects, 0.0)
