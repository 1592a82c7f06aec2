"""The interface of an agent: choose an arm, observe rewards, schedule a fit, fit, install it.

`choose` does not change the agent. `fit` is slow and pure, so it may run in another process. An
agent keeps no decisions: a late reward finds the data of its own round in the history.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from lhb_engine.agents.fit_cost import FitCost, lasso_cost
from lhb_engine.agents.options import Need, OptionError, Options
from lhb_engine.agents.scores import best_arms, is_finite, scores_of
from lhb_engine.design.covariates import Covariates
from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.design.products import Products, widened
from lhb_engine.estimate import Estimate
from lhb_engine.history import SIZES, FitWindow, Floats, History, Ints, PastSizes, Trajectory
from lhb_engine.randomness import Draw

if TYPE_CHECKING:
    from lhb_engine.design.session_sums import KeptSums, SessionSums
    from lhb_engine.posterior.predictor import Predictor

# findings, and the checks that could not be made
Checks = tuple[list[dict[str, Any]], list[dict[str, Any]]]
# A context in which numpy does not warn of overflow. Entering it costs 5% of np.errstate.
_QUIET = copy_context()
_QUIET.run(np.seterr, over="ignore", invalid="ignore")


# What a decision is based on. in_use: the installed direction. in_doubt: that direction, and
# what was forecast did not come. learning: that direction, which does not stand out from the noise
# yet. exploring: there is no direction yet, and the agent explores. none: the agent has learned
# nothing, and chooses at random.
Deciding = Literal["in_use", "in_doubt", "learning", "exploring", "none"]


def floats(numbers: Any) -> Floats:
    """Return an array of JSON numbers."""
    return np.array(numbers, dtype=np.float64)


class NeedsMore(Exception):
    """A fit has to read its past again: which sums of it, and with which products."""

    sums: ClassVar[Literal["kept", "new", "none"]]

    def __init__(self, products: Products | None = None) -> None:
        super().__init__(products)
        self.products = products


class NeedsNewSums(NeedsMore):
    """A fit from kept sums cannot be made: a corrected value would leave its rounding in them."""

    sums = "new"


class NeedsProducts(NeedsMore):
    """Products were found that the sums which it read have not."""

    sums = "kept"


class NeedsAllRows(NeedsMore):
    """A fit cannot go on from sums: too few latest rows, or squares that are beyond a float."""

    sums = "none"


class Choice(NamedTuple):
    """One choice of an arm."""

    arm: int  # index of the arm
    scores: Floats  # (K,): the ranking that the arm was chosen by
    propensity: float  # probability of the arm under the agent
    explored: bool  # the arm was not chosen by the installed direction alone


class Agent:
    """An agent that is greedy in a direction theta, by docs/model.md (1.2).

    Subclasses define when and how theta is estimated. This class alone never fits, and chooses
    uniformly at random.

    Parameters
    ----------
    dim : int
        Length of a context.
    horizon : int
        Number of lags h.
    options : Options
        An instance of the class's `options_type`.

    Attributes
    ----------
    theta : (dim + n,) array or None
        The installed direction, of a context's features and of n `products`.
    products : tuple of pairs of int
        Features whose products count.
    needs_truth : bool
        The agent is told parameters of the simulated world (the oracles).
    learns_within_epoch : bool
        The agent learns from single rewards through `observe`.
    takes_corrections : bool
        A value that the agent has learned from can be corrected: a fit reads it again.
    takes_sets : bool
        A fit says what choices among the contexts of all arms earn.
    takes_parts : bool
        A fit takes a trajectory in parts, which have the rounds that some rewards need.
    served_dim, served_horizon : int or None
        Largest problem that a service can store with every reward; None: any.
    max_dim : int or None
        Largest `dim` that the agent takes.
    needs : tuple of Need
        What its options need.
    sizes : PastSizes
        How much of a long past its fits read.

    Raises
    ------
    OptionError
        An option does not suit `dim` or lacks what it needs, or `dim` exceeds `max_dim`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options_type: ClassVar[type[Options]] = Options
    needs: ClassVar[tuple[Need, ...]] = ()
    needs_truth: ClassVar[bool] = False
    learns_within_epoch: ClassVar[bool] = False
    takes_corrections: ClassVar[bool] = True
    takes_parts: ClassVar[bool] = False
    takes_sets: ClassVar[bool] = False
    served_dim: ClassVar[int | None] = None
    served_horizon: ClassVar[int | None] = None
    sizes: ClassVar[PastSizes] = SIZES
    max_dim: ClassVar[int | None] = None  # where the state grows faster than dim
    state_version: ClassVar[int] = 1
    # of the state, each with what reads its JSON
    kept: ClassVar[dict[str, Any]] = {"theta": floats}

    def __init__(self, dim: int, horizon: int, options: Options) -> None:
        if self.max_dim is not None and dim > self.max_dim:
            raise OptionError("dim", f"{self.name} takes at most {self.max_dim} numbers a context")
        for option, what, is_met in self.needs:
            if not is_met(dim, horizon, options):
                raise OptionError(option, f"needs {what}")
        self.dim = dim
        self.horizon = horizon
        self.options = options
        self.takes_means = self.n_given(dim, horizon) > dim
        self.theta: Floats | None = None
        self.products: Products = ()
        self.prediction: Predictor | None = None  # of the installed estimate, to check it by

    @property
    def keeps_sums(self) -> bool:
        """Whether its fits go on from sums of the past."""
        return False

    @classmethod
    def n_given(cls, dim: int, horizon: int) -> int:
        """Return how many numbers of a round fits read: a context, and what `with_means` adds."""
        return dim

    @property
    def fitted_dim(self) -> int:
        """The numbers of a row for each lag: those of a context, and what a fit adds to them."""
        return self.dim

    @property
    def stretches(self) -> Stretches:
        """Where the levels of trajectories change, if they have any."""
        return NO_LEVELS

    def told(self, history: History) -> History:
        """Return a history with what the options tell fits of it."""
        return self.covariates.told(history)

    @property
    def covariates(self) -> Covariates:
        """What its options tell fits of each round."""
        return Covariates()

    def counting(self, products: Products) -> Self:
        """Return the agent that counts the first of its products, or further ones after them.

        To what it knows, further ones do nothing.
        """
        return self

    def scores(self, contexts: Floats) -> Floats:
        """Return the score of every arm, (..., K, dim) -> (..., K), always finite.

        Scores are 0 before the first estimate. A score that overflows is replaced by 0. Raises
        `ValueError` where contexts are not finite, hold no arm, or have another `dim`.
        """
        if contexts.shape[-1] != self.dim or contexts.shape[-2] == 0:
            raise ValueError(f"contexts must be (n_arms, {self.dim}) with at least one arm")
        return _QUIET.copy().run(self._finite_scores, contexts)

    def _finite_scores(self, contexts: Floats) -> Floats:
        scores = self._scores(contexts)
        # finite scores imply finite contexts, but without theta no products are formed
        if is_finite(scores) and (self.theta is not None or is_finite(contexts)):
            return scores
        if not np.isfinite(contexts).all():
            raise ValueError("contexts must be finite")
        return np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)

    def _scores(self, contexts: Floats) -> Floats:
        """Return the scores before overflows are replaced; the shape of `contexts` is checked."""
        if self.theta is None:
            return np.zeros(contexts.shape[:-1])
        return scores_of(widened(contexts, self.products), self.theta)

    def choose(self, contexts: Floats, draw: Draw) -> Choice:
        """Choose an arm of (K, dim) contexts by the round's draw; ties are broken at random.

        Raises what `scores` raises.
        """
        return self.choose_by(self.ranking(contexts, draw), draw)

    @property
    def deciding(self) -> Deciding:
        """What the next decision is based on."""
        return "none" if self.theta is None else "in_use"

    @property
    def has_responses(self) -> bool:
        """Whether trajectories have responses of their own, by which their decisions are."""
        return self.fits_responses(vars(self.options))

    @classmethod
    def fits_responses(cls, options: Mapping[str, Any]) -> bool:
        """Return whether an agent of these options has such responses."""
        return False

    @property
    def responses_differ(self) -> bool:
        """Whether decisions of some trajectories are by a theta of their own now."""
        return False

    def of(self, key: str, tail: Trajectory | None) -> Self:
        """Return the agent that decides for a trajectory whose last rounds are `tail`."""
        return self

    def response(self, key: str, tail: Trajectory | None) -> tuple[Floats, Floats] | None:
        """Return a trajectory's own theta, and its standard deviations, (dim,) each.

        None where trajectories have no responses of their own, or their spread is not known yet.
        """
        return None

    def level(self, key: str, tail: Trajectory | None, spread: float) -> tuple[float, float] | None:
        """Return the level of a trajectory in the stretch of its last reward, and its error.

        `spread` is the standard deviation of levels. None where trajectories have none.
        """
        return None

    def responding(self, theta: Floats) -> Self:
        """Return the agent that decides by a trajectory's own theta."""
        agent = object.__new__(type(self))  # a copy costs 20 times as much, at each decision
        agent.__dict__ = vars(self) | {"theta": theta}
        return agent

    def ranking(self, contexts: Floats, draw: Draw) -> Floats:
        """Return the values whose largest is chosen in this round, (K, dim) -> (K,): the scores."""
        return self.scores(contexts)

    def choose_by(self, scores: Floats, draw: Draw) -> Choice:
        """Choose an arm by a `ranking`, (K,).

        A stored ranking and the same draw give the same choice again.
        """
        best = best_arms(scores)
        n_best = len(best)
        arm = best[0] if n_best == 1 else best[draw.below(n_best)]
        return Choice(arm, scores, 1.0 / n_best, n_best == len(scores) > 1)

    def probabilities(self, scores: Floats) -> Floats:
        """Return P(arm) of every arm under `choose_by`, for a `ranking`, (K,) -> (K,)."""
        best = scores == scores.max()
        return np.asarray(best / best.sum())

    def choose_many(self, contexts: Floats, draws: Sequence[Draw]) -> Ints:
        """Return the arms of n rounds, (n, K, dim) -> (n,); the same as n calls of `choose`."""
        scores = self.scores(contexts)
        best = scores == scores.max(axis=-1, keepdims=True)
        arms: Ints = best.argmax(axis=-1)
        for i in np.flatnonzero(best.sum(axis=-1) > 1).tolist():
            ties = np.flatnonzero(best[i])
            arms[i] = ties[draws[i].below(len(ties))]
        return arms

    def observe(self, history: History, trajectory: str, round: int, reward: float) -> None:
        """Learn from one reward of a trajectory's round; called only if `learns_within_epoch`."""

    def windows(self) -> Iterator[FitWindow]:
        """Yield the windows of all fits, as they are due; see docs/model.md (3.1) and (4.1)."""
        yield from ()

    def next_fit(self, n_rounds: int) -> FitWindow | None:
        """Return the first window that is due after more than `n_rounds` rounds, or None."""
        return next((window for window in self.windows() if window.due > n_rounds), None)

    def fit_now(self, n_rounds: int) -> FitWindow | None:
        """Return the window of a fit after `n_rounds` rounds, beside the schedule.

        None: the algorithm fits only at the ends of its epochs.
        """
        return None

    @classmethod
    def looks_back(cls, dim: int, horizon: int, options: Mapping[str, Any]) -> int | None:
        """Return how many of the session's last rounds coming fits use; None: all.

        0: those of the windows of its epochs.
        """
        return 0

    @classmethod
    def most_stale(cls, options: dict[str, Any]) -> float | None:
        """Return the share of measurements above which unseen ones make a fit due; None: never."""
        return None

    @classmethod
    def fit_cost(cls, dim: int, horizon: int, options: dict[str, Any], n_rounds: int) -> FitCost:
        """Return the cost of a fit after `n_rounds` rounds, by default the block lasso's."""
        return lasso_cost(dim, min(horizon, n_rounds), n_rounds)

    def fit(self, history: History) -> Estimate:
        """Return an estimate from a history with a window; changes neither agent nor history.

        Raises `TypeError` where the algorithm does not fit.
        """
        raise TypeError(f"{self.name} does not fit")

    def fit_keeping(
        self, history: History, kept: "KeptSums | None"
    ) -> tuple[Estimate, "SessionSums | None"]:
        """Fit, from sums of the past where there are such, and return sums for the next fit."""
        return self.fit(history), None

    def checks(self, history: History, estimate: Estimate) -> Checks:
        """Return what checks of the model find on what a fit read, beside its result, as JSON.

        Beside the findings stand the checks that could not be made.
        """
        return [], []

    @classmethod
    def makes_checks(cls) -> bool:
        """Whether its fits are checked at all."""
        return cls.checks is not Agent.checks

    def checked_fit(self, history: History) -> Estimate:
        """Return the estimate of `fit` with its findings; products that they name count."""
        estimate = self.fit(history)
        estimate = estimate.with_checks(*self.checks(history, estimate))
        agent = self.counting_found(history, estimate)
        return estimate if agent is self else agent.checked_fit(history)

    def counting_found(self, history: History, estimate: Estimate) -> Self:
        """Return the agent that counts the products, too, that checks of a fit found."""
        return self

    def install(self, estimate: Estimate) -> None:
        """Use `estimate` from now on; without a finite direction theta stays as it is."""
        if estimate.theta is not None and np.isfinite(estimate.theta).all():
            self.theta = estimate.theta

    def state(self) -> dict[str, Any]:
        """Return all that the agent has learned, as a JSON object with a version."""
        parts = {name: _as_json(getattr(self, name)) for name in self.kept}
        return {"version": self.state_version, **parts}

    @classmethod
    def from_state(cls, dim: int, horizon: int, options: Options, state: dict[str, Any]) -> Self:
        """Return the agent that `state()` described; it behaves identically.

        A part that a new agent has not may be absent. Raises `ValueError` where the state has
        another version.
        """
        if state["version"] != cls.state_version:
            raise ValueError(f"{cls.name} cannot read state version {state['version']}")
        agent = cls(dim, horizon, options)
        for name, read in cls.kept.items():
            is_new = isinstance(getattr(agent, name), tuple | None)
            part = state.get(name) if is_new else state[name]
            if part is not None:
                setattr(agent, name, read(part))
        return agent


def _as_json(part: Any) -> Any:
    if hasattr(part, "tolist"):
        return part.tolist()
    return part.to_json() if hasattr(part, "to_json") else part
