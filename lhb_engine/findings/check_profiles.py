"""Checks of lag profiles: which pay at lags of their own, and turn (docs/model.md 12)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import chdtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.estimate import first_lags, signal_of
from lhb_engine.findings.check_scores import MOST_NUMBERS, less_beside
from lhb_engine.findings.finding import Finding, named
from lhb_engine.history import Floats
from lhb_engine.posterior.predictor import Predictor

SURE = 2.0  # standard errors by which own profiles must have predicted better than shared ones
CHANCE = 1e-4  # of a finding by chance
CLEAR = 4.0  # standard errors of an effect
OTHER = 0.25  # of a profile's square that is not of the common shape
ALIKE = 0.5  # cosine of two profiles of one shape
Known = tuple[Floats, Floats] | None  # a profile, and its precision


def check_profiles(rows: AlignedRounds, errors: Floats, predictor: Predictor) -> Iterator[Finding]:
    """Look for features with other lags than most, and for effects that change their sign."""
    form, dim = predictor.forms.get(predictor.form), rows.contexts.shape[1]
    theta, profiles = predictor.theta[:dim], predictor.lag_weights[: rows.n_lags]
    if is_shared := profiles.ndim == 1:
        latest = rows.in_order()[-(MOST_NUMBERS // len(profiles)) :]
        rows = replace(rows, y=errors).only(np.isin(np.arange(len(errors)), latest))
        errors = rows.y
    profiles = np.outer(profiles, theta) if is_shared else profiles[:, :dim]
    pairs = (_profile(rows, errors, predictor, profiles, feature) for feature in range(dim))
    if is_shared:
        yield from _turned(_together(rows, errors, predictor, profiles, pairs))
        return
    scale = np.sqrt(np.mean(rows.contexts**2, axis=0))
    limit = float(chdtri(len(profiles) - 1, CHANCE / dim))
    sure = [one for one in pairs if one is not None]  # of least squares: those in use are shrunk
    if len(sure) < dim:
        return
    turns = [_turn(*one, n) for one, n in zip(sure, first_lags(profiles), strict=True)]
    if form is not None and form["excess"] > -SURE * np.sqrt(form["variance"]):
        together = _together(rows, errors, predictor, profiles, sure)
        turns = [one or other for one, other in zip(turns, together, strict=True)]
    else:
        every = np.column_stack([values for values, _ in sure]) * scale
        units = every / np.maximum(np.linalg.norm(every, axis=0), 1e-300)
        alike = np.abs(units.T @ units)
        most = alike[alike.sum(axis=0).argmax()] > ALIKE  # whose common shape has length 1
        shape = np.linalg.svd(every[:, most], full_matrices=False)[0][:, 0]
        differ: list[int] = []
        for feature, (values, precision) in enumerate(sure):
            rest = values - shape * (shape @ precision @ values) / (shape @ precision @ shape)
            is_other = values @ values * (1.0 - OTHER) > (shape @ values) ** 2
            if is_other and rest @ precision @ rest > limit:
                differ.append(feature)
        if differ:
            yield Finding(
                "profiles_differ",
                f"Rewards for {named(differ).lower()} come after other numbers of rounds than for "
                "most features. Leave them so, and look under lag profiles when each pays.",
                features=tuple(differ),
            )
    yield from _turned(turns)


def _turned(turns: Sequence[int]) -> Iterator[Finding]:
    """Yield what is found where total effects have the other sign than first ones."""
    for sign, first, total in ((-1, "positive", "negative"), (1, "negative", "positive")):
        if turning := tuple(feature for feature, turn in enumerate(turns) if turn == sign):
            yield Finding(
                "pays_now_costs_later",
                f"The effect of {named(turning).lower()} is {first} at first, and {total} in all. "
                "Decisions go by the total: leave them so, and do not judge them by their first "
                "rewards.",
                features=turning,
            )


def _together(
    rows: AlignedRounds, errors: Floats, by: Predictor, profiles: Floats, pairs: Iterable[Known]
) -> list[int]:
    """Return for each feature whose profile, of `pairs`, is the score's: its `_turn`; else 0.

    All lags of the score are free. Of a feature that has this shape the size is clear.
    """
    theta = by.theta[: profiles.shape[1]]
    score = replace(rows, contexts=rows.contexts @ theta[:, np.newaxis])
    paid = errors + signal_of(rows.contexts, theta, profiles)
    found = _profile(score, paid, by, np.zeros((len(profiles), 1)), 0)
    if found is None or not (turn := _turn(*found, first_lags(found[0][:, np.newaxis])[0])):
        return [0] * len(theta)
    turns, shape, limit = [], found[0], chdtri(len(profiles) - 1, CHANCE / len(theta))
    for values, precision in (one or (np.zeros_like(shape), found[1]) for one in pairs):
        along, square = shape @ precision @ values, shape @ precision @ shape
        rest = values - shape * (along / square)
        is_clear = abs(along) > CLEAR * np.sqrt(square) and rest @ precision @ rest <= limit
        turns.append(turn * int(np.sign(along)) * bool(is_clear))
    return turns


def _profile(
    rows: AlignedRounds, errors: Floats, predictor: Predictor, profiles: Floats, feature: int
) -> Known:
    """Return a feature's profile by least squares, and its precision; None if it is not known.

    All lags of the feature are free, and so is the size of what each other feature does.
    """
    n_lags, order = len(profiles), rows.in_order()
    contexts, at = rows.contexts, np.arange(len(errors))

    def left(values: Floats) -> Floats:
        return innovations(rows, np.where(rows.number > 0, values, 0.0), predictor.autocorrelation)

    signals = [np.convolve(x, p)[: len(at)] for x, p in zip(contexts.T, profiles.T, strict=True)]
    others = [s for i, s in enumerate(signals) if i != feature and s.any()]
    beside = np.column_stack([left(v) for v in (*others, *rows.beside.T)])[order]
    lagged = (
        np.concatenate([np.zeros(k), contexts[: len(at) - k, feature]]) for k in range(n_lags)
    )
    columns = np.column_stack([left(column) for column in lagged])[order]
    target = left(errors + signals[feature])[order]
    n_free = len(order) - n_lags - beside.shape[1]
    columns, target, _ = less_beside(beside, columns, target)
    gram = columns.T @ columns
    if n_free < n_lags or np.linalg.cond(gram) > 1e10:
        return None
    values = np.asarray(np.linalg.solve(gram, columns.T @ target), np.float64)
    rest = target - columns @ values
    return values, np.asarray(gram * (n_free / max(float(rest @ rest), 1e-300)))


def _turn(values: Floats, precision: Floats, m: int) -> int:
    """Return the sign of the total effect if it is clear, and m first lags have the other; or 0."""
    covariance = np.linalg.inv(precision)
    total, error = float(values.sum()), float(np.sqrt(covariance.sum()))
    if abs(total) < CLEAR * error:
        return 0
    sign = int(np.sign(total))
    now, error = float(values[:m].sum()), float(np.sqrt(covariance[:m, :m].sum()))
    return sign if -sign * now > CLEAR * error else 0
