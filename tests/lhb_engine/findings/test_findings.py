"""Checks of the model on logs whose truth is known: what is the matter is found, and nothing else.

How often they are right where an agent plays is measured by `lhb bench findings`.
"""

import ast
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from scipy.special import chdtri

from lhb_engine.agents import make_agent
from lhb_engine.agents.anytime_options import MOST_UNKNOWNS
from lhb_engine.design.aligned_rounds import align
from lhb_engine.findings import all_checks as checks
from lhb_engine.findings.all_checks import checked, latest, told_apart
from lhb_engine.findings.check_contexts import check_features
from lhb_engine.findings.check_lags import CHANCE, NEXT, LagEffects, check_future, check_halves
from lhb_engine.findings.check_profiles import check_profiles
from lhb_engine.findings.check_trajectories import check_levels
from lhb_engine.findings.finding import ASKED, Finding, unchecked_json
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.predictor import Predictor

DIM, HORIZON, ROUNDS = 3, 12, 800
THETA = np.array([0.6, 0.8, 0.0])
WEIGHTS = np.zeros(2 * HORIZON)
WEIGHTS[[1, 4]] = 0.6, 0.4
KNOWN = Predictor(WEIGHTS[:HORIZON], THETA, 0.0, 0.1, ROUNDS, True)
TIME = np.arange(1, ROUNDS + 1)


def numbers(seed=0):
    return np.random.default_rng(seed)


def contexts_of(n=ROUNDS, seed=0):
    return numbers(seed).uniform(-1, 1, (n, DIM))


def paid(contexts, weights=WEIGHTS, seed=0):
    signal = np.convolve(contexts @ THETA, weights)[: len(contexts)]
    return signal + 0.1 * numbers(seed + 1).standard_normal(len(contexts))


def over(parts, n_rounds=ROUNDS):
    window = FitWindow(1, 1, n_rounds, HORIZON, n_rounds)
    return History(DIM, parts).over(window)


def one(contexts, rewards):
    n = len(contexts)
    measured = Measurements.single(np.arange(1, n + 1), np.asarray(rewards, np.float64))
    return over({"": Trajectory(contexts, measured)}, n)


def found(history, known=KNOWN):
    return told_apart(checked(latest(history, HORIZON), known, HORIZON, DIM, None, 0))[0]


def codes(history, known=KNOWN):
    return [each.code for each in found(history, known)]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_found_where_nothing_is_the_matter(seed):
    contexts = contexts_of(seed=seed)
    assert codes(one(contexts, 7 + paid(contexts, seed=seed))) == []


@pytest.mark.parametrize("n_far", [1, 12])
@pytest.mark.parametrize("times", [100.0, 1000.0])
def test_a_few_contexts_far_beyond_the_others_are_nothing(times, n_far):
    """What an estimate is off by is large where they pay, and no effect of others."""
    contexts = contexts_of()
    contexts[numbers(3).choice(ROUNDS, n_far, replace=False)] *= times
    off = replace(KNOWN, lag_weights=1.1 * KNOWN.lag_weights)
    assert codes(one(contexts, 7 + paid(contexts)), off) == []


@pytest.mark.parametrize("code", ["scores_curved", "season", "horizon_short"])
def test_what_was_the_matter_before_a_change_is_not_found_after_it(code):
    """The prediction does not speak of these rounds; a doubt about them would hide its gain."""
    contexts, before = contexts_of(), TIME <= 600
    far = np.append(np.zeros(18), contexts[:-18] @ THETA)
    wrong = {
        "scores_curved": np.convolve(contexts[:, 0] * contexts[:, 1], WEIGHTS)[:ROUNDS],
        "season": np.sin(2 * np.pi * TIME / 24),
        "horizon_short": far,
    }
    history = one(contexts, paid(contexts) + before * wrong[code])
    assert code in codes(history)
    assert codes(history, replace(KNOWN, since_round=601)) == []


@pytest.mark.parametrize(("n", "known"), [(ROUNDS, KNOWN), (30, KNOWN), (ROUNDS, None)])
def test_checks_that_cannot_be_made_are_told_from_those_that_find_nothing(n, known):
    """Of a log the sets are missing; of a few rounds, or before a direction, more than that."""
    contexts = contexts_of(n)
    rows = latest(one(contexts, 7 + paid(contexts)), HORIZON)
    some, unchecked = told_apart(checked(rows, known, HORIZON, DIM, None, 0))
    missing = {each["missing"]: each for each in unchecked_json(unchecked)}
    assert some == []
    assert "arms_alike" in missing["sets"]["codes"]
    assert ("season" in missing.get("rows", {"codes": ()})["codes"]) == (n == 30)
    assert ("lags_change" in missing.get("rows", {"codes": ()})["codes"]) == (
        n == 30 or known is None
    )
    assert missing["sets"]["message"].startswith("Not checked, as what else there was to choose")
    assert {each for one in missing.values() for each in one["codes"]} <= {*ASKED}


@pytest.mark.parametrize(("noise", "is_found"), [(0.1, False), (0.02, True)])
def test_what_a_prior_leaves_of_rewards_is_no_error(noise, is_found):
    """A swing of a hundredth, where rewards have no noise at all."""
    contexts = contexts_of()
    swing = 0.01 * np.sin(2 * np.pi * TIME / 24)
    rewards = np.convolve(contexts @ THETA, WEIGHTS)[:ROUNDS] + swing
    some = codes(one(contexts, rewards), replace(KNOWN, noise=noise))
    assert "season" in some if is_found else some == []


def test_scores_are_checked_before_lags_are():
    """In 40 rows, over three times the horizon, and nothing is found that would explain more."""
    contexts = contexts_of(40)
    rows = latest(one(contexts, 7 + paid(contexts)), HORIZON)
    some, unchecked = told_apart(checked(rows, KNOWN, HORIZON, DIM, None, 0))
    assert some == []
    by_rows = {code for each in unchecked if each.missing == "rows" for code in each.codes}
    assert {"horizon_short", "lags_change"} <= by_rows
    left_out = {code for each in unchecked for code in each.codes}
    assert not {"scores_curved", "rewards_limited"} & left_out


@pytest.mark.parametrize(
    ("n_known", "is_told"), [(ROUNDS * 3 // 8, False), (ROUNDS * 5 // 8, True)]
)
def test_what_choices_change_is_checked_where_most_sets_are_known(n_known, is_told):
    contexts = contexts_of()
    shared = np.column_stack([np.ones(ROUNDS), 0.5 * contexts_of(seed=5)])
    shared[n_known:] = 0.0
    [(name, part)] = one(contexts, paid(contexts)).trajectories.items()
    history = replace(over({name: replace(part, covariates=shared)}), groups=(1 + DIM,))
    _, unchecked = told_apart(checked(latest(history, HORIZON), KNOWN, HORIZON, DIM, None, 1 + DIM))
    by_sets = {code for each in unchecked if each.missing == "sets" for code in each.codes}
    assert ("offers_follow" in by_sets) != is_told


@pytest.mark.parametrize(
    ("n", "dim", "missing"), [(200, 301, "features"), (20, 3, "rows"), (200, 3, None)]
)
def test_features_that_are_too_many_are_not_checked_for_being_alike(n, dim, missing):
    contexts = numbers().uniform(-1, 1, (n, dim))
    measured = Measurements.single(np.arange(1, n + 1), contexts[:, 0])
    history = History(dim, {"": Trajectory(contexts, measured)}).over(FitWindow(1, 1, n, 2, n))
    outcomes = checked(latest(history, 2), None, 2, dim, None, 0)
    unchecked = told_apart(outcomes)[1]
    said = [one.missing for one in unchecked if "features_alike" in one.codes]
    assert said == [missing] * (missing is not None)
    codes = {code for one in unchecked if one.missing == "features" for code in one.codes}
    assert ("rewards_early" in codes) == (dim > 3)


@pytest.mark.parametrize(("n_lags", "is_told"), [(200, True), (201, False)])
def test_lag_profiles_that_no_fit_tells_apart_are_unchecked(n_lags, is_told):
    contexts, weights = contexts_of(900), np.append(WEIGHTS, np.zeros(n_lags))[:n_lags]
    rows = latest(one(contexts, paid(contexts)), n_lags)
    known = replace(KNOWN, lag_weights=weights, last_round=900)
    _, unchecked = told_apart(checked(rows, known, n_lags, DIM, None, 0))
    features = [each for each in unchecked if each.missing == "features"]
    assert any("profiles_differ" in each.codes for each in features) != is_told
    assert checks.MOST_TOLD == MOST_UNKNOWNS == 3 * 200


@pytest.mark.parametrize("period", [7, 24, 50.5])
@pytest.mark.parametrize("known", [KNOWN, None])
def test_a_season_is_found_with_its_period(period, known):
    contexts = contexts_of()
    season = np.sin(2 * np.pi * TIME / period) + 0.3 * np.cos(4 * np.pi * TIME / period)
    [season_found] = found(one(contexts, paid(contexts) + season), known)
    assert season_found.code == "season"
    assert season_found.period == pytest.approx(period, rel=0.005)
    told = f'{{"period": {season_found.period:g}, "harmonics": 2}}'
    assert told in season_found.message
    assert season_found.harmonics == 2


def test_a_season_is_advised_with_the_harmonics_that_show():
    contexts = contexts_of()
    for amplitudes, said in (
        ((1.0,), '{"period": 24}'),
        ((1.0, 0.0, 0.0, 0.2), '{"period": 24, "harmonics": 4}'),
    ):
        waves = [a * np.sin(2 * np.pi * j * TIME / 24) for j, a in enumerate(amplitudes, 1)]
        [season] = found(one(contexts, paid(contexts) + sum(waves)))
        assert said in season.message


def test_a_season_that_the_fit_takes_out_is_not_found():
    contexts = contexts_of()
    season = np.sin(2 * np.pi * TIME / 24)
    history = one(contexts, paid(contexts) + season)
    column = season[:, None]
    told = replace(
        history,
        trajectories={"": replace(history.trajectories[""], covariates=column)},
        groups=(1,),
    )
    assert codes(told, replace(KNOWN, effects=np.ones(1))) == []


def test_a_season_shows_in_weekly_sums_and_where_rewards_are_missing():
    contexts = contexts_of(2100)
    time = np.arange(1, 2101)
    rewards = paid(contexts) + np.sin(2 * np.pi * time / 84)
    first = np.arange(1, 2101, 7)
    sums = Measurements(first, first + 6, rewards.reshape(-1, 7).sum(axis=1))
    assert [f.period for f in found(over({"": Trajectory(contexts, sums)}, 2100))] == [84]
    seen = np.flatnonzero(numbers().random(2100) < 0.6)
    some = Measurements.single(seen + 1, rewards[seen])
    assert [f.period for f in found(over({"": Trajectory(contexts, some)}, 2100))] == [84]


def test_a_trend_is_found():
    contexts = contexts_of()
    assert codes(one(contexts, paid(contexts) - TIME / 1000)) == ["trend"]


def test_errors_that_last_are_found_in_one_trajectory_and_in_many():
    contexts = contexts_of()
    noise = np.zeros(ROUNDS)
    for t, drawn in enumerate(numbers(3).standard_normal(ROUNDS)):
        noise[t] = 0.8 * noise[t - 1] + 0.1 * drawn
    [lasting] = found(one(contexts, paid(contexts) + noise))
    assert lasting.code == "errors_correlated"
    # these were looked for before, and a session may be told of them
    assert not any(told in lasting.message for told in ("season", "trend", "level"))

    def users(sd):
        """Eighty of ten rounds, each with a level of its own."""
        parts = {}
        for user, level in enumerate(sd * numbers(4).standard_normal(80)):
            own = contexts_of(10, user)
            measured = Measurements.single(np.arange(1, 11), level + paid(own, seed=user))
            places = np.arange(10) * 80 + user + 1
            parts[f"user-{user}"] = Trajectory(own, measured, positions=places)
        return over(parts)

    assert codes(users(1.0)) == ["levels_differ"]
    assert codes(users(0.0)) == []


@pytest.mark.parametrize("lasting", [0.0, 0.9])
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_responses_that_differ_are_found_and_nothing_else_is_taken_for_them(level, lasting):
    """Of sixty users of 16 rounds, whose levels may differ and whose noise may last."""

    def users(spread, shift=0.0):
        rng, parts = numbers(7), {}
        for user in range(60):
            own, noise = contexts_of(16, user), rng.standard_normal(16)
            for t in range(1, 16):
                noise[t] = lasting * noise[t - 1] + np.sqrt(1 - lasting**2) * noise[t]
            delta = spread * rng.standard_normal(DIM) / np.sqrt(DIM) + shift
            paid_more = np.convolve(own @ delta, WEIGHTS)[:16]
            rewards = paid(own, seed=user) + 0.3 * noise + paid_more + level * rng.normal()
            places = np.arange(16) * 60 + user + 1
            measured = Measurements.single(np.arange(1, 17), rewards)
            parts[f"user-{user}"] = Trajectory(own, measured, positions=places)
        return found(over(parts, 960), replace(KNOWN, autocorrelation=lasting))

    [differ] = [one for one in users(0.6) if one.code == "responses_differ"]
    share = float(differ.message.partition("about ")[2].partition("%")[0]) / 100
    assert share == pytest.approx(0.6, rel=0.4)
    assert "levels_differ" not in [one.code for one in users(0.6)]
    for same in (users(0.0), users(0.0, shift=0.5)):
        assert "responses_differ" not in [one.code for one in same]


@pytest.mark.parametrize("n_users", [40, 12])
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_rewards_of_others_are_found_where_trajectories_play_together(level, n_users):
    """Each is given the rewards of the next, who chooses by the same theta; levels may differ."""
    own = [contexts_of(20, user) for user in range(n_users)]
    rewards = [paid(one, seed=user) for user, one in enumerate(own)]
    levels = level * numbers(9).standard_normal(n_users)

    def outcomes(shift, known=KNOWN, in_turn=False):
        parts = {}
        for user in range(n_users):
            measured = Measurements.single(
                np.arange(1, 21), rewards[(user + shift) % n_users] + levels[user]
            )
            places = user * 20 + np.arange(20) if in_turn else np.arange(20) * n_users + user
            parts[f"user-{user}"] = Trajectory(own[user], measured, positions=places + 1)
        rows = latest(over(parts, 20 * n_users), HORIZON)
        some, unchecked = told_apart(checked(rows, known, HORIZON, DIM, None, 0))
        return [each.code for each in some], {code for each in unchecked for code in each.codes}

    told, of_others = [outcomes(shift) for shift in (0, 1)]
    assert "rewards_of_others" not in told[0]
    assert ("rewards_of_others" in of_others[0]) == (n_users == 40)
    assert ("rewards_of_others" in told[1]) == (n_users == 12)
    weak = replace(KNOWN, lag_weights=0.001 * KNOWN.lag_weights)
    for not_made in (outcomes(1, None), outcomes(1, weak), outcomes(1, in_turn=True)):
        assert "rewards_of_others" in not_made[1] - {*not_made[0]}


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_rewards_of_others_are_found_where_choices_move_together(seed):
    """An estimate of weak effects has them from what all choose at one time and not another."""
    rng, n_users, n = numbers(seed), 40, 40
    moves = 0.5 * rng.standard_normal((n, DIM))
    own = [contexts_of(n, 90 * seed + user) + moves for user in range(n_users)]
    errors = rng.standard_normal((n_users, n))
    tastes, levels = rng.standard_normal((n_users, DIM)), 9.0 * rng.standard_normal(n_users)
    weak = replace(KNOWN, lag_weights=0.1 * KNOWN.lag_weights)

    def is_found(shift, noise=1.0, known=weak, differ=0.0):
        parts = {}
        for user in range(n_users):
            contexts = own[user] + differ * tastes[user]
            earner = (user + shift) % n_users
            rewards = paid(own[earner] + differ * tastes[earner], seed=earner)
            rewards += noise * errors[earner] + differ * levels[earner]
            measured = Measurements.single(np.arange(1, n + 1), rewards)
            places = np.arange(n) * n_users + user + 1
            parts[f"user-{user}"] = Trajectory(contexts, measured, positions=places)
        return "rewards_of_others" in codes(over(parts, n * n_users), known)

    assert is_found(20, noise=2.0)
    assert not is_found(20, noise=2.0, known=replace(weak, stands_out=False))  # less is sure
    assert not is_found(0)
    assert not is_found(0, differ=1.0)  # users, in their level and in what they choose


@pytest.mark.parametrize(("n_rounds", "lasting"), [(20, 0.9), (20, 0.95), (8, 0.9)])
@pytest.mark.parametrize("level", [0.0, 3.0])
def test_noise_that_lasts_within_trajectories_is_no_level(n_rounds, lasting, level):
    """With levels and white noise, or without levels and with noise that lasts; of twelve."""
    some = 0
    for seed in range(12):
        rng, parts = numbers(seed), {}
        for user in range(60):
            noise = rng.standard_normal(n_rounds)
            for t in range(1, n_rounds if level == 0.0 else 0):
                noise[t] = lasting * noise[t - 1] + np.sqrt(1 - lasting**2) * noise[t]
            measured = Measurements.single(
                np.arange(1, n_rounds + 1), noise + level * rng.standard_normal()
            )
            places = np.arange(n_rounds) * 60 + user + 1
            parts[f"user-{user}"] = Trajectory(
                contexts_of(n_rounds, user), measured, positions=places
            )
        rows = align(over(parts, 60 * n_rounds))
        some += len([*check_levels(rows, rows.y)])
    assert some <= 1 if level == 0.0 else some == 12


def test_levels_that_turn_over_are_no_levels():
    """The later rounds of each trajectory err as the earlier ones, with the other sign."""
    parts, signs = {}, np.repeat([1.0, -1.0], 4)
    for user in range(16):
        measured = Measurements.single(np.arange(1, 9), signs * (user - 7.5))
        places = np.arange(8) * 16 + user + 1
        parts[f"user-{user}"] = Trajectory(contexts_of(8, user), measured, positions=places)
    rows = align(over(parts, 128))
    assert [*check_levels(rows, rows.y)] == []


def test_features_that_cannot_be_told_apart_are_named():
    contexts = contexts_of()
    contexts[:, 2] = 2 * contexts[:, 0] + 0.01 * contexts[:, 2]
    [alike] = found(one(contexts, paid(contexts)))
    assert (alike.code, alike.features) == ("features_alike", (0, 2))
    assert alike.message.startswith("Features 0 and 2 hardly vary")
    contexts[:, 2] = 0.0
    [unused] = found(one(contexts, paid(contexts)))
    assert (unused.code, unused.features) == ("features_alike", (2,))
    assert unused.message.startswith("Feature 2 is 0")


def test_columns_of_two_categories_are_found_only_where_categories_go_together():
    """What all of one pay more all of the other may pay less: no choice depends on it."""
    rng = numbers(11)
    mail, theme = rng.integers(0, 2, (2, ROUNDS))
    apart, together = (
        np.concatenate([np.eye(2)[mail], np.eye(2)[other]], axis=1) for other in (theme, mail)
    )

    def alike(contexts):
        history = replace(one(contexts, TIME), dim=contexts.shape[1])
        return [each.features for each in check_features(align(history))]

    assert alike(apart) == []
    assert alike(together) == [(0, 1, 2, 3)]
    priced = np.insert(apart, 4, apart[:, 1] - 2.0 * apart[:, 0], axis=1)
    [named] = alike(priced)  # a price that goes with one of them alone
    assert {0, 1, 4} <= {*named}


def test_a_reward_that_is_known_before_its_decision_is_found():
    """Somebody comes or not, and only to those who come something is shown."""
    came = numbers(5).random(ROUNDS) < 0.4
    contexts = np.where(came[:, None], contexts_of(), 0.0)
    assert codes(one(contexts, came), None) == ["known_before"]
    noisy = came + 0.2 * numbers(6).standard_normal(ROUNDS)
    assert codes(one(contexts, noisy), None) == ["known_before"]
    acting = came * (1 + contexts @ THETA) + 0.2 * numbers(6).standard_normal(ROUNDS)
    assert "known_before" not in codes(one(contexts, acting), None)


@pytest.mark.parametrize("known", [KNOWN, None])
def test_effects_beyond_the_horizon_are_found_with_their_lags(known):
    contexts, weights = contexts_of(), WEIGHTS.copy()
    weights[[15, 20]] = 0.4
    [short] = found(one(contexts, paid(contexts, weights)), known)
    assert (short.code, short.lags) == ("horizon_short", (15, 20))


def test_many_small_effects_beyond_the_horizon_are_found_together():
    contexts, weights = contexts_of(8000), WEIGHTS.copy()
    weights[HORIZON:] = 0.007
    assert codes(one(contexts, paid(contexts, weights))) == ["horizon_short"]


def test_lag_weights_that_change_are_found_with_their_lags():
    contexts, after = contexts_of(), np.zeros(2 * HORIZON)
    after[[4, 9]] = 0.4, 0.6
    late = TIME > ROUNDS / 2
    rewards = np.where(late, paid(contexts, after), paid(contexts))
    for w in (WEIGHTS, after, (WEIGHTS + after) / 2):
        [changed] = found(one(contexts, rewards), replace(KNOWN, lag_weights=w[:HORIZON]))
        assert (changed.code, changed.lags) == ("lags_change", (1, 9))


@pytest.mark.parametrize("before", [-THETA, 0.0 * THETA, np.array([0.0, -1.0, 0.5])])
def test_a_theta_that_turned_is_no_change_of_lags(before):
    """All lags pay otherwise then, each in its share."""
    contexts = contexts_of()
    early = np.convolve(contexts @ before, WEIGHTS)[:ROUNDS] + 0.1 * numbers(2).standard_normal(
        ROUNDS
    )
    rewards = np.where(TIME > ROUNDS / 3, paid(contexts), early)
    since = replace(KNOWN, since_round=ROUNDS // 3)
    assert "lags_change" not in codes(one(contexts, rewards), since)


@pytest.mark.parametrize(("one_of", "other", "named"), [(0, 2, (0, 2)), (1, 1, (1,))])
def test_a_product_that_pays_beside_the_features_is_named(one_of, other, named):
    contexts = contexts_of()
    product = contexts[:, one_of] * contexts[:, other]
    more = np.convolve(product, 0.3 * WEIGHTS)[:ROUNDS]
    [curved] = found(one(contexts, paid(contexts) + more))
    assert (curved.code, curved.features) == ("scores_curved", named)
    assert ("their product" in curved.message) == (len(named) == 2)


def test_products_that_are_clear_only_together_are_named():
    contexts = contexts_of()
    rewards = paid(contexts) + 0.3 * numbers(9).standard_normal(ROUNDS)
    pairs = combinations_with_replacement(range(3), 2)
    paying = zip(pairs, (0.15, -0.15, 0.15, 0.15, -0.15, 0.15), strict=True)
    more = [
        np.convolve(pays * contexts[:, i] * contexts[:, j], WEIGHTS)[:ROUNDS]
        for (i, j), pays in paying
    ]
    assert not any(codes(one(contexts, rewards + alone)) for alone in more)
    assert codes(one(contexts, rewards + sum(more))) == ["scores_curved"] * 3


def test_where_squares_are_clear_together_no_product_of_two_features_is_named():
    contexts = contexts_of()
    more, alike = np.convolve(contexts**2 @ [0.2, -0.2, 0.2], WEIGHTS)[:ROUNDS], []
    for seed in range(8):
        noise = 0.3 * numbers(100 + seed).standard_normal(ROUNDS)
        alike += [each.features for each in found(one(contexts, paid(contexts) + more + noise))]
    assert len(alike) > 12
    assert all(len(features) == 1 for features in alike)


@pytest.mark.parametrize("pays", [0.0, 1.5])
def test_products_show_by_the_lags_of_a_fit_that_counts_them(pays):
    """Of few rows a fit without them has taken other lags, by which no product shows."""
    contexts = contexts_of(n=60)
    more = np.convolve(contexts[:, 0] * contexts[:, 1] - contexts[:, 1] * contexts[:, 2], WEIGHTS)
    past = one(contexts, paid(contexts) + pays * more[:60])
    lags = np.roll(WEIGHTS[:HORIZON], 5)
    named = [each.features for each in found(past, replace(KNOWN, lag_weights=lags))]
    assert {*named} == ({(0, 1), (1, 2)} if pays else set())


def test_a_product_of_a_few_rows_is_not_named():
    """Two features are there together in two rounds, by chance before large rewards."""
    contexts = contexts_of()
    contexts[:, 0], contexts[:, 1] = TIME % 5 == 0, TIME % 7 == 0
    contexts[np.flatnonzero(contexts[:, :2].all(axis=1))[2:], 0] = 0.0
    both = np.convolve(contexts[:, 0] * contexts[:, 1], WEIGHTS)[:ROUNDS]
    assert codes(one(contexts, paid(contexts) + 2.0 * both)) == []


def test_a_product_that_only_goes_with_a_feature_is_not_named():
    """Of a feature that is 0 or 1 the square is the feature."""
    contexts = contexts_of()
    contexts[:, 0] = contexts[:, 0] > 0
    more = np.convolve(contexts[:, 0], 0.3 * WEIGHTS)[:ROUNDS]
    assert codes(one(contexts, paid(contexts) + more)) == []


def test_what_goes_with_products_of_later_rounds_as_well_is_chance():
    """Contexts that stay for 40 rounds, and errors that go with them before they are chosen."""
    contexts = contexts_of()
    contexts[:, 0], contexts[:, 2] = (np.repeat(contexts[::40, i], 40) for i in (0, 2))
    slow = np.convolve(contexts[:, 0] * contexts[:, 2], np.ones(40) / 40, "same")
    assert "scores_curved" not in codes(one(contexts, paid(contexts) + 0.2 * slow))


def own_profiles(first):
    """The profiles of `KNOWN`, but for a first feature that has another, and a prediction of it."""
    profiles = np.outer(WEIGHTS[:HORIZON], [0.0, 0.8, 0.5])
    profiles[:, 0] = first
    forms = {"sparse": {"excess": -9.0, "variance": 4.0}}
    known = replace(KNOWN, lag_weights=profiles, form="sparse", forms=forms)
    contexts = contexts_of()
    signal = sum(
        np.convolve(x, phi)[:ROUNDS] for x, phi in zip(contexts.T, profiles.T, strict=True)
    )
    return one(contexts, signal + 0.1 * numbers(1).standard_normal(ROUNDS)), known


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_effect_that_turns_is_found(sign):
    """Clickbait: it pays at once, and costs more over the next rounds."""
    first = np.zeros(HORIZON)
    first[0], first[1:7] = sign, -0.3 * sign
    turns, differs = found(*own_profiles(first))
    assert (differs.code, differs.features) == ("profiles_differ", (0,))
    assert (turns.code, turns.features) == ("pays_now_costs_later", (0,))
    words = "positive at first, and negative" if sign > 0 else "negative at first, and positive"
    assert turns.message.startswith(f"The effect of feature 0 is {words} in all.")


def test_a_feature_of_other_lags_differs_and_does_not_turn():
    first = np.zeros(HORIZON)
    first[[7, 9]] = 0.4, 0.5
    history, known = own_profiles(first)
    [differs] = found(history, known)
    assert (differs.code, differs.features) == ("profiles_differ", (0,))
    unsure = {"sparse": {"excess": -9.0, "variance": 25.0}}
    assert found(history, replace(known, forms=unsure)) == []


def test_features_of_one_shape_do_not_differ():
    assert found(*own_profiles(-0.5 * WEIGHTS[:HORIZON])) == []


TURNS = np.append([1.0, -0.4, -0.4, -0.4, -0.4], np.zeros(HORIZON - 5))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("clipped", [False, True])
def test_effects_that_all_turn_alike_are_found(sign, clipped):
    """Of shared weights, also where a fit took none below 0; a feature that does nothing has none.

    So is what a single feature pays at other lags.
    """
    contexts, weights = contexts_of(), sign * TURNS
    rewards = paid(contexts, np.append(weights, np.zeros(HORIZON)))
    learned = np.maximum(weights * np.sign(-sign), 0.0) if clipped else weights
    theta = -sign * THETA if clipped else THETA
    known = replace(KNOWN, lag_weights=learned, theta=theta, noise=0.5 if clipped else 0.1)
    [turns] = found(one(contexts, rewards), known)
    assert (turns.code, turns.features) == ("pays_now_costs_later", (0, 1))
    words = "positive at first, and negative" if sign > 0 else "negative at first, and positive"
    assert turns.message.startswith(f"The effect of features 0 and 1 is {words} in all.")


@pytest.mark.parametrize("effects", [[], [-0.5, 0.0, 0.0, 0.0]])
def test_nothing_turns_where_what_all_arms_share_moves_rewards(effects):
    """At lag 0 a choice is known apart from what is shared, at later lags it goes with this."""
    contexts, means = contexts_of(), 0.5 * contexts_of(seed=5)
    rewards = paid(contexts, np.append(TURNS, np.zeros(HORIZON)))
    shared = np.column_stack([np.ones(ROUNDS), means])
    [(name, part)] = one(contexts, rewards).trajectories.items()
    history = over({name: replace(part, covariates=shared)})
    known = replace(KNOWN, lag_weights=TURNS, effects=np.array(effects))
    rows = latest(replace(history, groups=(1 + DIM,)), HORIZON)
    some, unchecked = told_apart(checked(rows, known, HORIZON, DIM, None, 1 + DIM))
    is_said = "pays_now_costs_later" in [each.code for each in some]
    missing = [each.missing for each in unchecked if "profiles_differ" in each.codes]
    assert (is_said, missing) == ((False, ["shared"]) if effects else (True, []))


def test_a_feature_of_another_shape_does_not_turn_as_the_others_do():
    contexts = contexts_of()
    late = np.append(np.zeros(6), contexts[:-6, 2])
    rewards = paid(contexts, np.append(TURNS, np.zeros(HORIZON))) + 0.5 * late
    rows = align(latest(one(contexts, rewards), HORIZON))
    known = replace(KNOWN, lag_weights=TURNS)
    [turns] = check_profiles(rows, known.residuals(rows), known)
    assert (turns.code, turns.features) == ("pays_now_costs_later", (0, 1))


def test_effects_turn_where_nothing_tells_forms_apart():
    """Own profiles that are not known to predict better still tell what they are."""
    first = np.append([1.0], np.append(np.full(6, -0.3), np.zeros(HORIZON - 7)))
    history, known = own_profiles(first)
    unsure = replace(known, forms={"sparse": {"excess": -9.0, "variance": 25.0}})
    [turns] = found(history, unsure)
    assert (turns.code, turns.features) == ("pays_now_costs_later", (0,))


def test_own_profiles_that_may_be_shared_turn_together():
    """Each feature's own lags are too little known, the score's are not."""
    contexts = contexts_of(200)
    profiles = np.outer(TURNS, THETA)
    signal = sum(np.convolve(x, p)[:200] for x, p in zip(contexts.T, profiles.T, strict=True))
    rewards = signal + 0.3 * numbers(1).standard_normal(200)
    forms = {"sparse": {"excess": -1.0, "variance": 4.0}}
    own = replace(KNOWN, lag_weights=profiles, theta=-THETA, form="sparse", forms=forms)
    rows = align(latest(one(contexts, rewards), HORIZON))
    [turns] = check_profiles(rows, own.residuals(rows), own)
    assert turns.features == (0, 1)
    clear = replace(own, forms={"sparse": {"excess": -9.0, "variance": 4.0}})
    assert [*check_profiles(rows, clear.residuals(rows), clear)] == []


@pytest.mark.parametrize("ahead", [1, 3])
def test_rewards_that_are_reported_early_are_found(ahead):
    contexts, weights = contexts_of(), 0.7 ** np.arange(2 * HORIZON)
    rewards = paid(contexts, weights)
    early = np.append(rewards[ahead:], rewards[:ahead])
    assert "rewards_early" in codes(one(contexts, early))
    assert "rewards_early" in codes(one(contexts, early), None)
    assert codes(one(contexts, rewards), replace(KNOWN, lag_weights=weights[:HORIZON])) == []
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    for some, doubt in ((rewards, False), (early, True)):  # of lags before 0 nothing is fitted
        made = agent.checked_fit(one(contexts, some))
        assert made.in_doubt == (made.totals is None) == (made.intervals is None) == doubt


def test_rewards_early_are_clear_by_chance_or_by_the_last_contexts_where_errors_last():
    """Errors that last are what early rewards leave, too."""
    dim, n_lags = 2, 40
    beyond = float(chdtri(dim, CHANCE / NEXT))

    def is_found(size: float, past: float, doubt: float) -> bool:
        sizes = np.ones(2 * n_lags)
        sizes[n_lags - 3], sizes[n_lags] = size, past
        return bool([*check_future(LagEffects(sizes, np.full(2 * n_lags, 500.0), dim), doubt)])

    assert is_found(1.1 * beyond, 0.5 * beyond, 1.0)
    assert not is_found(0.9 * beyond, 0.0, 1.0)
    assert not is_found(1.1 * beyond, 0.6 * beyond, 1.0)
    assert is_found(1.1 * beyond, 0.1 * beyond, 4.0)  # clearer than the last ones
    assert is_found(4.1 * beyond, 2.0 * beyond, 4.0)  # beyond chance
    assert not is_found(3.9 * beyond, 0.5 * beyond, 4.0)


def test_contexts_that_last_are_no_rewards_of_the_future():
    """What the estimate leaves of an effect goes with later contexts, and more with its own."""
    slow = np.cumsum(numbers(11).standard_normal((ROUNDS + 9, DIM)), axis=0)
    contexts = (slow[9:] - slow[:-9]) / 3
    left = replace(KNOWN, lag_weights=0.8 * WEIGHTS[:HORIZON])
    assert "rewards_early" not in codes(one(contexts, paid(contexts)), left)


def test_the_most_harmful_is_the_first():
    contexts = contexts_of()
    contexts[:, 2] = 0.0
    rewards = paid(contexts, 0.7 ** np.arange(2 * HORIZON)) + TIME / 200
    assert codes(one(contexts, np.append(rewards[1:], 0.0)), None) == [
        "rewards_early",
        "trend",
        "features_alike",
        "errors_correlated",
    ]


def test_units_change_nothing():
    contexts = contexts_of()
    rewards = paid(contexts) + np.sin(2 * np.pi * TIME / 24) + TIME / 200
    plain = found(one(contexts, rewards))
    large = replace(KNOWN, lag_weights=KNOWN.lag_weights * 1e9, noise=KNOWN.noise * 1e6)
    assert found(one(contexts * 1e-3, rewards * 1e6), large) == plain
    assert [each.code for each in plain] == ["trend", "season"]


def test_few_equal_or_no_rewards_say_nothing():
    contexts = contexts_of()
    for history in (
        one(contexts[:1], [1.0]),
        one(contexts[:20], paid(contexts)[:20]),
        one(contexts, np.zeros(ROUNDS)),
        one(contexts, np.ones(ROUNDS)),
        one(0 * contexts, paid(contexts)),
        over({"": Trajectory(contexts, Measurements.single(TIME[:0], TIME[:0] * 1.0))}),
    ):
        assert codes(history) == codes(history, None) == []


def test_only_the_latest_rounds_are_read():
    n = checks.LATEST + 5000
    contexts = contexts_of(n)
    rewards = paid(contexts) + 5.0 * (np.arange(n) < 5000)
    history = one(contexts, rewards)
    read = latest(history, HORIZON).trajectories[""]
    assert len(read.measurements) == checks.LATEST
    assert read.first_round == 5001 - (2 * HORIZON - 1)
    assert codes(history) == []


def test_of_many_trajectories_as_many_are_read_as_are_cheap():
    parts, last = {}, 0
    for user in range(60):
        n = 100 if user == 7 else 12
        measured = Measurements.single(np.arange(1, n + 1), paid(contexts_of(n, user)))
        parts[f"{user:02}"] = Trajectory(
            contexts_of(n, user), measured, positions=np.arange(last + 1, last + n + 1)
        )
        last += n
    read = latest(over(parts, last), HORIZON, most=2500)
    assert "07" in read.trajectories
    assert 20 < len(read.trajectories) < 60
    assert list(read.trajectories) == sorted(read.trajectories)


def test_slow_contexts_beside_slow_errors_are_no_change_of_lags():
    """Such errors go with contexts at all lags alike, those of the future too."""
    slow = np.cumsum(numbers(11).standard_normal((ROUNDS + 99, DIM)), axis=0)
    contexts = (slow[99:] - slow[:-99]) / 10
    half = np.where(TIME > ROUNDS / 2, 1.0, -1.0)
    errors = 0.3 * half * (contexts @ THETA) + 0.5 * numbers(12).standard_normal(ROUNDS)
    rows = align(latest(one(contexts, errors), HORIZON))
    assert not [*check_halves(rows, errors, KNOWN, HORIZON)]


def test_errors_that_go_with_contexts_at_all_lags_are_no_change_of_lags():
    """What those of the future show, too, no choice has caused."""
    contexts, draws = contexts_of(), np.random.default_rng(1)
    half = np.where(TIME > ROUNDS / 2, 1.0, -1.0)
    sides = draws.choice([-1.0, 1.0], 2 * HORIZON)
    both = np.convolve(contexts @ THETA, sides)[HORIZON : HORIZON + ROUNDS]
    errors = 0.15 * half * both + 0.5 * draws.standard_normal(ROUNDS)
    rows = align(latest(one(contexts, errors), HORIZON))
    assert not [*check_halves(rows, errors, KNOWN, HORIZON)]


def test_every_finding_says_what_to_do():
    """Every sentence that a check may say ends in something that a person can do."""
    tells = ("report", "set the", "give arms", "leave", "make a session", "look for", "check that")
    tells += ("make a copy", "session with", "to the option")
    files = Path(checks.__file__).parent.glob("check_*.py")
    calls = [one for path in files for one in ast.walk(ast.parse(path.read_text()))]
    calls = [one for one in calls if isinstance(one, ast.Call)]
    made = [one for one in calls if getattr(one.func, "id", "") == "Finding"]
    said = [ast.unparse(one.args[1]).lower() for one in made]
    assert len(said) == 26
    for one in said:
        assert any(tell in one for tell in tells), one


def test_no_action_that_somebody_chose_is_not_known_before():
    """An action pays, whichever it is, and control takes none, or the arm of zeros."""
    acted = numbers(5).random(ROUNDS) < 0.6
    contexts = np.where(acted[:, None], contexts_of(), 0.0)
    history = one(contexts, acted + 0.2 * numbers(6).standard_normal(ROUNDS))
    assert codes(history, None) == ["known_before"]
    offered = {int(round): contexts_of(3) for round in np.flatnonzero(~acted)[:20] + 1}
    assert codes(replace(history, sets=offered), None) == []
    zeros = {int(round): np.eye(3)[:2] - np.eye(3)[0] for round in np.flatnonzero(acted)[:20] + 1}
    assert codes(replace(history, sets=zeros), None) == []
    came = {int(round): contexts_of(3) for round in np.flatnonzero(acted)[:20] + 1}
    assert codes(replace(history, sets=came), None) == ["known_before"]
    nobody = {int(round): np.zeros((3, DIM)) for round in np.flatnonzero(~acted)[:20] + 1}
    assert codes(replace(history, sets=came | nobody), None) == ["known_before"]


def test_what_a_lag_tells_is_about_the_means_of_the_rows_that_see_it():
    """Early contexts of trajectories and late errors have means of their own: no effect."""
    parts, early = {}, np.arange(30) < 15
    for key in range(20):
        rng = numbers(key)
        contexts = np.where(early, 3.0, 0.0)[:, None] + rng.standard_normal((30, DIM))
        errors = np.where(early, -1.0, 1.0) + rng.standard_normal(30)
        parts[str(key)] = Trajectory(contexts, Measurements.single(np.arange(1, 31), errors))
    rows = align(History(DIM, parts).over(FitWindow(1, 1, 600, 30, 600)))
    effects = LagEffects.of(rows, rows.y, 15)
    assert effects.sizes[30 + 15 :][: 30 - 15 - 5].max() < chdtri(DIM, 1e-3)


def test_rows_of_one_round_each_tell_nothing_of_rounds_to_come():
    """The latest rows of a wide fleet are so: what cannot be seen is said to be unchecked."""
    parts = {}
    for user in range(400):
        rewards = Measurements.single(np.arange(1, 2), paid(contexts_of(1, user), seed=user))
        parts[f"{user}"] = Trajectory(
            contexts_of(1, user), rewards, positions=np.arange(user + 1, user + 2)
        )
    said = checked(latest(over(parts, 400), HORIZON), KNOWN, HORIZON, DIM, None, 0)
    [missing] = [one for one in unchecked_json(told_apart(said)[1]) if one["missing"] == "rows"]
    assert {"rewards_early", "horizon_short", "levels_differ"} <= {*missing["codes"]}


def test_rounds_before_a_window_miss_no_rewards():
    """They are there for their contexts alone, and choices may have changed with them."""
    given, means = contexts_of(), np.zeros((ROUNDS, DIM))
    given[400:, 0] += 1.0
    told = np.column_stack([np.ones(ROUNDS), means])
    rewards = Measurements.single(TIME, paid(given))
    history = History(DIM, {"": Trajectory(given, rewards, covariates=told)}, groups=(1 + DIM,))
    window = FitWindow(1, 401, ROUNDS, 100, ROUNDS)
    said = checked(latest(history.over(window), 100), KNOWN, 100, DIM, None, 1 + DIM)
    assert "rewards_missing" not in [one.code for one in told_apart(said)[0]]


def test_what_an_option_mends_stands_before_no_effect_which_it_may_be_why():
    mended = ["responses_differ", "levels_differ", "trend", "season"]
    said = [Finding(code, "") for code in ("no_effect", *mended[::-1], "earns_less")]
    found = [one.code for one in told_apart(said)[0]]
    assert found == [*mended, "no_effect", "earns_less"]
