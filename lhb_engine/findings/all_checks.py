"""All checks of a fit, on the latest rows alone, so that their cost does not grow."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import get_args

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds, align
from lhb_engine.design.levels import without_levels
from lhb_engine.design.products import Products
from lhb_engine.design.scaling import LEAST_CONTEXT, Units, power_of_two
from lhb_engine.findings.check_choices import check_choices, check_offers
from lhb_engine.findings.check_contexts import check_actions, check_features
from lhb_engine.findings.check_forecast import check_effect, check_forecast
from lhb_engine.findings.check_lags import (
    MOST_WHITENED,
    LagEffects,
    check_future,
    check_halves,
    check_horizon,
)
from lhb_engine.findings.check_limits import check_limits
from lhb_engine.findings.check_profiles import check_profiles
from lhb_engine.findings.check_scores import (
    MOST_NAMED,
    check_all_products,
    check_repetition,
    check_scores,
)
from lhb_engine.findings.check_series import Series, check_correlation, check_series
from lhb_engine.findings.check_side_effects import Rounds, check_missing, check_stay
from lhb_engine.findings.check_trajectories import check_levels, check_others, check_responses
from lhb_engine.findings.finding import ASKED, Code, Finding, Unchecked
from lhb_engine.history import LATEST, Floats, History, Parts
from lhb_engine.posterior.covariate_effects import changing
from lhb_engine.posterior.outliers import largest, without_outliers
from lhb_engine.posterior.predictor import Predictor, residuals

CODES: tuple[Code, ...] = get_args(Code)
ROWS_A_LAG = 4  # before the lags are judged: exploring, contexts repeat themselves
ROWS_A_CURVE = 2  # before scores are, with all products at once
FEW_ROWS_A_LAG = 5  # a lag: beyond, a fit without products knows the lags
SHARED: Code = "shared_with_rewards"  # what all arms share has columns at lag 0 alone
OF_TIME, OF_ERRORS = {"season", "trend"}, {"errors_correlated", SHARED}
OF_PROFILES: tuple[Code, ...] = ("lags_change", "profiles_differ")
OF_SCORES: tuple[Code, ...] = ("scores_curved", "rewards_limited")
OF_LAGS: tuple[Code, ...] = ("horizon_short", *OF_PROFILES, *OF_SCORES)
NOTHING = Unchecked(tuple(code for code in ASKED if code != "arms_alike"), "rows")
MOST_TOLD = 600  # lags times features: beyond, no fit tells forms of lag profiles apart
FREE = 0.999  # intraclass correlation of levels that may be anything
SHRUNK = 0.15  # of the noise: smaller errors are what a fit's prior leaves
DOUBT = 4.0  # by which effects beyond the horizon must be clearer where errors last
MOST_NUMBERS = 2**22  # of their contexts, the zeros between trajectories included


def latest(history: History, horizon: int, n: int = LATEST, most: int = MOST_NUMBERS) -> History:
    """Return what checks read: the last n rounds, and twice the lags, of longest trajectories."""
    window = history.cut_window
    n_lags = min(2 * horizon, window.last)
    if history.latest_after is None:
        n_rounds = max(1, min(n, most // history.dim))
        first = max(window.first, window.last - n_rounds + 1)
        whole = replace(history, trajectories=history.of_chosen())
        cut = whole.cut(replace(window, first=first, n_lags=n_lags))
    else:
        cut = replace(history.latest(n, n_lags), window=replace(window, n_lags=n_lags))
    parts = Parts.of(cut.trajectories)
    by_name = np.argsort(np.array(parts.names), kind="stable")
    order = by_name[np.argsort(-parts.lengths[by_name], kind="stable")]
    gap = min(2 * horizon, int(parts.lengths.max(initial=0)))
    numbers = np.cumsum((parts.lengths[order] + gap) * history.dim)
    kept = np.zeros(len(parts), bool)
    kept[order] = (numbers <= 2 * most) | (np.arange(len(order)) == 0)
    return replace(cut, trajectories=parts.some(kept))


def checked(
    history: History,
    predictor: Predictor | None,
    horizon: int,
    dim: int,
    before: Predictor | None,
    n_means: int,
    products: Products = (),
    most: int = MOST_NAMED,
) -> list[Finding | Unchecked]:
    """Return what the checks of docs/model.md 12 find, and which could not be made.

    `history` is the `latest` part of a fit's history, with the covariates of the fit; `predictor`
    is the estimate's prediction, None before there is a direction; `before` is the prediction of
    the estimate in use until now. `dim` are the features of an arm, after which come `products`; a
    further one is that of the presample. The last `n_means` covariates are what
    `with_means` adds. At `most` so many further products are found.
    """
    parts = Parts.of(history.trajectories)
    totals = np.ptp(parts.contexts, axis=0) > 0.0 if history.sets and len(parts.contexts) else None
    outcomes = [*check_choices([*history.sets.values()], totals)]
    if not history.trajectories:
        return [*outcomes, NOTHING]
    rows = align(history)
    choices = [*_of_choices(history, rows, predictor, n_means, horizon)]
    units = Units(power_of_two(rows.contexts), power_of_two(rows.y))
    predictor, before = (one and one.in_units(units) for one in (predictor, before))
    rows = units.of(rows)
    size = float(np.abs(rows.contexts[:, :dim]).max(initial=0.0))
    if rows.n_rows < 2 or not rows.y.any() or size < LEAST_CONTEXT:
        return [*outcomes, NOTHING]
    one = replace(
        history, trajectories=parts.some(np.arange(len(parts)) == np.argmax(parts.counts))
    )
    outcomes += check_forecast(rows, before)
    rows = without_outliers(rows, predictor)
    alone = without_outliers(units.of(align(one)), predictor) if len(parts) > 1 else rows
    longest = _now(alone, predictor)
    series = Series.of(longest, _errors(longest, predictor))
    moves = predictor is not None and len(predictor.effects) > rows.covariates.shape[1] - n_means
    if predictor is not None:
        rows, predictor = _said(rows, predictor)
    model = {SHARED} if moves else set[Code](), predictor, horizon, dim, products, most
    return [*outcomes, *choices, *_all(rows, series, *model, history.sets)]


def told_apart(results: Sequence[Finding | Unchecked]) -> tuple[list[Finding], list[Unchecked]]:
    """Return what checks found, the most harmful first, and which could not be made."""
    findings = [one for one in results if isinstance(one, Finding)]
    unchecked = [one for one in results if isinstance(one, Unchecked)]
    return sorted(findings, key=lambda one: CODES.index(one.code)), unchecked


def _of_choices(
    history: History, rows: AlignedRounds, predictor: Predictor | None, n_means: int, horizon: int
) -> Iterator[Finding | Unchecked]:
    """Look for what choices change beside rewards, by the mean contexts of what was offered."""
    of_several: tuple[Code, ...] = ("trajectories_end",) if len(history.trajectories) > 1 else ()
    of_rounds: tuple[Code, ...] = ("rewards_missing", *of_several)
    codes: tuple[Code, ...] = ("shared_with_rewards", "offers_follow", *of_rounds)
    if not n_means:
        yield Unchecked(codes, "features")
        return
    if 2 * np.count_nonzero(rows.covariates[:, -n_means]) < rows.n_rows:
        yield Unchecked(codes, "sets")  # fits take what all arms share for what choices do
        return
    if history.latest_after is None:
        rounds = Rounds.of(history.trajectories, n_means, horizon, predictor)
        rounds = rounds.only(rounds.at >= history.checked_window().first)  # rewards before are cut
        yield from check_missing(rounds, horizon)
        yield from check_stay(rounds, history.checked_window().last)
    else:
        yield Unchecked(of_rounds, "sets")  # a slot has the sets of several decisions
    if predictor is None:
        yield Unchecked(("offers_follow",), "rows")
    else:
        theta = predictor.theta[: n_means - 1]
        yield from check_offers(rows, rows.covariates[:, 1 - n_means :], theta)


def _said(rows: AlignedRounds, predictor: Predictor) -> tuple[AlignedRounds, Predictor]:
    """Return rows and a prediction without the covariates that do not change, or have no effect."""
    kept = changing(rows.beside.T @ rows.beside)[1:]
    kept[len(predictor.effects) :] = False
    effects = predictor.effects[kept[: len(predictor.effects)]]
    return rows.without(np.flatnonzero(~kept)), replace(predictor, effects=effects)


def _all(
    rows: AlignedRounds,
    series: Series | None,
    taken_out: Set[Code],  # of rows and errors, by the fit
    predictor: Predictor | None,
    horizon: int,
    dim: int,
    products: Products,
    most: int,
    sets: Mapping[int, Floats],
) -> Iterator[Finding | Unchecked]:
    yield from check_effect(predictor.n_rows if predictor else 0, horizon + rows.dim, predictor)
    every, left, rows = rows, _errors(rows, predictor), _now(rows, predictor)
    errors = left if rows is every else _errors(rows, predictor)
    width = dim + len(products)
    rows = replace(rows, contexts=rows.contexts[:, :width])
    if predictor is not None:
        weights = predictor.lag_weights
        weights = weights if weights.ndim == 1 else weights[:, :width]
        predictor = replace(predictor, theta=predictor.theta[:width], lag_weights=weights)
    plain = replace(rows, contexts=rows.contexts[:, :dim])
    far = largest(plain.contexts)  # else a few contexts, and what is wrong there, decide
    usual = replace(plain, contexts=np.clip(plain.contexts, -far, far))
    yield from check_features(usual)
    of_errors = [*_of_errors(rows, errors, series, predictor), *check_actions(plain, sets)]
    codes = {*taken_out, *(one.code for one in of_errors if isinstance(one, Finding))}
    is_long = rows.n_rows >= ROWS_A_CURVE * horizon and bool(errors.any())
    repetition: list[Finding] = []
    if predictor is not None and is_long and codes - OF_TIME <= OF_ERRORS:
        repetition = [*check_repetition(plain, errors, predictor)]
    if repetition:  # what repetition takes looks like a fall, and like effects at more lags
        others = (one for one in of_errors if isinstance(one, Unchecked) or one.code != "trend")
        of_errors = [*repetition, Unchecked(("trend", "horizon_short"), "found"), *others]
        codes = codes - {"trend"} | {"repetition"}
    yield from of_errors
    yield from _unchecked(plain, series is None and bool(errors.any()), predictor, horizon, codes)
    doubt = DOUBT if codes else 1.0
    effects = LagEffects.of(usual, errors, horizon) if errors.any() else None
    if effects is not None:
        yield from check_future(effects, doubt)
    if not is_long or codes & OF_TIME:
        return  # what moves rewards over time looks like effects at many lags
    if predictor is not None and codes <= OF_ERRORS:  # what bends is missing at all lags
        bends = [*check_scores(rows, errors, predictor, dim, products, most)]
        few = rows.n_rows <= FEW_ROWS_A_LAG * horizon and horizon * dim * (dim + 3) <= 2 * MOST_TOLD
        if few and predictor.form == "shared" and not (bends or products or codes):
            bends = [*check_all_products(rows, errors, predictor, dim, most)]
        yield from bends or check_limits(rows, errors, predictor)
    if rows.n_rows < ROWS_A_LAG * horizon or repetition:
        return
    if effects is not None:
        yield from check_horizon(effects, horizon, doubt)
    if predictor is not None and not codes:
        whole = replace(every, contexts=every.contexts[:, :width])
        yield from check_halves(whole, left, predictor, horizon)
        yield from check_profiles(plain, errors, predictor)


def _of_errors(
    rows: AlignedRounds, errors: Floats, series: Series | None, predictor: Predictor | None
) -> Iterator[Finding | Unchecked]:
    """Look for what makes errors last: in trajectories, and over time."""
    differ: list[Finding | Unchecked] = []
    if predictor is not None:
        yield from check_others(rows, errors, predictor)
        yield from (differ := [*check_responses(rows, errors, predictor)])
    elif rows.owner.max(initial=0) > 0:
        yield Unchecked(("rewards_of_others", "responses_differ"), "rows")
    if not any(isinstance(one, Finding) for one in differ):  # which look like levels, too
        yield from (levels := [*check_levels(rows, errors)])
        differ += levels
    if series is not None:
        yield from check_series(series)
    elif not any(isinstance(one, Finding) for one in differ):  # which correlate errors
        yield from check_correlation(rows, errors)


def _unchecked(
    rows: AlignedRounds, is_short: bool, predictor: Predictor | None, horizon: int, codes: Set[str]
) -> Iterator[Unchecked]:
    """Say which checks of time and of lags are not made; `codes` are what was found before them."""
    if is_short:
        yield Unchecked(("trend", "season"), "rows")
    if rows.contexts.shape[1] > MOST_WHITENED:
        yield Unchecked(("rewards_early", "horizon_short"), "features")
    if predictor is not None and horizon * len(predictor.theta) > MOST_TOLD:
        yield Unchecked(("profiles_differ",), "features")
    if predictor is None or rows.n_rows < ROWS_A_CURVE * horizon:
        yield Unchecked(OF_LAGS, "rows")
    elif rows.n_rows < ROWS_A_LAG * horizon:
        yield Unchecked(("horizon_short", *OF_PROFILES), "rows")
        if not codes <= OF_ERRORS:
            yield Unchecked(OF_SCORES, "found")
    elif codes & OF_TIME:
        yield Unchecked(OF_LAGS, "found")
    elif codes:
        hidden = () if codes <= OF_ERRORS else OF_SCORES  # errors alone hide no curve
        yield Unchecked((*OF_PROFILES, *hidden), "shared" if codes == {SHARED} else "found")


def _now(rows: AlignedRounds, predictor: Predictor | None) -> AlignedRounds:
    """Return the rows that the prediction is of: none from before a change."""
    since = predictor.since_round if predictor else 1
    return rows if since == 1 else rows.rows(since, int(rows.number.max()))


def _errors(rows: AlignedRounds, predictor: Predictor | None) -> Floats:
    """Return what a prediction and levels leave of rewards, about its mean, (n,); 0 if small."""
    left = rows.y
    if predictor is not None:
        left = residuals(rows, predictor.theta, predictor.lag_weights, predictor.beside)
    if rows.levels:
        rho = FREE if predictor is None else predictor.autocorrelation
        left = without_levels(left, rows.level, rows.intercept, rho)
    mean = float(left @ rows.intercept) / float(rows.intercept @ rows.intercept)
    left = left - mean * rows.intercept
    least = 0.0 if predictor is None else (SHRUNK * predictor.noise) ** 2 * rows.n_rows
    return np.asarray(left * (left @ left > least))
