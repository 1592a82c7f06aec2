"""What a check of the model says."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

# in the order of what they cost
Code = Literal[
    "rewards_early",
    "rewards_of_others",
    "responses_differ",  # what an option mends may hide all effects
    "levels_differ",
    "trend",
    "season",
    "no_effect",
    "arms_alike",
    "shared_with_rewards",
    "rewards_missing",
    "rewards_limited",
    "repetition",
    "trajectories_end",
    "offers_follow",
    "covariates_follow",
    "earns_less",
    "known_before",
    "pays_now_costs_later",
    "horizon_short",
    "scores_curved",
    "lags_change",
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
    harmonics: int | None = None
    features: tuple[int, ...] = ()
    lags: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        out = asdict(self)
        return out | {"features": list(self.features), "lags": list(self.lags)}


Missing = Literal["rows", "turns", "sets", "features", "found", "shared"]
WHY: dict[Missing, str] = {
    "rows": "there are too few rewards, or trajectories, that would tell",
    "turns": "too few trajectories decide at about the same time",
    "sets": "what else there was to choose is known of too few rounds (a log: chosen arms alone)",
    "features": "there are too many features",
    "found": "what was found, once it is mended, may explain what they would see",
    "shared": "what all arms share moves rewards, and may do so in later rounds",
}
ASKED: dict[Code, str] = {  # the trouble that a check looks for
    "rewards_early": "rewards that depend on later choices",
    "rewards_of_others": "rewards that are reported for other trajectories",
    "arms_alike": "arms that are all alike",
    "shared_with_rewards": "rewards that move with what all arms share",
    "rewards_missing": "rewards that are missing after some choices",
    "trajectories_end": "choices that people leave after",
    "offers_follow": "offers that depend on earlier choices",
    "known_before": "rewards that are known before the choice",
    "horizon_short": "choices that pay beyond the horizon",
    "scores_curved": "features that work together",
    "rewards_limited": "rewards that run into a limit",
    "lags_change": "lags that change",
    "responses_differ": "trajectories that respond differently",
    "levels_differ": "trajectories of different levels",
    "trend": "a growth or fall over time, in the longest trajectory, that is not told",
    "season": "a swing that repeats, in the longest trajectory, and is not told",
    "features_alike": "features that always change together",
    "profiles_differ": "features that pay at other times than the others",
}


@dataclass(frozen=True)
class Unchecked:
    """Checks that could not be made, which says nothing of what they would find."""

    codes: tuple[Code, ...]
    missing: Missing


def unchecked_json(checks: Iterable[Unchecked]) -> list[dict[str, Any]]:
    """Return checks that could not be made as JSON objects, one for each thing that is missing."""
    codes: dict[Missing, list[Code]] = {}
    for one in checks:
        codes.setdefault(one.missing, []).extend(one.codes)
    return [
        {
            "missing": missing,
            "codes": [*dict.fromkeys(some)],
            "message": f"Not checked, as {WHY[missing]}: "
            f"{', '.join(ASKED[code] for code in dict.fromkeys(some))}.",
        }
        for missing, some in codes.items()
    ]


def checked_said(left_out: Iterable[str]) -> str:
    """Return which checks were made and found nothing: all but those that are `left_out`.

    No check looks for "shared_with_rewards": fits take it out where it can be known.
    """
    some = {*left_out, "shared_with_rewards"}
    questions = [words for code, words in ASKED.items() if code not in some]
    return f"Looked for, and not found: {', '.join(questions)}."


def named(features: Sequence[int]) -> str:
    """Return the features in words."""
    return f"Feature{'s'[len(features) == 1 :]} {_listed([str(feature) for feature in features])}"


def by_names(message: str, features: Sequence[int], names: Sequence[str]) -> str:
    """Return a finding's message in which its features have their names, if all have one."""
    if not features or max(features) >= len(names):
        return message
    called = {str(feature): f'"{names[feature]}"' for feature in features}

    def by_name(numbers: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda number: called.get(number[0], number[0]), numbers[0])

    return re.sub(r"(?<=eature |atures )\d+(?:(?:, \d+)* and \d+)?\b", by_name, message)


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]][len(words) == 1 :])
