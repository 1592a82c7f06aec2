"""What `LaggedGroupLasso.partial_fit` keeps: sums, and the last rounds of a trajectory."""

from dataclasses import dataclass, replace

import numpy as np

from lhb_engine.design.moment_sums import design_moments
from lhb_engine.design.square_sums import RowMoments
from lhb_engine.history import Floats
from lhb_engine.lasso.gram_lasso import GramLasso
from lhb_engine.lasso.least_squares import LARGEST
from lhb_engine.scikit_learn.rounds import Rounds, Spread


@dataclass(frozen=True)
class ChunkSums:
    """Moments of rows (docs/model.md (10.1)), and what the next rounds need of those before them.

    Features and rewards are counted from an origin, about their mean: squares of numbers far from 0
    would leave little of their differences. The intercept takes it up, so there is none without.

    Attributes
    ----------
    moments : RowMoments
        Covariates are the constant and the controls.
    spread : Spread
        Of the lagged features of all rounds, as given.
    past : (at most n_lags - 1, n_lagged) array
        The last rounds of the last trajectory, from the origin.
    lagged_origin, control_origin : (n_lagged,), (n_controls,) arrays
    reward_origin : float
    zero_start, fit_intercept : bool
    """

    moments: RowMoments
    spread: Spread
    past: Floats
    lagged_origin: Floats
    control_origin: Floats
    reward_origin: float
    zero_start: bool
    fit_intercept: bool

    @classmethod
    def begun(
        cls, rounds: Rounds, n_lags: int, zero_start: bool, fit_intercept: bool
    ) -> "ChunkSums":
        """Return the sums of no rounds, with an origin for those to come."""
        dim, n_controls = rounds.lagged.shape[1], rounds.controls.shape[1]
        p = n_lags * dim + n_controls + 2
        rewards = rounds.y[~np.isnan(rounds.y)]
        none = np.zeros(dim)
        return cls(
            RowMoments(np.zeros((p, p)), 0, n_lags, dim, (1,) * n_controls),
            Spread(0, none, np.zeros((dim, dim)), none),
            np.zeros((0, dim)),
            # a round before the start is 0 as it is given, not at the origin
            rounds.lagged.mean(axis=0) if fit_intercept and not zero_start else none,
            rounds.controls.mean(axis=0) if fit_intercept else np.zeros(n_controls),
            float(rewards.mean()) if fit_intercept and len(rewards) else 0.0,
            zero_start,
            fit_intercept,
        )

    def with_rounds(self, rounds: Rounds, goes_on: bool) -> "ChunkSums":
        """Add rounds; with `goes_on` the first are those after the last ones of the sums.

        Raises
        ------
        ValueError
            Numbers whose products are beyond a float.
        """
        n_lags, spread = self.moments.n_lags, self.spread + Spread.of(rounds.lagged)
        rewards = rounds.y[~np.isnan(rounds.y)]
        for values in (spread.largest, rounds.controls, rewards):
            size = float(np.abs(values).max(initial=0.0))
            if size > LARGEST:
                raise ValueError(f"X and y must not be of size {size:.1e}: give other units")
        moved = Rounds(
            rounds.lagged - self.lagged_origin,
            rounds.controls - self.control_origin,
            rounds.y - self.reward_origin,
            rounds.lengths,
        )
        if goes_on:
            moved = moved.after(self.past)
        rows, moments = moved.rows(n_lags, self.zero_start), self.moments
        if len(rows.y):
            beside = np.column_stack([rows.design.intercept, rows.controls])
            sums = design_moments(rows.design, rows.y, beside)
            moments = moments + replace(sums, groups=moments.groups)
        n_open = int(moved.lengths[-1])
        past = moved.lagged[len(moved.lagged) - min(n_lags - 1, n_open) :].copy()
        return replace(self, moments=moments, spread=spread, past=past)

    def lasso(self, scale: Floats) -> GramLasso:
        """Return the problem with each feature divided by its `scale`, (n_lagged,)."""
        n_covariates = self.moments.n_covariates
        unpenalised = range(0 if self.fit_intercept else 1, n_covariates)
        return GramLasso(self.moments.scaled(1.0 / scale, 1.0), unpenalised)

    def intercept(self, intercept: float, coef: Floats, controls: Floats) -> float:
        """Return the intercept that belongs to features and rewards as given."""
        taken = float(coef.sum(axis=0) @ self.lagged_origin + controls @ self.control_origin)
        return intercept + self.reward_origin - taken
