"""The contract of an agent. Read this first.

An agent chooses, is told what came, says when it wants to fit, fits, and installs the result.
`choose` changes nothing; `fit` is slow and pure, and may run in another process; an agent never
remembers "the last decision", so a late reward always finds its own round's data.
"""

from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, Floats, History, Ints
from lhb_engine.randomness import Draw

# where overflow goes unreported: entering this takes a twentieth of np.errstate's time
_QUIET = copy_context()
_QUIET.run(np.seterr, over="ignore", invalid="ignore")


# in_use: the direction of the installed estimate. lapsed: that direction is too old, and arms are
# explored. exploring: arms are explored until there is a first direction. none: nothing is learned
# yet, or ever, and arms are chosen at random.
Deciding = Literal["in_use", "lapsed", "exploring", "none"]


class OptionError(ValueError):
    """An option is unknown or out of range; `option` names it."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}")
        self.option = option
        self.message = message


class Choice(NamedTuple):
    """One decision: the arm, every arm's score, P(arm) under the agent, whether it explored."""

    arm: int
    scores: Floats
    propensity: float
    explored: bool


@dataclass(frozen=True)
class Options:
    """An algorithm's options: frozen, JSON-able fields with a default and a description each.

    Subclasses check ranges in `__post_init__` and raise `OptionError`.
    """


def scores_of(contexts: Floats, theta: Floats) -> Floats:
    """<x, theta> of every arm, (..., K, dim) -> (..., K), in one fixed order of additions.

    Never BLAS: equal arms must get equal scores, whatever the shape and layout of the batch.
    Products in a fresh C-ordered array, then numpy's pairwise sum along it, whose order depends
    on dim alone; einsum's depends on the memory layout and on the machine's vector width.
    """
    return np.asarray(np.add.reduce(np.multiply(contexts, theta, order="C"), axis=-1))


def best_arms(scores: Floats) -> Sequence[int]:
    """Return the arms of the highest of (K,) scores, in order.

    It works on a list: for few arms numpy is slower.
    """
    values: list[float] = scores.tolist()
    highest = max(values)
    n_best = values.count(highest)
    if n_best == 1:
        return (values.index(highest),)
    if n_best == len(values):
        return range(n_best)
    return [arm for arm, score in enumerate(values) if score == highest]


class Agent:
    """Greedy in a direction theta; subclasses say when and how theta is estimated.

    Parameters
    ----------
    dim : int
        Numbers in a context.
    horizon : int
        Number of lags h.
    options : Options
        An instance of the class's own `Options`.

    Raises
    ------
    OptionError
        An option that does not suit `dim`; naming `dim` itself where it exceeds `max_dim`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options_type: ClassVar[type[Options]] = Options
    needs_truth: ClassVar[bool] = False
    learns_within_epoch: ClassVar[bool] = False
    max_dim: ClassVar[int | None] = None  # where the state grows faster than dim
    state_version: ClassVar[int] = 1

    def __init__(self, dim: int, horizon: int, options: Options) -> None:
        if self.max_dim is not None and dim > self.max_dim:
            raise OptionError("dim", f"{self.name} takes at most {self.max_dim} numbers a context")
        self.dim = dim
        self.horizon = horizon
        self.options = options
        self.theta: Floats | None = None

    def scores(self, contexts: Floats) -> Floats:
        """Score of every arm, (..., K, dim) -> (..., K), always finite.

        A score that overflows says nothing, and counts as 0, as do all before the first estimate.

        Raises
        ------
        ValueError
            Contexts that are not finite, or no arm, or of another dim.
        """
        if contexts.shape[-1] != self.dim or contexts.shape[-2] == 0:
            raise ValueError(f"contexts must be (n_arms, {self.dim}) with at least one arm")
        return _QUIET.copy().run(self._finite_scores, contexts)

    def _finite_scores(self, contexts: Floats) -> Floats:
        scores = self._scores(contexts)
        # products tell of contexts that are not finite; without theta there are none
        if _is_finite(scores) and (self.theta is not None or _is_finite(contexts)):
            return scores
        if not np.isfinite(contexts).all():
            raise ValueError("contexts must be finite")
        return np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)

    def _scores(self, contexts: Floats) -> Floats:
        """Return what `scores` makes finite; contexts are checked."""
        if self.theta is None:
            return np.zeros(contexts.shape[:-1])
        return scores_of(contexts, self.theta)

    def choose(self, contexts: Floats, draw: Draw) -> Choice:
        """Choose among the K rows of `contexts`; ties uniformly at random."""
        return self.choose_by(self.ranking(contexts, draw), draw)

    def deciding(self, n_rounds: int) -> Deciding:
        """Return what the decision after `n_rounds` rounds of the session is made by."""
        return "none" if self.theta is None else "in_use"

    def ranking(self, contexts: Floats, draw: Draw) -> Floats:
        """Return what a choice is made by in this round, (K, dim) -> (K,): the scores."""
        return self.scores(contexts)

    def choose_by(self, scores: Floats, draw: Draw) -> Choice:
        """Choose by a `ranking`: kept with its decision, the choice can be made again."""
        best = best_arms(scores)
        n_best = len(best)
        arm = best[0] if n_best == 1 else best[draw.below(n_best)]
        return Choice(arm, scores, 1.0 / n_best, n_best == len(scores) > 1)

    def probabilities(self, scores: Floats) -> Floats:
        """P(arm) of every arm under `choose_by` of a `ranking`, (K,) -> (K,)."""
        best = scores == scores.max()
        return np.asarray(best / best.sum())

    def choose_block(self, contexts: Floats, draws: Sequence[Draw]) -> Ints:
        """Arms for many rounds at once, (n, K, dim) -> (n,); equal to `choose` round by round."""
        scores = self.scores(contexts)
        best = scores == scores.max(axis=-1, keepdims=True)
        arms: Ints = best.argmax(axis=-1)
        for i in np.flatnonzero(best.sum(axis=-1) > 1).tolist():
            ties = np.flatnonzero(best[i])
            arms[i] = ties[draws[i].below(len(ties))]
        return arms

    def observe(self, history: History, trajectory: str, round: int, reward: float) -> None:
        """Learn from one reward within the epoch (only where `learns_within_epoch`)."""

    def next_fit(self, n_rounds: int) -> FitWindow | None:
        """Return the first fit that is due after more than `n_rounds` rounds, or None."""
        return None

    def fit(self, history: History) -> Estimate:
        """Estimate from `history` (which has a `window`). Pure: changes neither agent nor input."""
        raise TypeError(f"{self.name} does not fit")

    def install(self, estimate: Estimate) -> None:
        """Decide by `estimate` from now on; one without a finite direction keeps the old theta."""
        if estimate.theta is not None and np.isfinite(estimate.theta).all():
            self.theta = estimate.theta

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON-able numbers with a version."""
        theta = None if self.theta is None else self.theta.tolist()
        return {"version": self.state_version, "theta": theta}

    @classmethod
    def from_state(cls, dim: int, horizon: int, options: Options, state: dict[str, Any]) -> Self:
        """Return the agent that `state()` described, equal in all it does."""
        if state["version"] != cls.state_version:
            raise ValueError(f"{cls.name} cannot read state version {state['version']}")
        agent = cls(dim, horizon, options)
        theta = state["theta"]
        agent.theta = None if theta is None else np.array(theta, dtype=np.float64)
        return agent


def _is_finite(x: Floats) -> bool:
    """Whether all numbers are: a sum of squares is finite only then, and takes a single pass."""
    flat = x.ravel()
    return isfinite(flat.dot(flat)) or bool(np.isfinite(x).all())
