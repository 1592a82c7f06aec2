"""The anytime agent (docs/model.md 7): schedule, choice of arms, and state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lhb_engine.agents.anytime_options import MOST_STALE, MOST_UNKNOWNS, AnytimeOptions
from lhb_engine.agents.base import Agent, Checks, Choice, Deciding, NeedsAllRows, floats
from lhb_engine.agents.fit_cost import FitCost, posterior_cost
from lhb_engine.agents.fit_windows import anytime_windows
from lhb_engine.agents.options import Need, OptionError
from lhb_engine.agents.rank_one_agent import RankOneAgent
from lhb_engine.agents.scores import best_arms
from lhb_engine.design.aligned_rounds import AlignedRounds, align
from lhb_engine.design.covariates import Covariates
from lhb_engine.design.levels import Stretches, known_level
from lhb_engine.design.presample import with_presample
from lhb_engine.design.products import MOST_PRODUCTS, Products, products_of, resized, with_products
from lhb_engine.estimate import Estimate
from lhb_engine.findings.finding import unchecked_json
from lhb_engine.history import FitWindow, Floats, History, Ints, Trajectory
from lhb_engine.posterior.own_responses import Evidence, Responses, carried_over, less_responses
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.randomness import Draw

if TYPE_CHECKING:
    from lhb_engine.design.session_sums import KeptSums, SessionSums


class Anytime(RankOneAgent):
    """Greedy in the posterior mean of theta in the rank-one model (docs/model.md 7).

    Where the selected contexts have stopped varying, it is greedy in posterior draws, in turn.

    Without a direction it explores one feature at a time, each for several rounds, by
    docs/model.md (7.14). Since rewards add up over lags, a feature that is held for several rounds
    shows in them sooner than one that changes every round.
    """

    name = "anytime"
    summary = "Bayesian rank-one fits, early and often, on all rounds; nothing to tune."
    options_type = AnytimeOptions
    needs = (
        Need("groups", "the option own", lambda _d, _h, told: not told.groups or bool(told.own)),
        Need(
            "levels",
            "dim times horizon to be at most 1000",
            lambda dim, h, told: not told.levels or Anytime.fits_from_sums(dim, h),
        ),
        Need(
            "profiles",
            f"dim times horizon to be at most {MOST_UNKNOWNS}",
            lambda dim, h, told: told.form != "smooth" or dim * h <= MOST_UNKNOWNS,
        ),
    )
    kept = Agent.kept | {"prediction": Predictor.from_json, "candidates": floats}
    kept |= {"products": products_of}
    takes_parts = True
    takes_sets = True

    def __init__(self, dim: int, horizon: int, options: AnytimeOptions) -> None:
        super().__init__(dim, horizon, options)
        features = {"profiles": chain(*options.profile_groups), "own": options.own_features}
        for name, feature in ((name, one) for name, told in features.items() for one in told):
            if feature not in range(dim):
                raise OptionError(name, f"there is no feature {feature!r}")
        self._held = max(4, horizon // 12)
        self.candidates = None
        self._responses: tuple[Predictor | None, Responses | None] = None, None

    def choose_by(self, scores: Floats, draw: Draw) -> Choice:
        """Choose a best arm of a `ranking`, or with probability epsilon any arm uniformly."""
        best = best_arms(scores)
        epsilon, n_arms = self.options.epsilon, len(scores)
        uniform = epsilon > 0 and draw.uniform("epsilon") < epsilon
        if uniform:
            arm = draw.below(n_arms)
        else:
            arm = best[0] if len(best) == 1 else best[draw.below(len(best))]
        propensity = epsilon / n_arms + ((1.0 - epsilon) / len(best) if arm in best else 0.0)
        explores = n_arms > 1 and (self.theta is None or self.candidates is not None)
        return Choice(arm, scores, propensity, uniform or explores)

    def probabilities(self, scores: Floats) -> Floats:
        """Return P(arm) of every arm, (K,) -> (K,); epsilon is spread evenly over all arms."""
        epsilon = self.options.epsilon
        return np.asarray(epsilon / len(scores) + (1.0 - epsilon) * super().probabilities(scores))

    @property
    def deciding(self) -> Deciding:
        """What the next decision is based on."""
        if self.theta is None:
            return "exploring"
        predictor = self.prediction
        if predictor is None or not predictor.stands_out:
            return "in_use" if predictor is None else "learning"
        unclear = "rewards_of_others" in predictor.found
        return "in_doubt" if predictor.in_doubt else "learning" if unclear else "in_use"

    def choose_many(self, contexts: Floats, draws: Sequence[Draw]) -> Ints:
        """Return the arms of n rounds, (n, K, dim) -> (n,); the same as n calls of `choose`."""
        if self.theta is not None and self.options.epsilon == 0 and self.candidates is None:
            return super().choose_many(contexts, draws)
        chosen = [self.choose(c, draw).arm for c, draw in zip(contexts, draws, strict=True)]
        return np.array(chosen, dtype=np.int64)

    def ranking(self, contexts: Floats, draw: Draw) -> Floats:
        """Return the scores; while exploring, one signed feature by docs/model.md (7.14).

        Where there are candidates, the scores are those of one of them, in turn.
        """
        scores = self.scores(contexts)
        if self.candidates is not None:
            greedy = Agent(self.dim, self.horizon, self.options)
            greedy.products = self.products
            position = draw.round if draw.position is None else draw.position
            greedy.theta = self.candidates[(position - 1) % len(self.candidates)]
            return greedy.scores(contexts)
        if self.theta is not None:
            return scores
        round = draw.round if draw.turn is None else draw.turn
        begun = (round - 1) // self._held + self._first_turn(draw)
        turn, feature = divmod(begun, self.dim)
        return contexts[:, feature] * (1.0 if turn % 2 == 0 else -1.0)

    def _first_turn(self, draw: Draw) -> int:
        """Return which of the 2 dim signed features this round's trajectory explores first.

        The feature is a hash of the trajectory, so trajectories that begin together explore all
        features at once. The default trajectory is mostly alone, and begins with the first feature.
        """
        if not draw.trajectory:
            return 0
        return draw._replace(round=0).below(2 * self.dim, "turn")

    def next_fit(self, n_rounds: int) -> FitWindow | None:
        """Return the first window that is due after more than `n_rounds` rounds."""
        return next(anytime_windows(self.horizon, self._back, n_rounds, self.settings))

    def fit_now(self, n_rounds: int) -> FitWindow | None:
        """Return the window of all rounds so far, or of the last ones that a fit looks back on."""
        if n_rounds < 1:
            return None
        back = self._back
        epoch = next(anytime_windows(self.horizon, back, n_rounds - 1, self.settings)).epoch
        first = max(1, n_rounds - (back or n_rounds) + 1)
        return FitWindow(epoch, first, n_rounds, min(self.horizon, n_rounds), n_rounds)

    @classmethod
    def fits_responses(cls, options: Mapping[str, Any]) -> bool:
        """Return the option `own`."""
        return bool(options.get("own"))

    def of(self, key: str, tail: Trajectory | None) -> Self:
        """Return the agent with the theta of a trajectory, by docs/model.md (15.1).

        `tail` are its last rounds: those whose lags go further back say nothing.
        """
        own = self._own()
        if own is None or self.theta is None or (tail is None and own.groups is None):
            return self
        theta = self.theta + own.deltas(self._evidence(key, tail))[0]
        return self.responding(theta) if np.isfinite(theta).all() else self

    def response(self, key: str, tail: Trajectory | None) -> tuple[Floats, Floats] | None:
        """Return the trajectory's own theta and its errors; without rewards that of its group."""
        own = self._own()
        if own is None or self.theta is None:
            return None
        evidence = self._evidence(key, tail)
        return self.theta + own.deltas(evidence)[0], own.errors(evidence)[0]

    @property
    def responses_differ(self) -> bool:
        """Whether a fit found by how much."""
        return self._own() is not None

    def _own(self) -> Responses | None:
        if self.prediction is not self._responses[0]:  # each decision asks
            predictor = self._prediction_of_its_model
            self._responses = self.prediction, Responses.of(predictor.own if predictor else None)
        return self._responses[1]

    def _evidence(self, key: str, tail: Trajectory | None) -> Evidence:
        """Return what a trajectory's last rounds say of its own response."""
        predictor, rows = self._prediction_of_its_model, self._rows_of(key, tail)
        if predictor is None or rows is None:
            return Evidence.nothing(key, self.dim)
        return Evidence.of(rows, predictor, self.dim)

    @property
    def _prediction_of_its_model(self) -> Predictor | None:
        """The prediction; None where options changed since its fit, and its columns are others."""
        predictor, told = self.prediction, self.covariates
        n = sum(told.groups)
        sizes = n, n - told.n_means  # without effects of what arms share
        return predictor if predictor and len(predictor.effects) in sizes else None

    def level(self, key: str, tail: Trajectory | None, spread: float) -> tuple[float, float] | None:
        """Return the mean and the error of the level that (7.27) has, given the last stretch.

        Errors are about the trajectory's own theta, where it has one.
        """
        predictor, rows = self._prediction_of_its_model, self._rows_of(key, tail)
        if predictor is None or not self.options.levels or not predictor.noise > 0.0:
            return None
        if rows is None:
            return 0.0, spread
        last = np.flatnonzero(rows.level == rows.level[np.flatnonzero(rows.number > 0)[-1]])
        left = predictor.residuals(less_responses(rows, predictor))[last]
        value, error = known_level(left, rows.intercept[last], spread, predictor.noise)
        own = Responses.of(predictor.own)
        if own is None:
            return value, error
        carried = rows.intercept[last] @ carried_over(rows, predictor, self.dim)[last]
        along = carried * (error / predictor.noise) ** 2
        doubt = own.covariances(Evidence.of(rows, predictor, self.dim))[0]
        return value, float(np.sqrt(error**2 + along @ doubt @ along))

    def _rows_of(self, key: str, tail: Trajectory | None) -> AlignedRounds | None:
        """Return the rows of a trajectory's last rounds; None without any."""
        if tail is None or not len(tail.measurements):
            return None
        n, first = len(tail.contexts), tail.first_round
        first += 0 if first == 1 else self.horizon - 1
        window = FitWindow(1, first, max(n + tail.first_round - 1, first), self.horizon, 1)
        numbered = replace(tail, positions=np.arange(tail.first_round, tail.first_round + n))
        rows = align(self.told(History(self.dim, {key: numbered}, window)))
        return rows if rows.n_rows else None

    def responding(self, theta: Floats) -> Self:
        """Return the agent that decides by a trajectory's own theta."""
        agent = super().responding(theta)
        if self.candidates is not None and self.theta is not None:
            agent.candidates = self.candidates + (theta - self.theta)
        return agent

    @classmethod
    def looks_back(cls, dim: int, horizon: int, options: Mapping[str, Any]) -> int | None:
        """Return the option `memory`; without it the latest rounds, where sums cannot tell all."""
        memory: int | None = options.get("memory")
        if cls.fits_responses(options):
            return min(memory or cls.sizes.latest, cls.sizes.latest)
        return memory or (None if cls.fits_from_sums(dim, horizon) else cls.sizes.latest)

    @property
    def _back(self) -> int | None:
        return self.looks_back(self.dim, self.horizon, vars(self.options))

    @classmethod
    def most_stale(cls, options: dict[str, Any]) -> float | None:
        """Return the option, or its default."""
        share = float(options.get("most_stale", MOST_STALE))
        return share if share < 1 else None

    @classmethod
    def fit_cost(cls, dim: int, horizon: int, options: dict[str, Any], n_rounds: int) -> FitCost:
        """Return the cost of a whole fit of the posterior, of the rounds that it looks back on."""
        n_rounds = min(n_rounds, cls.looks_back(dim, horizon, options) or n_rounds)
        return posterior_cost(dim, min(horizon, n_rounds), n_rounds)

    def fit(self, history: History) -> Estimate:
        """Return the posterior mean (7.9) from all rows of the window, after the checks."""
        return self.fit_keeping(history, None)[0]

    def fit_keeping(
        self, history: History, kept: "KeptSums | None"
    ) -> tuple[Estimate, "SessionSums | None"]:
        """Fit, from sums of the past and the rows after it where there are such.

        With sums `kept` by an earlier fit, the history has the rows that these lack and those of
        the latest rounds; else all rows of the window. The estimate is equal to the bit. Sums for
        the next fit are None where the fit was from rows. Raises `NeedsAllRows` or `NeedsNewSums`:
        the fit has to be without `kept`.
        """
        from lhb_engine.agents.anytime_fit import AnytimeFit
        from lhb_engine.agents.fit_past import RowsPast, SummedPast, sums_of

        window = history.cut_window
        history = self.told(history)
        rows_and_sums = sums_of(self, history, kept) if self.keeps_sums else None
        if rows_and_sums is None:
            if kept is not None:
                raise NeedsAllRows
            past = RowsPast(self, window, align(history))
            return AnytimeFit(self, past, [*history.sets.values()]).estimate(), None
        past = SummedPast(self, window, *rows_and_sums)
        return AnytimeFit(self, past, [*history.sets.values()]).estimate(), rows_and_sums[1]

    def checks(self, history: History, estimate: Estimate) -> Checks:
        """Return what the checks of docs/model.md 12 find with the direction that decides next."""
        from lhb_engine.findings.all_checks import checked, latest, told_apart
        from lhb_engine.findings.check_scores import MOST_NAMED
        from lhb_engine.findings.check_side_effects import follows

        told = self.told(latest(history, self.horizon, self.sizes.latest))
        predictor = Predictor.of(estimate) or self.prediction
        n_means = self.covariates.n_means
        left_out = [self.covariates.names[j] for j in estimate.diagnostics.get("left_out", [])]
        most = self._room(history) or MOST_NAMED
        arguments = self.dim, self.prediction, n_means, self.products, most
        made = checked(told, predictor, self.horizon, *arguments)
        every, unchecked = told_apart([*follows(left_out), *made])
        every = [one for one in every if not self.options.says(one)]
        return [one.to_json() for one in every], unchecked_json(unchecked)

    @property
    def keeps_sums(self) -> bool:
        """Whether its fits use all of the past, at so many unknowns that sums of it pay."""
        return self._back is None

    @property
    def fitted_dim(self) -> int:
        """The numbers of a context, products, and the score of the presample."""
        return self.width + (not self.options.zero_start)

    def counting_found(self, history: History, estimate: Estimate) -> Self:
        """Return the agent that counts the products, too, that checks of a fit found."""
        return self.counting((*self.products, *estimate.curves[: self._room(history)]))

    def _room(self, history: History) -> int:
        """Return how many more products may count, of rows that fits can read again."""
        if not (self.options.adopts_products and history.rereads):
            return 0
        most, form = MOST_PRODUCTS, self.prediction.form if self.prediction else "shared"
        if form != "shared" or self.options.form == "smooth":
            most = min(most, MOST_UNKNOWNS // self.horizon - self.dim)
        elif self.fits_from_sums(self.dim, self.horizon):
            most = sum(self.fits_from_sums(self.dim + n + 1, self.horizon) for n in range(most))
        return max(0, most - len(self.products))

    @property
    def stretches(self) -> Stretches:
        """Where levels change; stretches begin with the rounds that fits add as the presample."""
        n_rounds = self.sizes.stretch(self.horizon) if self.options.levels else 0
        return Stretches(n_rounds, 0 if self.options.zero_start else self.horizon - 1)

    @classmethod
    def fits_from_sums(cls, dim: int, horizon: int) -> bool:
        """Return whether moments at so many unknowns cost less than rows."""
        from lhb_engine.posterior.fit_data import MOST_UNKNOWNS

        return dim * horizon <= MOST_UNKNOWNS

    def told(self, history: History) -> History:
        """Return a history with what the options tell fits of it."""
        history = replace(history, levels=self.stretches.n_rounds, grain=self.sizes.grain)
        told = with_products(self.covariates.told(history), self.products)
        return told if self.options.zero_start else with_presample(told)

    @property
    def covariates(self) -> Covariates:
        """What its options tell fits of each round."""
        return replace(self.options.told, means=self.dim if self.takes_means else 0)

    @classmethod
    def n_given(cls, dim: int, horizon: int) -> int:
        """Return the numbers of a context, and with few unknowns those of its round's mean."""
        return 2 * dim + 1 if cls.fits_from_sums(dim, horizon) else dim

    def install(self, estimate: Estimate) -> None:
        """Decide by `estimate`, and keep its prediction, which the next fit checks."""
        super().install(estimate)
        predictor = Predictor.of(estimate)
        if predictor is not None:
            self.prediction, self.candidates = predictor, estimate.candidates
        if predictor is not None or self.theta is None:
            self.products = estimate.products
        self._count(tuple(dict.fromkeys((*self.products, *estimate.products))))
        if self.prediction is not None:
            found = [one["code"] for one in estimate.findings]
            found += [] if estimate.is_clear else ["rewards_of_others"]
            self.prediction = replace(self.prediction, in_doubt=estimate.in_doubt, found=found)

    def counting(self, products: Products) -> Self:
        """Return the agent that counts the first of its products, or further ones after them.

        To what it knows, further ones do nothing. Own responses are of features alone.
        """
        if self.options.own or products == self.products:
            return self
        agent = object.__new__(type(self))
        agent.__dict__ = vars(self).copy()
        agent._count(products)
        return agent

    def _count(self, products: Products) -> None:
        n = len(products) - len(self.products)
        if n == 0:
            return
        place = self.width + min(n, 0), n
        self.prediction = self.prediction and self.prediction.resized(*place)
        for name in ("theta", "candidates"):
            if (numbers := getattr(self, name)) is not None:
                setattr(self, name, resized(numbers, *place))
        self.products = products
