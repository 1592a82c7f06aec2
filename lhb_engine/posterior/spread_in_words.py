"""How far trajectories' own responses differ, in a sentence."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lhb_engine.posterior.own_responses import SHOWN

NOTHING = 0.2  # of theta
MOST_NAMED = 3
LEAST_EFFECT = 0.05  # of theta: a spread is told as a share of no smaller number


def differing(own: dict[str, Any]) -> list[int]:
    """Return the features in whose effect trajectories differ, by an estimate's `own`, in order."""
    order = np.argsort(-np.array(own["spread"])).tolist()
    clear = [i for i in order if own["intervals"][i][0] > 0.0]
    return clear or order[: own["gain"] >= SHOWN]


def spread_in_words(own: dict[str, Any], theta: Sequence[float], names: Sequence[str]) -> str:
    """Say of an estimate's `own` by feature how far trajectories differ, or that they do not.

    `names` are those of the features; one without a name is called by its number.
    """
    if own.get("groups"):
        of_groups = _where("Groups", own["groups"], theta, names)
        within = spread_in_words({**own, "groups": None}, theta, names)
        return f"{of_groups} Within groups: {within}"
    if differing(own):
        return _where("Trajectories", own, theta, names)
    most = float(np.linalg.norm(np.array(own["intervals"])[:, 1]))
    bound = f"(by less than {most:.0%} of what works for all)"
    if most < NOTHING:
        return (
            f"Trajectories do not differ in what works for them {bound}: it costs nothing to "
            "leave `own` on."
        )
    return f"Whether trajectories differ in what works for them is not known yet {bound}."


def _where(who: str, spread: dict[str, Any], theta: Sequence[float], names: Sequence[str]) -> str:
    said, differ = [], differing(spread)
    for i in differ[:MOST_NAMED]:
        name = names[i] if i < len(names) else f"feature {i}"
        by = _by(spread["spread"][i], spread["intervals"][i], theta[i])
        said.append(f"in what {name} does {by}")
    left = len(differ) - len(said)
    said += [f"in {left} more feature{'s'[left == 1 :]}"] if left else []
    return f"{who} differ {', and '.join(said) or 'in what works for them'}."


def _by(spread: float, ends: Sequence[float], effect: float) -> str:
    low, high = ends
    size = abs(effect)
    if size < LEAST_EFFECT:
        return f"by {spread:.2g} ({low:.2g} to {high:.2g}), where all of theta is 1"
    return f"by {spread / size:.0%} of its mean effect ({low / size:.0%} to {high / size:.0%})"
