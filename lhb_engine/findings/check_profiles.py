"""Checks of lag profiles: which pay at lags of their own, and turn (docs/model.md 12)."""

from collections.abc import Iterator

import numpy as np
from scipy.special import chdtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.estimate import first_lags
from lhb_engine.findings.check_scores import less_beside
from lhb_engine.findings.finding import Finding, named
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import Predictor

SURE = 2.0  # standard errors by which own profiles must have predicted better than shared ones
CHANCE = 1e-4  # of a finding by chance
CLEAR = 4.0  # standard errors of an effect
OTHER = 0.25  # of a profile's square that is not of the common shape
ALIKE = 0.5  # cosine of two profiles of one shape


def check_profiles(rows: AlignedRounds, errors: Floats, predictor: Predictor) -> Iterator[Finding]:
    """Look for features with other lags than most, and for effects that change their sign."""
    form, dim = predictor.forms.get(predictor.form), rows.contexts.shape[1]
    if predictor.lag_weights.ndim == 1:
        return
    if form is not None and form["excess"] > -SURE * np.sqrt(form["variance"]):
        return
    profiles = predictor.lag_weights[: rows.n_lags, :dim]
    scale = np.sqrt(np.mean(rows.contexts**2, axis=0))
    limit = float(chdtri(len(profiles) - 1, CHANCE / dim))
    pairs = [_profile(rows, errors, predictor, profiles, feature) for feature in range(dim)]
    sure = [one for one in pairs if one is not None]  # of least squares: those in use are shrunk
    if len(sure) < dim:
        return
    every = np.column_stack([values for values, _ in sure]) * scale
    units = every / np.maximum(np.linalg.norm(every, axis=0), 1e-300)
    alike = np.abs(units.T @ units)
    most = alike[alike.sum(axis=0).argmax()] > ALIKE  # whose common shape has length 1
    shape = np.linalg.svd(every[:, most], full_matrices=False)[0][:, 0]
    differ: list[int] = []
    turning: dict[int, list[int]] = {-1: [], 1: []}
    for feature, (values, precision) in enumerate(sure):
        size = float(shape @ values)
        rest = values - shape * float(shape @ precision @ values) / float(shape @ precision @ shape)
        is_other = float(values @ values) * (1.0 - OTHER) > size**2
        if is_other and float(rest @ precision @ rest) > limit:
            differ.append(feature)
        n_first = int(first_lags(profiles[:, [feature]])[0])
        turn = _turn(values, np.asarray(np.linalg.inv(precision)), n_first)
        if turn:
            turning[turn].append(feature)
    if differ:
        yield Finding(
            "profiles_differ",
            f"Rewards for {named(differ).lower()} come after other numbers of rounds than for "
            "most features. Leave them as they are, and look under lag profiles when each pays.",
            features=tuple(differ),
        )
    for sign, first, total in ((-1, "positive", "negative"), (1, "negative", "positive")):
        if turning[sign]:
            yield Finding(
                "pays_now_costs_later",
                f"The effect of {named(turning[sign]).lower()} is {first} at first, and {total} in "
                "all. Decisions go by the total: leave them so, and do not judge them by their "
                "first rewards.",
                features=tuple(turning[sign]),
            )


def _profile(
    rows: AlignedRounds, errors: Floats, predictor: Predictor, profiles: Floats, feature: int
) -> tuple[Floats, Floats] | None:
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


def _turn(values: Floats, covariance: Floats, m: int) -> int:
    """Return the sign of the total effect if it is clear, and m first lags have the other; or 0."""
    total, error = float(values.sum()), float(np.sqrt(covariance.sum()))
    if abs(total) < CLEAR * error:
        return 0
    sign = int(np.sign(total))
    now, error = float(values[:m].sum()), float(np.sqrt(covariance[:m, :m].sum()))
    return sign if -sign * now > CLEAR * error else 0
