"""What a fit found, and how well it is supported."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import numpy as np

from lhb_engine.history import Floats

Status = Literal["ok", "zero", "insufficient_data"]


@dataclass(frozen=True)
class Estimate:
    """The result of one fit.

    Attributes
    ----------
    status : "ok", "zero" (phi = 0: theta is kept) or "insufficient_data" (no fit was possible)
    theta : (dim,) unit direction, or None unless status is "ok"
    lag_weights : (n_lags,) array, >= 0 unless asked otherwise; they carry theta's scale
    active_lags : lags that pass the stricter test for reporting (MODEL 5)
    design : which rows were used: "differenced", "undifferenced" or "full"
    intercept : reward baseline a round, or None where none was fitted
    lam, lambda_max, sigma_hat : regularisation strength used, the smallest that gives zero, noise
    duality_gap : relative duality gap of the block Lasso; `converged` says whether it met tol
    singular_ratio : sigma_1 / sigma_2 of Phi (large: well described by one direction)
    sign_margin : |sum v| / |v|_1 of the implied lag weights (small: the sign is a guess)
    n_rows, n_missing : measurements used; rounds of the window that no measurement covers
    first_round, last_round : rounds of the session that are covered
    seconds : wall time, filled in by whoever ran the fit
    message : a plain sentence for people
    diagnostics : further numbers by name
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

    def to_json(self) -> dict[str, Any]:
        """Numbers, strings and lists only; floats survive the round trip to the last bit."""
        out = asdict(self)
        out["lag_weights"] = self.lag_weights.tolist()
        out["theta"] = None if self.theta is None else self.theta.tolist()
        out["active_lags"] = list(self.active_lags)
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Estimate":
        """The inverse of `to_json`; unknown keys are ignored."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        theta = known.get("theta")
        known["theta"] = None if theta is None else np.array(theta, dtype=np.float64)
        known["lag_weights"] = np.array(known["lag_weights"], dtype=np.float64)
        known["active_lags"] = tuple(known.get("active_lags", ()))
        return cls(**known)
