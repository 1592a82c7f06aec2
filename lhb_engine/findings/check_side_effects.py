"""What follows choices beside rewards: ends of trajectories, missing rewards, covariates."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import chdtri, stdtrit

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.scaling import power_of_two
from lhb_engine.findings.finding import Finding, Unchecked, named
from lhb_engine.history import Flags, Floats, Ints, Parts, Trajectories
from lhb_engine.posterior.predictor import Predictor

CHANCE = 1e-3  # of an end's finding by chance, at one fit
CHANCE_MISSING = 1e-4  # of one of missing rewards, which are many
LEAST = 30  # ends, or rounds without a reward
EACH = 5  # of these a column
NEAR = 24  # rounds of a trajectory, or a horizon: rewards that lack so near may lack together
LEAST_CHANGE = 0.02  # standard deviation of the probability of a reward, as choices change it
SILENT = 0.99  # of the gaps between rounds of a trajectory are shorter than half of what ends one
EXACT_AGES = 32  # rounds, beyond which ages count by their octave
LONG = 4  # rounds, from which a trajectory is compared with itself
TIMES = 8  # equal parts of the session
WAITING = 32  # of them, as fewer rewards are in the later the round, and choices change with time
LEAST_PAIRS, MOST_PAIRS = 100, 4096  # of consecutive rounds that covariates are judged by
CHANCE_FOLLOWS = 1e-5  # of a covariate that follows by chance, at one fit
LEAST_HIDDEN = 0.15  # of what choices earn, that a covariate hides
# chance, and share of the choices' own, from which squares' chi-squared speaks for what is offered
PERHAPS, BENT = 0.1, 0.1
LASTING = 0.98  # of a covariate, at most, is there in the next round
# whose each row is, one trajectory after the other, and how many rows apart errors may go together
Near = tuple[Ints, int] | None


class Rounds(NamedTuple):
    """The rounds of one trajectory after the other whose arms' mean context is known."""

    # chosen, before (n, dim): what was chosen about its round's mean, and what it was beyond the
    # means of its time and trajectory, summed over the rounds before within the horizon
    chosen: Floats
    before: Floats
    expected: Floats  # (n,): what these pay, beyond these means, by a prediction; 0 without one
    is_measured: Flags  # a reward is of this round
    is_last: Flags  # of its trajectory
    age: Ints  # number in its trajectory
    at: Ints  # number in the session
    whose: Ints  # number of its trajectory
    told: Floats  # (n, q): covariates

    @classmethod
    def of(
        cls, parts: Trajectories, n_means: int, horizon: int, by: Predictor | None = None
    ) -> "Rounds":
        """Return the rounds of `parts`, whose last `n_means` covariates `with_means` adds."""
        every = Parts.of(parts)
        every = every.some(every.lengths > 0)
        contexts, means, at = every.contexts, every.covariates, every.numbering
        assert means is not None
        n, start, (whose, names) = every.lengths, every.starts, every.trajectories
        latest = np.full(len(names), -1)
        np.maximum.at(latest, whose, at[start + n - 1])
        whose = np.repeat(whose, n)

        place, begin = np.arange(len(at)), np.repeat(start, n)
        some = (means[:, -n_means] > 0.0) & contexts.any(axis=1)
        chosen = np.where(some[:, None], contexts[:, : n_means - 1] - means[:, 1 - n_means :], 0.0)
        # a reward over several rounds is one of each
        step = np.zeros(len(at) + 1, np.int64)
        _, rows = every.inside()
        np.add.at(step, rows.first, 1)
        np.add.at(step, rows.last + 1, -1)
        is_measured = step[:-1].cumsum() > 0
        about = chosen.copy()
        if (some & ~is_measured).sum() >= LEAST:  # else sums grow with age, as silence may
            about[some] = _about(chosen[some], (_time(at[some], WAITING), _long(whose[some])))
        sums = np.concatenate([np.zeros((1, n_means - 1)), about.cumsum(axis=0)])
        before = sums[place] - sums[np.maximum(place - horizon + 1, begin)]
        expected = np.zeros(len(at))
        profiles = np.zeros((0, 1)) if by is None else by.lag_weights
        if by is not None and profiles.ndim == 1:
            profiles = np.outer(profiles, by.theta)
        for k, pays in enumerate(profiles):
            seen = place - k >= begin
            expected[seen] += about[place[seen] - k] @ pays[: n_means - 1]
        order, is_last = np.lexsort((at, whose)), at == latest[whose]
        which = every.rounds, at, whose, means[:, :-n_means]
        rounds = cls(chosen, before, expected, is_measured, is_last, *which)
        return rounds.only(order[some[order]])

    def only(self, which: Flags | Ints) -> "Rounds":
        """Return some of them, by a mask or by their places."""
        return Rounds._make(one[which] for one in self)


def check_stay(rounds: Rounds, last: int) -> Iterator[Finding | Unchecked]:
    """Look for ends of trajectories that go with the last choice (12.6), in a session to `last`."""
    if rounds.whose.max(initial=0) < 1:
        return
    gaps = np.diff(rounds.at)[np.diff(rounds.whose) == 0]
    silent = 2.0 * float(np.quantile(gaps, SILENT)) if len(gaps) else np.inf
    # of the last round of a trajectory that may go on nothing is known
    rounds = rounds.only(~rounds.is_last | (rounds.at < last - silent))
    if rounds.is_last.sum() < max(LEAST, EACH * rounds.chosen.shape[1]):
        yield Unchecked(("trajectories_end",), "rows")
        return
    age = rounds.age
    octave = np.log2(age).astype(np.int64)
    # each age in each part of the session would leave few rounds to compare
    alike = np.where(age <= EXACT_AGES, age, EXACT_AGES + octave), octave * TIMES + _time(rounds.at)
    clear, _ = _clear(CHANCE, rounds.is_last, rounds.chosen, alike, rounds.told, None)
    if clear.any():
        yield Finding(
            "trajectories_end",
            f"Trajectories end {_after(clear, 'sooner', 'later')}. What an ended trajectory would "
            "still have brought is in no reward, so no gain is said. Report this worth: as a "
            "reward when somebody comes back, or as a cost when somebody leaves.",
            features=tuple(np.flatnonzero(clear).tolist()),
        )


def check_missing(rounds: Rounds, horizon: int) -> Iterator[Finding | Unchecked]:
    """Look for rounds whose reward is missing by what was chosen, by docs/model.md (12.7)."""
    settled = rounds.at < rounds.at[rounds.is_measured].max(initial=0)  # later rounds may wait
    rounds = rounds.only(settled)
    (n, dim), n_measured = rounds.chosen.shape, int(rounds.is_measured.sum())
    if min(n - n_measured, n_measured) < max(LEAST, 2 * EACH * dim):
        return  # few are missing, or the rest is silent
    alike, near = (_time(rounds.at, WAITING), _long(rounds.whose)), max(horizon, NEAR)
    beside = alike, rounds.told, (rounds.whose, near)
    for columns in (np.column_stack([rounds.chosen, rounds.before]), rounds.expected[:, None]):
        clear, change = _clear(CHANCE_MISSING, rounds.is_measured, columns, *beside)
        if clear.any() and change >= LEAST_CHANGE:
            break
    else:
        return
    how = f"{'more' if clear[0] > 0.0 else 'less'} often where choices are to pay more"
    clear = np.where(clear[:dim] != 0.0, clear[:dim], clear[dim:])  # of what is expected: none
    how = _after(clear, "more often", "less often") if len(clear) else how
    yield Finding(
        "rewards_missing",
        f"Rewards come {how}: {n_measured} of {n} rounds "
        "have one, and the others count as unknown, so what choices earn is not known. If a round "
        "without a reward earned nothing, send 0, or copy the session with the default reward 0. "
        "If rewards lack at times when other arms are offered, tell these times as a covariate.",
        features=tuple(np.flatnonzero(clear).tolist()),
    )


def following(rows: AlignedRounds, n_named: int, n_means: int) -> Flags:
    """Return which of the first covariates follow from earlier choices, (n_named,): (12.8).

    The last `n_means` covariates are what `with_means` adds.
    """
    follows, dim = np.zeros(n_named, bool), n_means - 1
    if not n_named or dim < 1:
        return follows
    unit, has_mean = power_of_two(rows.contexts), rows.covariates[:, -n_means] > 0.0
    contexts, means = rows.contexts[:, :dim] / unit, rows.covariates[:, -dim:] / unit
    has_mean &= np.rint(rows.intercept**2) == 1
    later = rows.followers()
    later = later[has_mean[later] & has_mean[rows.before[later]]]
    later = later[np.argsort(rows.number[later], kind="stable")[-MOST_PAIRS:]]
    now, n_choices = rows.before[later], 3 * dim
    if len(later) < max(LEAST_PAIRS, 2 * EACH * (3 * n_choices + 2 * n_named)):
        return follows
    taken = np.where(has_mean[:, None], contexts - means, 0.0)
    told = rows.covariates[:, :n_named]
    told = told / np.array([power_of_two(column) for column in told.T])
    # offers that go with the covariate change how large choices are, and not only their sign
    choices, sizes = (
        np.column_stack([one[later], one[now], _lately(one, now, rows.n_lags)])
        for one in (taken, taken**2)
    )
    controls = np.column_stack([told[now], told[now] ** 2, means[later], means[now]])
    every = np.column_stack([choices, sizes, controls])
    alike = _time(rows.number[later]), _long(rows.owner[later])
    paid = np.column_stack([told[later], choices, means[later]])
    effects, spread, _, n_free = _regressed(rows.y[later] / power_of_two(rows.y), paid, alike)
    pays = _are_clear(CHANCE, *(one[:n_named] for one in (effects, np.diag(spread), n_free)))
    direct = _total(effects[n_named:], dim, rows.n_lags)
    earned = float((taken[later] @ direct).std())
    for j in np.flatnonzero(pays):
        by, spread, *_ = _regressed(told[later, j], every, alike)
        # Wald's chi-squared of choices, of those at each time, and of their squares
        slices = slice(n_choices), *(slice(k * dim, k * dim + dim) for k in range(6))
        wald = [float(by[of] @ np.linalg.pinv(spread[of, of]) @ by[of]) for of in slices]
        most = int(np.argmax(wald[1:4]))
        of_offers = wald[4 + most] > max(chdtri(dim, PERHAPS), BENT * wald[1 + most])
        if wald[0] < chdtri(n_choices, CHANCE_FOLLOWS) or of_offers:
            continue
        lasts = min(max(float(by[2 * n_choices + j]), 0.0), LASTING)
        moved = effects[j] * _total(by, dim, rows.n_lags) / (1.0 - lasts)
        follows[j] = (taken[later] @ moved).std() >= LEAST_HIDDEN * earned
    return follows


def follows(names: Sequence[str]) -> Iterator[Finding]:
    """Say which covariates follow from earlier choices, if some do."""
    if names:
        one = len(names) == 1
        yield Finding(
            "covariates_follow",
            f"{' and '.join(names)} follow{'s' * one} from earlier choices, so fits leave "
            f"{'it' if one else 'them'} out: with {'it' if one else 'them'} told, what choices "
            "earn later would be hidden. Tell covariates that no choice changes.",
        )


def _lately(values: Floats, now: Ints, n_lags: int) -> Floats:
    """Return the sums of values over the places before some, within the lags."""
    sums = np.concatenate([np.zeros((1, values.shape[1])), values.cumsum(axis=0)])
    return np.asarray(sums[now] - sums[np.maximum(now - n_lags + 2, 0)])


def _total(by: Floats, dim: int, n_lags: int) -> Floats:
    """Return what a choice does in all, (dim,), by its effects at once, a round later and after."""
    return by[:dim] + by[dim : 2 * dim] + max(n_lags - 2, 0) * by[2 * dim : 3 * dim]


def _clear(
    chance: float, target: Flags, columns: Floats, alike: Sequence[Ints], told: Floats, near: Near
) -> tuple[Floats, float]:
    """Return coefficients over their errors, (k,), 0 where by chance, and what they explain."""
    told, rest = np.hsplit(_about(np.column_stack([told, target, columns]), alike), [told.shape[1]])
    rest = rest - told @ np.linalg.lstsq(told, rest)[0]
    by, spread, explained, n_free = _regressed(rest[:, 0], rest[:, 1:], alike, near)
    variances = np.diag(spread)
    shown = _are_clear(chance, by, variances, n_free)
    clear = np.where(shown, by / np.sqrt(np.where(shown, variances, 1.0)), 0.0)
    return clear, float(explained.std())


def _are_clear(chance: float, by: Floats, variances: Floats, n_free: Floats) -> Flags:
    """Return which coefficients are beyond a chance of all, (k,)."""
    each = chance / (2.0 * max(int((variances > 0.0).sum()), 1))
    sure = stdtrit(np.maximum(n_free, 1.0), each)
    return (variances > 0.0) & (by**2 >= sure**2 * variances)


def _regressed(
    target: Floats, columns: Floats, alike: Sequence[Ints], near: Near = None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Regress on columns, about the means of those that are alike in each way.

    Returns the coefficients, (k,), White's covariance of them, (k, k), what is explained, (n,), and
    how many errors of each are free; the first two are 0 where a column does not change.
    """
    about = _about(np.column_stack([target, columns]), alike)
    target, columns = about[:, 0], about[:, 1:]
    moved, inverse = np.ptp(columns, axis=0) > 0.0, np.linalg.pinv(columns.T @ columns)
    by = inverse @ (columns.T @ target)
    explained = columns @ by
    left, weights = target - explained, columns @ inverse
    squares, errors = weights**2, weights * left[:, np.newaxis]
    # White's errors are of the few rounds that move a column most
    n_free = squares.sum(axis=0) ** 2 / np.maximum((squares**2).sum(axis=0), 1e-300)
    free = len(target) - moved.sum() - sum(len(np.unique(way)) - 1 for way in alike)
    white = errors.T @ errors * (len(target) / max(free, 1))
    if near is not None:
        more, times = _lasting(left, weights, *near)
        white *= np.sqrt(np.outer(more, more))
        n_free /= times
    return by, white + 1e-300 * np.diag(moved), explained, n_free


def _lasting(errors: Floats, columns: Floats, whose: Ints, n_rows: int) -> tuple[Floats, float]:
    """Return how much larger variances are as errors last, (k,), and how many times fewer errors.

    Errors that do not depend on the columns last by themselves: docs/model.md (12.7).
    """
    is_new = np.diff(whose, prepend=whose[0]) != 0
    n_rows = min(n_rows, int(np.bincount(whose).max()))
    place = np.arange(len(errors)) + np.cumsum(is_new) * (n_rows - 1)  # zeros between trajectories
    laid = np.zeros((next_fast_len(int(place[-1]) + n_rows, real=True), 1 + columns.shape[1]))
    laid[place] = np.column_stack([errors, columns])
    sums = irfft(np.abs(rfft(laid, axis=0)) ** 2, len(laid), axis=0)[:n_rows]
    by, both = np.split(sums[1:] / np.maximum(sums[0], 1e-300), [1], axis=1)
    more = 1.0 + 2.0 * np.maximum(by * both, 0.0).sum(axis=0)  # below 0 by means of few rows
    return more, 1.0 + 2.0 * float((by**2).sum())


def _about(columns: Floats, alike: Sequence[Ints]) -> Floats:
    """Return columns about the means of those rows that are alike in each way."""
    places = [np.unique(way, return_inverse=True)[1] for way in alike]
    for place in places * (2 * len(places) - 1):  # one way is exact, of two each by turns
        counts = np.bincount(place)
        means = [np.bincount(place, one) / counts for one in columns.T]
        columns = columns - np.column_stack(means)[place]
    return columns


def _long(whose: Ints) -> Ints:
    return np.where(np.bincount(whose)[whose] < LONG, -1, whose)


def _time(at: Ints, times: int = TIMES) -> Ints:
    return np.searchsorted(np.quantile(at, np.arange(1, times) / times), at)


def _after(clear: Floats, more: str, less: str) -> str:
    some = {more: np.flatnonzero(clear > 0.0), less: np.flatnonzero(clear < 0.0)}
    return ", and ".join(
        f"{how} after choices with more of {named(which.tolist()).lower()}"
        for how, which in some.items()
        if len(which)
    )
