"""How often what is said of own responses holds: spreads, users' theta, groups, and their means.

Theta and the lag weights are known, and all users are offered and choose by everybody's theta: a
user's choices say nothing of the user's response but by rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.posterior.own_responses import Evidence, Responses, spread_of
from lhb_engine.posterior.predictor import SHOWN

DIM, N_ARMS, N_LAGS, ACTIVE, NOISE = 5, 10, 12, 3, 0.1
SURE = 1.96
NEW = 100  # users without a reward, of each group
SHARES = ("spreads", "users", "new", "groups", "means")
HEADER = (
    "| world | spreads | users' theta | new users' theta | groups' spreads | groups' means |\n"
    "|-|-|-|-|-|-|"
)


@dataclass(frozen=True)
class ResponsesWorld:
    """Users, and how far they, and the groups that they are of, differ in theta, of unit length."""

    users: int
    rounds: int
    spread: float
    groups: int = 0
    apart: float = 0.0

    @property
    def name(self) -> str:
        """What a table calls the world."""
        of = f", {self.groups} groups {self.apart:g} apart" if self.groups else ""
        return f"{self.users} users of {self.rounds} rounds, {self.spread:g}{of}"


WORLDS = (
    *(ResponsesWorld(*size, 0.3) for size in ((12, 60), (60, 60), (60, 10), (300, 10))),
    ResponsesWorld(60, 60, 1.0),
    ResponsesWorld(60, 40, 0.3, 3, 0.5),
    ResponsesWorld(30, 40, 0.3, 6, 0.5),
    ResponsesWorld(300, 12, 0.3, 6, 0.5),
    ResponsesWorld(60, 40, 0.3, 12, 0.5),
    ResponsesWorld(300, 12, 0.3, 20, 0.5),
)


def play(world: ResponsesWorld, seed: int) -> dict[str, list[bool]]:
    """Return which of the intervals of one drawn world hold, by what they are of."""
    rng = np.random.default_rng([33, seed])
    theta = rng.standard_normal(DIM)
    theta /= np.linalg.norm(theta)
    spread, apart = world.spread / DIM**0.5, world.apart / DIM**0.5
    place = np.arange(world.users) % max(world.groups, 1)
    means = theta + apart * rng.standard_normal((max(world.groups, 1), DIM))
    if not world.groups:
        means[:] = theta
    own = means[place] + spread * rng.standard_normal((world.users, DIM))
    found = _evidence(world, theta, own, place, rng)
    said = spread_of(found, shifts=True, by=":" if world.groups else None)
    assert said is not None
    told, holds = said.to_json(), {}
    ends = np.array(told["intervals"])
    of_groups = told.get("groups")
    true = spread if of_groups or not world.groups else np.hypot(spread, apart)
    holds["spreads"] = _inside(ends, true)
    responses = Responses.of(told)
    if responses is not None and told["gain"] >= SHOWN:
        left = found.product - found.gram @ said.shift
        about = theta + said.shift + responses.deltas(found._replace(product=left))
        error = SURE * responses.errors(found)
        holds["users"] = (np.abs(about - own) <= error).ravel().tolist()
        holds["new"] = []
        for g, mean in enumerate(means):
            nothing = Evidence.nothing(f"{g}:new", DIM)
            new = mean + spread * rng.standard_normal((NEW, DIM))
            away = np.abs(theta + said.shift + responses.deltas(nothing) - new)
            holds["new"] += (away <= SURE * responses.errors(nothing)).ravel().tolist()
    if of_groups:
        holds["groups"] = _inside(np.array(of_groups["intervals"]), apart)
        names = [str(g) for g in range(world.groups)]
        about = theta + said.shift + [of_groups["means"][name] for name in names]
        error = SURE * np.array([of_groups["errors"][name] for name in names])
        holds["means"] = (np.abs(about - means) <= error).ravel().tolist()
    return holds


def _inside(ends: Floats, value: float) -> list[bool]:
    return [bool(low <= value <= high) for low, high in ends]


def _evidence(
    world: ResponsesWorld, theta: Floats, own: Floats, place: Any, rng: np.random.Generator
) -> Evidence:
    n, m = world.users, world.rounds
    contexts = rng.uniform(-1.0, 1.0, (n, m, N_ARMS, DIM))
    arms = (contexts @ theta).argmax(axis=2)
    chosen = np.take_along_axis(contexts, arms[:, :, None, None], 2)[:, :, 0]
    carried = np.zeros((n, m, DIM))
    for k in rng.choice(N_LAGS, ACTIVE, replace=False).tolist():
        carried[:, k:] += chosen[:, : max(m - k, 0)] / ACTIVE
    left = np.einsum("nmd,nd->nm", carried, own - theta) + NOISE * rng.standard_normal((n, m))
    keys = np.array([f"{g}:{i:04}" for i, g in enumerate(place)], dtype=object)
    gram = np.einsum("nmi,nmj->nij", carried, carried)
    product = np.einsum("nmi,nm->ni", carried, left)
    return Evidence(gram, product, (left**2).sum(axis=1), np.full(n, float(m)), keys)


def run(seeds: range, progress: Callable[[str], None] = lambda line: None) -> list[dict[str, Any]]:
    """Return of each world the shares that hold, each with the standard error over draws."""
    rows = []
    for world in WORLDS:
        every = [play(world, seed) for seed in seeds]
        row: dict[str, Any] = {"world": world.name}
        for name in SHARES:
            each = [float(np.mean(one[name])) for one in every if name in one]
            if len(each) > 1:
                row[name] = [float(np.mean(each)), float(np.std(each, ddof=1) / len(each) ** 0.5)]
        rows.append(row)
        cells = (row.get(name) for name in SHARES)
        shown = " | ".join(f"{cell[0]:.3f} ± {cell[1]:.3f}" if cell else "-" for cell in cells)
        progress(f"| {world.name} | {shown} |")
    return rows
