"""Lift: whether an agent earns more than a control group, with an interval that may be looked at.

Trajectories are drawn into the two groups. Rounds of a trajectory depend on each other, so the
trajectory is the unit: its rounds and its rewards are two totals, and a group is the sum of their
products over its trajectories.
"""

import sys
from dataclasses import dataclass
from math import inf, lgamma, log, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from lhb_engine.evaluation.batch_ratio import CONFIDENCE, Refusal
from lhb_engine.history import Floats

# Prior weights of the bound's slopes, and the slopes over that of the planned end. The first is
# best at the end; the others keep the bound from growing without need long before and after.
SLOPES = ((0.7, 1.0), (0.12, 3.0), (0.06, 9.0), (0.08, 1.0 / 3.0), (0.04, 1.0 / 9.0))
STEPS = 50  # of Newton's method; it needs 5 to 12
TOLERANCE = 1e-12  # of the log of M
MIN_TRAJECTORIES = 30  # of a group, below which its variance is not known
LEAST_EVEN = 10  # of a group, where few carry the rounds: its interval would be too narrow
UNLIKE = 5.0  # standard errors of a difference of rounds a trajectory, beyond which there is one
LARGEST = sys.float_info.max
PAST = 2  # covariates of a trajectory's own past
OWN_ROUNDS = 4.0  # of a trajectory's past, with as much weight as the mean of all
ALIKE = 1e-10  # relative size of what tells covariates apart, below which nothing does
LACKS = 1.5  # power of (13.5): above 1, for units with more rounds often differ more a round, too
POWER = 0.8415998  # normal quantile of 80%


def always_valid_quantile(share: Floats, level: float = 0.95) -> Floats:
    """Return z of docs/model.md (13.3): the quantile in place of 1.96 where one looks at any time.

    `share` (n,) is information so far over that at the planned end, above 0; it may pass 1. Half
    the width of the interval, in standard errors, is 2.8 at the planned end for 95%.

    M_f(x) = sum_k p_k cosh(l_k x) exp(-l_k^2 f / 2) is a martingale where x is Brownian motion at
    time f, and begins at 1. By Ville's inequality it ever reaches 1 / (1 - level) with probability
    1 - level at most. The bound is the x at which it does; z is x over the root of f.
    """
    share = np.asarray(share, dtype=np.float64)
    if not (share > 0).all():
        raise ValueError("share: must be above 0")
    best = sqrt(2.0 * log(2.0 / (1.0 - level)))
    prior, slopes = np.array(SLOPES).T
    slopes = slopes * best

    scaled = np.sqrt(share)[:, None] * slopes
    paid = np.log(prior / 2.0) - 0.5 * scaled**2 + log(1.0 - level)
    # The first slope's own bound lies above. Newton's steps from there stay above, for the log of M
    # is convex in z.
    z = 1.0 + 0.5 * best * np.sqrt(share) + (best + 2.0) / np.sqrt(share)
    for _ in range(STEPS):
        x = z[:, None] * scaled
        terms = paid + x + np.log1p(np.exp(-2.0 * x))  # cosh x = exp(x) (1 + exp(-2x)) / 2
        excess = np.logaddexp.reduce(terms, axis=1)
        slope = (np.exp(terms - excess[:, None]) * scaled * np.tanh(x)).sum(axis=1)
        z = z - excess / slope
        if (excess <= TOLERANCE).all():
            break
    return z


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Sums over a group's trajectories. Sums of disjoint sets of trajectories add up.

    `totals` (2 + k,) are measured rounds, rewards, and k covariates, which take variance away and
    must not depend on the group: what a model predicts, and what a trajectory's own past says (two,
    the last ones; see `of_past`). `products` add the products of trajectories' totals. Numbers are
    floats, or fractions. Of fractions, residuals are exact until they are rounded.
    """

    n_trajectories: int
    totals: Floats
    products: Floats

    @classmethod
    def of(cls, rounds: Floats, rewards: Floats, *covariates: Floats) -> "GroupSums":
        """Make the sums of trajectories with these totals, (n,) each."""
        rows = np.stack([rounds, rewards, *covariates], axis=1).astype(np.float64)
        measured = rows[rows[:, 0] > 0]
        return cls(len(measured), measured.sum(axis=0), measured.T @ measured)

    @property
    def rounds(self) -> float:
        """Number of measured rounds."""
        return float(self.totals[0])

    def in_all(self) -> "GroupSums":
        """Return the sums of trajectories that each count as one round, with all rewards.

        Covariates are left out, for these are as large as there are rounds.
        """
        n, total = self.n_trajectories, self.totals[1]
        products = np.array([[n, total], [total, self.products[1, 1]]])
        return GroupSums(n, np.array([n, total]), products)

    def means(self) -> Floats:
        """Return the mean reward, and the mean of each covariate, a round: (1 + k,)."""
        return _floats(self.totals[1:] / self.totals[0])

    def residuals(self) -> Floats:
        """Return the products of totals less mean times rounds, by docs/model.md (13.1)."""
        means = self.totals[1:] / self.totals[0]
        change = np.column_stack([-means, np.eye(len(means), dtype=np.int64)])
        spread = _floats(change @ self.products @ change.T)
        return np.asarray(spread * self.n_trajectories / (self.n_trajectories - 1.0))


def _floats(numbers: Any) -> Floats:
    """Return the nearest floats of numbers, infinity for those beyond the largest."""
    try:
        return np.asarray(numbers, dtype=np.float64)
    except OverflowError:
        flat = [one if abs(one) <= LARGEST else inf for one in numbers.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(numbers.shape)


class Narrowing(NamedTuple):
    """How the standard error falls with more rounds.

    `lasting` is the share of its square that more rounds of the same units leave, None where that
    is not seen yet; `growth` by how many times as fast as rounds the units grow, 0 to 1.
    """

    lasting: float | None
    growth: float

    def by(self, times: Floats) -> Floats:
        """Return the factor of the standard error where there are so many times the rounds."""
        units = 1.0 + self.growth * (times - 1.0)
        lasting = 1.0 if self.lasting is None else self.lasting
        return np.asarray(np.sqrt((lasting + (1.0 - lasting) * units / times) / units))


@dataclass(frozen=True, slots=True)
class Lift:
    """What the agent's group earns beside the control group: a round, or a trajectory in all."""

    # agent, control: mean reward of each group, after adjustment
    agent: float
    control: float
    # difference, low, high: agent less control, and its interval
    difference: float
    low: float
    high: float
    # ratio, ratio_low, ratio_high: agent over control, and its interval; None where control may be
    # zero
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    standard_error: float  # of the difference
    variance_taken: float  # share of the variance that the covariates took away, 0 to 1
    # share of the interval's width that the trajectories' own past took away, beside the prediction
    narrowed_by_past: float
    share: float  # measured rounds over planned rounds
    level: float

    def rounds_to_go(self, effect: float, rounds: float, narrowing: Narrowing) -> float:
        """Return how many more rounds show a difference of this size, in 80 of 100 experiments.

        `effect` is in rewards a round; `rounds` are measured so far.
        """
        effect = abs(effect)
        if effect == 0.0:
            return inf
        grid = np.geomspace(1.0, 1e8, 2000)
        z = always_valid_quantile(self.share * grid, self.level)
        errors = self.standard_error * narrowing.by(grid)
        shown = np.flatnonzero((z + POWER) * errors <= effect)
        return inf if not len(shown) else float(rounds * (grid[shown[0]] - 1.0))


def lift(
    agent: GroupSums,
    control: GroupSums,
    planned_rounds: float,
    level: float = CONFIDENCE,
    units: str = "trajectories",
    *,
    in_all: bool = False,
) -> Lift | Refusal:
    """Return the lift with an interval that holds at every look, or why there is none.

    This is docs/model.md (13.1) to (13.4). `planned_rounds` are the measured rounds of both groups
    together at which the interval is to be narrowest, chosen before one looks; `level` is the
    probability with which all intervals that are ever looked at hold the truth together. `units` is
    what a reason calls the units. `in_all` compares what a unit brings in all, not a round.
    """
    fewest = min(agent.n_trajectories, control.n_trajectories)
    if fewest < MIN_TRAJECTORIES:
        who = "control" if control.n_trajectories == fewest else "the agent"
        return Refusal(f"{who} has {fewest} {units} with rewards; {MIN_TRAJECTORIES} are needed")
    share = (agent.rounds + control.rounds) / planned_rounds
    groups = (agent, control)
    counts = np.array([one.n_trajectories for one in groups], dtype=np.float64)
    rounds = np.array([one.rounds for one in groups])
    squares = np.array([float(one.products[0, 0]) for one in groups])
    # the factor of each group's variance, at least 1: docs/model.md (13.5)
    of_all = counts.sum() * squares.sum() / rounds.sum() ** 2
    lacks = np.maximum(1.0, of_all / (counts * squares / rounds**2)) ** LACKS
    # as how many trajectories of equally many rounds the smaller group counts, J / c
    even = counts.min() / counts.sum() * rounds.sum() ** 2 / squares.sum()
    if even < LEAST_EVEN:
        few = f"few {units} carry the rounds: a group counts as {even:.0f} even ones"
        return Refusal(f"{few}; {LEAST_EVEN} are needed")
    if in_all:
        agent, control = agent.in_all(), control.in_all()
    n = np.array([agent.rounds, control.rounds])
    spread = np.stack([agent.residuals(), control.residuals()])
    if not np.isfinite(spread).all():
        return Refusal("the rewards are too large: their squares exceed the largest number")
    scaled = spread / n[:, None, None] ** 2  # (2, 2, 2): by group, reward and prediction
    scaled *= lacks[:, None, None]
    both = scaled.sum(axis=0)
    slopes = _slopes(both)
    variance = _variance(scaled, slopes)  # (2,): of each group's adjusted mean
    unaware = float(_variance(scaled, _slopes(both, PAST)).sum())
    means = np.stack([agent.means(), control.means()])
    middle = _floats(agent.totals[2:] + control.totals[2:]) / n.sum()
    adjusted = means[:, 0] - (means[:, 1:] - middle) @ slopes
    z = float(always_valid_quantile(np.array([share]), level)[0])
    error = sqrt(float(variance.sum()))
    difference = float(adjusted[0] - adjusted[1])
    low, high = _ratio_interval(adjusted, z * np.sqrt(variance))
    return Lift(
        agent=float(adjusted[0]),
        control=float(adjusted[1]),
        difference=difference,
        low=difference - z * error,
        high=difference + z * error,
        ratio=None if low is None else float(adjusted[0] / adjusted[1]),
        ratio_low=low,
        ratio_high=high,
        standard_error=error,
        variance_taken=float(1.0 - variance.sum() / both[0, 0]) if both[0, 0] > 0.0 else 0.0,
        narrowed_by_past=max(0.0, 1.0 - error / sqrt(unaware)) if unaware > 0.0 else 0.0,
        share=share,
        level=level,
    )


def of_past(rounds: Floats, rewards: Floats) -> Floats:
    """Return the two covariates a round of trajectories with these totals before the trial, (2, n).

    They span the best prediction of a trajectory's mean from its own past, whatever the mean of
    all: docs/model.md (13.7). Without a past both are 0: what is predicted is the mean.
    """
    return np.stack([rounds, rewards]) / (np.asarray(rounds) + OWN_ROUNDS)


def _slopes(both: Floats, n_left_out: int = 0) -> Floats:
    """Return the slope of the reward on each covariate, (k,), 0 on the last ones if left out."""
    slopes = np.zeros(len(both) - 1)
    size = np.sqrt(np.maximum(np.diagonal(both)[1:], 0.0))  # rounding may leave less than nothing
    used = np.flatnonzero(size[: max(len(size) - n_left_out, 0)] > 0.0)
    scale, place = size[used], used + 1
    alike = both[np.ix_(place, place)] / np.outer(scale, scale)
    slopes[used] = np.linalg.lstsq(alike, both[place, 0] / scale, rcond=ALIKE)[0] / scale
    return slopes


def _variance(scaled: Floats, slopes: Floats) -> Floats:
    """Return the variance of each group's adjusted mean, (2,)."""
    change = np.append(1.0, -slopes)
    # rounding may leave less than nothing of it
    return np.asarray(np.maximum(change @ scaled @ change, 0.0))


def rounds_differ(agent: GroupSums, control: GroupSums) -> bool:
    """Whether trajectories of the two groups have unlike numbers of measured rounds.

    Then choices change how often they come, and a difference a round is not all that choices do.
    """
    if min(agent.n_trajectories, control.n_trajectories) < MIN_TRAJECTORIES:
        return False
    n = np.array([agent.n_trajectories, control.n_trajectories])
    means = np.array([agent.rounds, control.rounds]) / n
    squares = np.array([float(agent.products[0, 0]), float(control.products[0, 0])]) / n
    variance = (np.maximum(squares - means**2, 0.0) / n).sum()
    return bool(abs(means[0] - means[1]) > UNLIKE * sqrt(variance))


def are_drawn_otherwise(n_agent: int, n_control: int, share: float) -> bool:
    """Whether groups of these sizes are hardly ever drawn with this share in control.

    The Bayes factor of an unknown share over the given one passes 1000 with probability 1 in 1000
    at most, however often one looks (docs/model.md (13.6)).
    """
    if not 0.0 < share < 1.0:
        return False
    n = n_agent + n_control
    even = lgamma(n_agent + 1.0) + lgamma(n_control + 1.0) - lgamma(n + 2.0)
    return even - n_control * log(share) - n_agent * log1p(-share) > log(1000.0)


def _ratio_interval(means: Floats, half: Floats) -> tuple[float | None, float | None]:
    """Return Fieller's interval: all ratios r at which m_a - r m_c is within its half width."""
    squares = means**2 - half**2
    if squares[1] <= 0.0:
        return None, None
    product = float(means[0] * means[1])
    root = sqrt(max(product**2 - float(squares[0] * squares[1]), 0.0))
    return (product - root) / float(squares[1]), (product + root) / float(squares[1])
