"""What a check of the model says."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Code = Literal[
    "season",
    "trend",
    "errors_correlated",
    "features_alike",
    "known_before",
    "horizon_short",
    "lags_change",
    "profiles_differ",
    "pays_now_costs_later",
]


@dataclass(frozen=True)
class Finding:
    """One check that failed: which, and in a sentence or two what was seen and what to do.

    The period of a season is in rounds of a trajectory; features and lags count from 0.
    """

    code: Code
    message: str
    period: float | None = None
    features: tuple[int, ...] = ()
    lags: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        out = asdict(self)
        return out | {"features": list(self.features), "lags": list(self.lags)}
