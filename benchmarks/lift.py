"""How often the intervals of `lift` hold the truth at every look, and how wide the last one is.

An interval that is withheld cannot fail; `given` is the share of experiments with one at the end.

An experiment has users who arrive over its first half and stay. Its groups are looked at every day
from the day on which both have enough users. It holds if the truth is inside on all days.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.switchback import BLOCK_WORLDS, BlockWorld
from lhb_engine.evaluation.batch_ratio import Refusal
from lhb_engine.evaluation.lift import GroupSums, lift, of_past
from lhb_engine.history import Floats

DAYS, CONTROL = 60, 0.3
LEAST_ROUNDS = 0.3  # a day, of users whose activity differs
NOISE = 1.0  # variance of a round's noise, on the first day
FIXED = 1.959964  # normal quantile of a fixed sample's 95% interval


@dataclass(frozen=True)
class LiftWorld:
    """A world of users.

    Attributes
    ----------
    name : str
    effect : float
        What the agent adds to a round's reward, at the end of a drift if there is one.
    drifts : bool
        Whether the effect grows from 0 on the first day, and everybody's reward with the season.
    level : float
        Standard deviation of the users' own means.
    tail : float
        Degrees of freedom of Student's noise; inf is normal noise.
    growth : float
        By what factor the noise grows from the first day to the last.
    activity : float
        Tail of the Pareto of the users' rounds a day, of which heavier users have higher levels;
        inf is one round a day each.
    control : float
        Share of users in control.
    before : int
        Days before the trial, on which users were there as often: their own past.
    """

    name: str
    effect: float = 0.0
    drifts: bool = False
    level: float = 0.5
    tail: float = np.inf
    growth: float = 1.0
    activity: float = np.inf
    control: float = CONTROL
    before: int = 0

    def experiment(self, n_users: int, seed: int) -> tuple[float, ...]:
        """Return whether all, the last, and all fixed-sample intervals hold; how wide it is; why.

        The last two are the share of the width that the past took away, and what it would be by
        CUPED's formula, 1 - sqrt(1 - rho^2), if the level's and the noise's variances were known.
        """
        return _experiment(self, n_users, seed)


WORLDS: tuple[LiftWorld | BlockWorld, ...] = (
    LiftWorld("no effect"),
    LiftWorld("an effect", effect=0.1),
    LiftWorld("users alike", level=0.0),
    LiftWorld("drift", effect=0.2, drifts=True),
    LiftWorld("heavy tails", effect=0.1, tail=2.5),
    LiftWorld("noise grows tenfold", growth=10.0),
    LiftWorld("few heavy users, control 5%", activity=1.5, control=0.05),
    LiftWorld("few heavy users, control 10%", activity=1.5, control=0.1),
    LiftWorld("few heavy users, control 30%", activity=1.5),
    LiftWorld("a past of 30 days", level=1.0, before=30),
    LiftWorld("a past of 3 days", level=1.0, before=3),
    LiftWorld("few heavy users with a past, control 5%", activity=1.5, control=0.05, before=30),
    LiftWorld("few heavy users with a past, control 10%", activity=1.5, control=0.1, before=30),
    LiftWorld("few heavy users with a past, control 30%", activity=1.5, before=30),
    *BLOCK_WORLDS,
)


def run(
    worlds: Iterable[LiftWorld | BlockWorld],
    n_experiments: int,
    n_users: int,
    first_seed: int,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Measure these worlds: coverage at all looks, and the width of the last interval."""
    rows = []
    for world in worlds:
        found = np.array([world.experiment(n_users, first_seed + i) for i in range(n_experiments)])
        always, at_end, fixed, ratio, adjusted, narrowed, formula = found.T
        given = ~np.isnan(ratio)
        row = {
            "world": world.name,
            "covered": float(always.mean()),
            "covered_error": float(np.sqrt(always.mean() * (1 - always.mean()) / n_experiments)),
            "covered_at_end": float(at_end.mean()),
            "fixed_covered": float(fixed.mean()),
            "given": float(given.mean()),
            "width_ratio": float(np.median(ratio[given])) if given.any() else np.nan,
            "variance_taken": float(np.median(adjusted[given])) if given.any() else np.nan,
            "narrowed_by_past": float(np.median(narrowed[given])) if given.any() else np.nan,
            "formula": float(np.median(formula[given])) if given.any() else np.nan,
        }
        rows.append(row)
        progress(line(row))
    return rows


HEADER = (
    "| world | covers at every look | at the end | fixed sample, every look | given "
    "| width over fixed | variance taken | narrowed by the past | CUPED's formula |\n"
    "|-|-|-|-|-|-|-|-|-|"
)


def line(row: dict[str, Any]) -> str:
    """One row of the table in Markdown."""
    return (
        f"| {row['world']} | {row['covered']:.3f} ± {row['covered_error']:.3f} "
        f"| {row['covered_at_end']:.3f} | {row['fixed_covered']:.3f} | {row['given']:.2f} "
        f"| {row['width_ratio']:.2f} | {row['variance_taken']:.2f} "
        f"| {row['narrowed_by_past']:.2f} | {row['formula']:.2f} |"
    )


def _experiment(world: LiftWorld, n_users: int, seed: int) -> tuple[float, ...]:
    rng = np.random.default_rng([21, seed])
    day = np.arange(DAYS)
    arrives = rng.integers(DAYS // 2, size=n_users)
    present = day >= arrives[:, None]
    in_control = rng.random(n_users) < world.control
    # what the model predicts of a round, whatever is chosen: it explains part of the reward
    predicted = rng.standard_normal((n_users, DAYS)) * 0.5
    effect = world.effect * (day / (DAYS - 1) if world.drifts else np.ones(DAYS))
    common = np.sin(2 * np.pi * day / 7) if world.drifts else np.zeros(DAYS)
    size = world.growth ** (day / (DAYS - 1))
    noise = rng.standard_normal if np.isinf(world.tail) else _student(rng, world.tail)
    rewards = 1.0 + common + predicted + size * noise((n_users, DAYS))
    own = world.level * rng.standard_normal((n_users, 1))  # each user's level
    times = present.astype(np.float64)  # how often each user is there
    if np.isfinite(world.activity):
        rate = LEAST_ROUNDS * (1.0 + rng.pareto(world.activity, n_users))[:, None]
        own += world.level * np.log(rate / LEAST_ROUNDS)
        times *= rng.poisson(rate, present.shape)
    rewards += own
    past = np.full(n_users, float(world.before))
    if np.isfinite(world.activity):
        past = rng.poisson(world.before * rate[:, 0]).astype(np.float64)
    earned = past * (1.0 + own[:, 0]) + np.sqrt(past * NOISE) * rng.standard_normal(n_users)
    rewards[~in_control] += effect
    n = times.cumsum(axis=1)
    totals = [(times * x).cumsum(axis=1) for x in (rewards, predicted)]
    totals += [n * each[:, None] for each in of_past(past, earned)]
    planned = float(n[:, -1].sum())
    truth = (times.sum(axis=0) * effect).cumsum() / np.maximum(times.sum(axis=0).cumsum(), 1.0)
    always = fixed = last = True
    ratio = adjusted = narrowed = np.nan
    for t in day:
        agent, control = (
            GroupSums.of(n[g, t], *(total[g, t] for total in totals))
            for g in (~in_control, in_control)
        )
        found = lift(agent, control, planned)
        if isinstance(found, Refusal):
            ratio = adjusted = narrowed = np.nan
            continue
        off = abs(found.difference - truth[t])
        last = bool(found.low <= truth[t] <= found.high)
        always &= last
        fixed &= bool(off <= FIXED * found.standard_error)
        ratio = (found.high - found.low) / (2 * FIXED * found.standard_error)
        adjusted, narrowed = found.variance_taken, found.narrowed_by_past
    formula = _by_formula(n[:, -1], past, float(own.var()))
    return float(always), float(last), float(fixed), ratio, adjusted, narrowed, formula


def _by_formula(n: Floats, past: Floats, level: float) -> float:
    """Return the share of the width that the past takes away, of users with `n` rounds.

    `level` is the variance of their levels. For users alike it is 1 - sqrt(1 - rho^2).
    """
    if level == 0.0:
        return 0.0
    left = n**2 * level * NOISE / (NOISE + past * level) + n * NOISE
    return float(1.0 - np.sqrt(left.sum() / (n**2 * level + n * NOISE).sum()))


def _student(rng: np.random.Generator, tail: float) -> Callable[[tuple[int, int]], Floats]:
    """Return a source of Student's noise with variance 1."""
    size = np.sqrt((tail - 2.0) / tail)
    return lambda shape: np.asarray(size * rng.standard_t(tail, shape))
