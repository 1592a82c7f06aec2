"""The result of a fit, with what supports it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from lhb_engine.design.products import Products, products_of
from lhb_engine.history import Floats, Ints

PLACES = 2048  # that are summed at once: what a processor's own cache holds
ARRAYS = ("theta", "lag_weights", "candidates", "lag_profiles")
# how the lag profiles of features are shaped
LagForm = Literal["shared", "sparse", "smooth"]
FEW_LAGS = "Only {} of {} lags have been fitted so far."
# findings with which nobody can tell what choices pay
UNTOLD = {
    "rewards_early": "Rewards come before choices that cause them: what these pay is not known.",
    "repetition": "What a choice pays changes with what was chosen lately.",
    "rewards_of_others": "Rewards do not go with their own trajectory's choices: what these pay is "
    "not known.",
    "season": "Rewards repeat whatever is chosen, and fits are not told: what choices pay is not "
    "told apart from that.",
    "horizon_short": "Choices pay beyond the horizon: what they earn in all is not known.",
    "scores_curved": "Products of features pay that do not count: what choices pay is not known.",
}
IN_DOUBT = ("earns_less", *UNTOLD)
GAIN_UNTOLD = UNTOLD | {
    "rewards_limited": "Rewards run into a limit: what choices earn is not known.",
    "rewards_missing": "Whether a reward comes depends on choices: what they earn is not known.",
    "trajectories_end": "Choices change how long trajectories last: what they earn in all is not "
    "known.",
    "offers_follow": "What is offered follows from choices: what they earn over chance is not "
    "known.",
}
UNCLEAR = "Whether rewards go with their own trajectory's choices is not clear yet."
Status = Literal["ok", "zero", "insufficient_data"]


@dataclass(frozen=True)
class Estimate:
    """The result of one fit.

    Attributes
    ----------
    status : "ok", "zero" or "insufficient_data"
        "zero": the fit installs nothing new, and `message` says why: no lag is in the model, or
        the agent's own direction still holds. "insufficient_data": no fit was possible.
    theta : (dim + n,) array or None
        Unit direction, of the features and of n `products`; None unless status is "ok".
    lag_weights : (n_lags,) array
        Lag weights with theta's scale, >= 0 unless the agent's option `signed` is set.
    active_lags : tuple of int
        Lags that pass the test for reporting (docs/model.md, 5).
    design : "full", "undifferenced" or "differenced"
        The rows that were used.
    intercept : float or None
        Baseline per round, in units of reward; None where none was fitted.
    lam, lambda_max, sigma_hat : float or None
        Regularisation strength; the smallest one that gives phi = 0; standard deviation of the
        noise.
    duality_gap : float or None
        Relative duality gap of the block Lasso.
    n_iterations, converged : int, bool
        Iterations of the solver, and whether it met its tolerance.
    singular_ratio : float or None
        sigma_1 / sigma_2 of Phi; large where one direction describes it well.
    sign_margin : float or None
        |sum v| / |v|_1 of the implied lag weights v before they are clipped at 0; where it is
        small, theta's sign is uncertain.
    n_rows, n_missing : int
        Measurements used; rounds of the window that no measurement covers.
    first_round, last_round : int
        Rounds of the session that are covered.
    seconds : float
        Wall time, filled in by the caller of the fit.
    message : str
        One or two sentences for people.
    diagnostics : dict
        Further JSON-able values by name.
    candidates : (n_candidates, dim) array or None
        Directions that decisions take in turn, instead of theta, so that all arms stay in play
        until it is known which is best. None: decisions are by theta.
    intervals, gain, totals, levels : dict or None
        95% intervals, or bands of posterior draws (`drawn`); what choices earn a round; what an
        action pays in all lags together; how far trajectories' levels differ. The members are those
        of `IntervalsAnswer`, `GainAnswer`, `TotalsAnswer` and `LevelsAnswer` of
        clients/sdk/answers.py. None where not known.
    no_intervals, no_gain, no_totals : str or None
        Why an estimate with a direction has none of these, none of some weights, or `drawn` ones.
    effects : dict or None
        What covariates do, as `EffectsAnswer`, without names. None without covariates.
    own : dict or None
        How trajectories' responses differ, as `OwnAnswer`, without a message. None where the agent
        is not told of them, or trajectories are few.
    products : tuple of pairs of int
        Features whose products were fitted beside them, as further ones after all others.
    form : "shared", "sparse", "smooth" or None
        How the lag profiles are shaped: alike for all features, phi = w theta', or each feature's
        own, with few lags or smooth. None where the agent does not choose.
    lag_profiles : (n_lags, dim) array or None
        phi: what each feature pays at each lag, where these are of its own; theta is then the
        direction of its sum over lags, and `lag_weights` the profile of that direction. With a
        presample a last column is what that pays.
    forms : dict or None
        By its name each form that was fitted: its `profiles`, `effects` and `autocorrelation`, and
        how it predicted, `excess` and its `variance` (docs/model.md (14.4)).
    findings, unchecked : list of dict
        What checks of the model find on the latest rows, and which could not be made (docs/model.md
        12), as `FindingAnswer` and `UncheckedAnswer`. Only `Agent.checked_fit` checks.
    """

    status: Status
    lag_weights: Floats
    theta: Floats | None = None
    active_lags: tuple[int, ...] = ()
    design: str = "full"
    intercept: float | None = None
    lam: float | None = None
    lambda_max: float | None = None
    sigma_hat: float | None = None
    duality_gap: float | None = None
    n_iterations: int = 0
    converged: bool = True
    singular_ratio: float | None = None
    sign_margin: float | None = None
    n_rows: int = 0
    n_missing: int = 0
    first_round: int = 0
    last_round: int = 0
    seconds: float = 0.0
    message: str = ""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    candidates: Floats | None = None
    intervals: dict[str, Any] | None = None
    no_intervals: str | None = None
    gain: dict[str, Any] | None = None
    no_gain: str | None = None
    totals: dict[str, Any] | None = None
    no_totals: str | None = None
    effects: dict[str, Any] | None = None
    levels: dict[str, Any] | None = None
    own: dict[str, Any] | None = None
    products: Products = ()
    form: LagForm | None = None
    lag_profiles: Floats | None = None
    forms: dict[LagForm, Any] | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    unchecked: list[dict[str, Any]] = field(default_factory=list)

    def with_checks(
        self, findings: list[dict[str, Any]], unchecked: list[dict[str, Any]]
    ) -> "Estimate":
        """Return it with what the checks found; what a finding makes doubtful is not said."""
        checked = replace(self, findings=findings, unchecked=unchecked)
        unclear = "" if checked.is_clear else UNCLEAR
        if no_gain := untold_by(findings, GAIN_UNTOLD) or unclear:
            checked = replace(checked, gain=None, no_gain=no_gain)
        untold = untold_by(findings) or unclear
        if not untold:
            return checked
        none = dict.fromkeys(self.diagnostics.keys() & {"angle", "angle_95"})
        return replace(
            checked,
            message=untold if self.status == "ok" else self.message,
            diagnostics=self.diagnostics | none,
            totals=None,
            no_totals=untold,
            intervals=None,
            no_intervals=untold,
        )

    def without_direction(self, status: Status, message: str) -> "Estimate":
        """Return an estimate that installs nothing, of the same rows; the message says why."""
        names = ("theta", "candidates", "intervals", "gain", "totals", "form", "forms")
        none: dict[str, Any] = dict.fromkeys((*names, "lag_profiles"))
        zero = np.zeros_like(self.lag_weights)
        return replace(
            self, status=status, message=message, lag_weights=zero, active_lags=(), **none
        )

    @property
    def in_doubt(self) -> bool:
        """Whether what was forecast did not come, or choices earn what nobody can tell."""
        doubts = any(one["code"] in IN_DOUBT for one in self.findings)
        return doubts or bool((self.diagnostics or {}).get("alarm"))

    @property
    def is_clear(self) -> bool:
        """Whether effects stand out in what each chooses, and not only in what all do."""
        lack = [one["missing"] for one in self.unchecked if "rewards_of_others" in one["codes"]]
        return "rows" not in lack or not self.diagnostics.get("stands_out", True)

    @property
    def curves(self) -> Products:
        """The products that checks found."""
        curved = (one for one in self.findings if one["code"] == "scores_curved")
        return tuple((one["features"][0], one["features"][-1]) for one in curved)

    @property
    def pays(self) -> Floats:
        """What actions pay at each lag: lag weights (n_lags,), or profiles (n_lags, dim)."""
        if self.lag_profiles is None or self.theta is None:
            return self.lag_weights
        return self.lag_profiles[:, : len(self.theta)]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; `from_json` restores its floats to the bit."""
        out = {one.name: getattr(self, one.name) for one in fields(self)}
        arrays = {name: out[name].tolist() for name in ARRAYS if out[name] is not None}
        pairs = [list(pair) for pair in self.products]
        return out | arrays | {"active_lags": list(self.active_lags), "products": pairs}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Estimate":
        """Invert `to_json`; unknown keys are ignored."""
        values = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        values["active_lags"] = tuple(values.get("active_lags", ()))
        values["products"] = products_of(values.get("products", ()))
        for name in ARRAYS:
            value = values.get(name)
            values[name] = None if value is None else np.array(value, dtype=np.float64)
        return cls(**values)


def untold_by(findings: Sequence[Mapping[str, Any]], untold: Mapping[str, str] = UNTOLD) -> str:
    """Return why nobody can tell what choices pay with these findings; empty where one can."""
    return next((untold[one["code"]] for one in findings if one["code"] in untold), "")


def first_lags(profiles: Floats) -> Ints:
    """Return how many lags of each feature are its first ones, (n_lags, dim) -> (dim,).

    First lags are those up to which the profile adds up most to the other side of its total: what
    is paid for later. A profile that never turns has one first lag, the decision's own round.
    """
    turned = np.sign(profiles.sum(axis=0)) * np.cumsum(profiles, axis=0)
    return np.asarray(1 + np.argmin(turned, axis=0), np.int64)


def lagged_sums(contexts: Floats, weights: Floats) -> Floats:
    """Return sum_k w_k xi_(t-k) of each round, (n, dim); weights are (n_lags,) or (n_lags, dim)."""
    out, lags = np.zeros_like(contexts), np.unique(np.nonzero(weights)[0]).tolist()
    for start in range(0, len(out), PLACES):
        stop = min(start + PLACES, len(out))
        for lag in lags:
            if (begin := max(start, lag)) < stop:
                out[begin:stop] += weights[lag] * contexts[begin - lag : stop - lag]
    return out


def signal_of(contexts: Floats, theta: Floats, weights: Floats) -> Floats:
    """Return sum_k w_k <xi_{t-k}, theta> of each round, (n,), from contexts (n, dim).

    A matrix (n_lags, dim) of weights is of lag profiles, phi: it stands for the product of lag
    weights and theta, which is then ignored.
    """
    of = (contexts @ theta)[:, None] if weights.ndim == 1 else contexts
    parts = map(np.convolve, of.T, weights.reshape(-1, of.shape[1]).T)
    return np.asarray(np.sum([*parts], axis=0)[: len(contexts)])
