"""What a check of the model says."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

# in the order of what they cost
Code = Literal[
    "rewards_early",
    "no_effect",
    "arms_alike",
    "shared_with_rewards",
    "repetition",
    "earns_less",
    "known_before",
    "pays_now_costs_later",
    "horizon_short",
    "scores_curved",
    "lags_change",
    "responses_differ",
    "levels_differ",
    "trend",
    "season",
    "never_differs",
    "features_alike",
    "profiles_differ",
    "errors_correlated",
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


def named(features: Sequence[int]) -> str:
    """Return the features in words."""
    return f"Feature{'s'[len(features) == 1 :]} {_listed([str(feature) for feature in features])}"


def by_names(message: str, features: Sequence[int], names: Sequence[str]) -> str:
    """Return a finding's message in which its features have their names, if all have one."""
    if not features or max(features) >= len(names):
        return message
    numbers = re.escape(_listed([str(feature) for feature in features]))
    called = _listed([f'"{names[feature]}"' for feature in features]).replace("\\", r"\\")
    return re.sub(rf"(?<=eature |atures ){numbers}\b", called, message, count=1)


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]][len(words) == 1 :])
