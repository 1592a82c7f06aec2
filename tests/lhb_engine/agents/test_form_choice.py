"""Which form of the lag profiles decides, and that it does."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.profile_worlds import Clickbait
from lhb_engine.agents import ALGORITHMS, make_agent
from lhb_engine.agents.base import OptionError
from lhb_engine.agents.form_fits import SURE, WORSE, FormFits, KnownForm, best_form
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.scaling import Units
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow
from lhb_engine.posterior.acceptance_and_alarm import LaterMoments, LaterRows
from lhb_engine.posterior.fit_data import fit_data
from lhb_engine.posterior.predictor import Predictor, residuals
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from lhb_engine.posterior.sparse_profiles import profile_posterior
from lhb_engine.simulation.environment import LongHorizonEnvironment, ProfileEnvironment
from lhb_engine.simulation.play import simulate
from tests.examples import repeats
from tests.lhb_engine.played_histories import DIM, HORIZON, LAG_WEIGHTS, THETA, history
from tests.lhb_engine.posterior.test_coloured_noise import coloured

SHARED = np.outer(LAG_WEIGHTS, THETA)


def known(profiles=SHARED, rho=0.0, excess=0.0, variance=0.0):
    return KnownForm(profiles, np.zeros(1), rho, excess, variance)


def later(kind, rows):
    """Rows that no form has seen, as rows or as their moments."""
    old = Predictor(LAG_WEIGHTS, THETA, 0.0, 1.0, 0, True)
    if kind == "rows":
        return LaterRows(old, rows, np.flatnonzero(rows.number > 0))
    return LaterMoments(old, session_moments(rows))


@pytest.mark.parametrize("kind", ["rows", "moments"])
def test_a_form_is_judged_by_its_squared_one_step_errors(kind):
    """(14.4): the excess over the shared form's, in its mean squares; earlier ones count less."""
    rows = align(history(n=300).over(FitWindow(1, 1, 300, HORIZON, 300)))
    seen = later(kind, rows)
    own = SHARED + np.random.default_rng(0).normal(0, 0.2, SHARED.shape)
    shared, other = known(), known(own, excess=10.0, variance=4.0)
    judged = other.judged(shared, seen)
    none = np.zeros(DIM)
    errors = [
        residuals(rows, none, phi, np.zeros(1))[rows.number > 0] for phi in (SHARED, own, 0 * own)
    ]
    square, ours, nothing = (float(e @ e) for e in errors)
    assert judged.excess == pytest.approx(7.0 + 300 * (ours / square - 1.0))
    both = float(errors[0] @ errors[1]) / square
    variance = 2.0 * 300 * (1.0 + (ours / square) ** 2 - 2.0 * both**2)
    assert judged.variance == pytest.approx(0.49 * 4.0 + variance)
    assert judged.over_none == pytest.approx(300 * (ours - nothing) / square)
    again = shared.judged(shared, seen)
    assert again.variance == pytest.approx(0.0, abs=1e-9)
    assert again.excess == pytest.approx(0.0, abs=1e-9)
    newer, rested = (replace(other, rests_until=until) for until in (300, 200))
    assert rested.judged(replace(shared, rests_until=300), seen) is rested
    assert newer.judged(replace(shared, rests_until=200), seen).excess == judged.excess


@pytest.mark.parametrize("levels", [0, 300])
@pytest.mark.parametrize("rhos", [(0.5, 0.1), (0.1, 0.5)])
def test_forms_are_compared_at_one_correlation_of_errors(levels, rhos):
    """A larger one, or spread of levels, fits better, and says nothing of lag profiles."""
    past = replace(history(n=300), levels=levels).over(FitWindow(1, 1, 300, HORIZON, 300))
    seen = later("rows", align(past))
    mine, shared = (known(rho=rho) for rho in rhos)
    assert mine.judged(shared, seen).excess == 0.0


def test_errors_that_last_do_not_speak_for_a_form():
    """Of a form that does not hold: its rho would predict the next ones."""
    seen = later("rows", align(history(n=300).over(FitWindow(1, 1, 300, HORIZON, 300))))
    wrong = -SHARED
    assert (
        known().judged(known(wrong, rho=0.9), seen).excess
        == known().judged(known(wrong), seen).excess
    )


def test_errors_that_do_last_speak_for_the_form_that_knows():
    """Judged at a smaller rho, profiles that took such errors for effects would be better."""
    seen = later("rows", align(coloured(0.95, n=300)))
    wrong = known(0.5 * SHARED, rho=0.3)
    assert wrong.judged(known(rho=0.95), seen).excess > 100.0
    assert wrong.judged(known(rho=0.3), seen).excess < 100.0


def test_shared_profiles_decide_until_others_are_surely_better():
    def other(excess, over_none=-1.0):
        return replace(known(excess=excess, variance=1.0), over_none=over_none)

    forms = {"shared": known(), "sparse": other(-3.0)}
    assert best_form({}, "shared") == "shared"
    assert best_form(forms, "shared") == "sparse"
    assert best_form(forms | {"sparse": other(-0.99 * SURE)}, "shared") == "shared"
    assert best_form(forms | {"sparse": other(-0.01)}, "smooth") == "sparse"
    assert best_form(forms | {"sparse": other(0.01)}, "sparse") == "shared"
    assert best_form(forms | {"smooth": other(-4.0)}, "shared") == "smooth"
    assert best_form(forms | {"smooth": other(-4.0, over_none=1.0)}, "shared") == "shared"


def test_a_form_that_clearly_predicts_worse_rests():
    """It is fitted again after as many rounds as it had rows; sparse profiles wait for smooth."""
    data = fit_data(align(history(n=200).over(FitWindow(1, 1, 200, HORIZON, 200))))
    found = rank_one_posterior(data.rows, [0])

    def fitted(last, **others):
        """Which forms are fitted, and which are kept."""
        asked = []

        def fit(of, form):
            asked.append(form)
            return profile_posterior(of.whitened(0.0), [0], form, DIM), 0.0

        forms = FormFits({"shared": known(), **others}, "shared", None, DIM)
        kept, left = forms.fitted(data, HORIZON, last, found, 0.0, fit)
        assert [one.form for one in left[1:]] == [
            one for one in asked if one not in others or not others[one].is_worse_than(known())
        ]
        return asked, set(kept) - {"shared"}

    doubtful, worse = (
        replace(known(excess=excess, variance=1.0), rests_until=300)
        for excess in (WORSE - 0.01, WORSE + 0.01)
    )
    assert fitted(200) == (["smooth"], {"smooth"})
    assert fitted(200, smooth=doubtful) == (["sparse", "smooth"], {"sparse", "smooth"})
    assert fitted(200, smooth=worse, sparse=doubtful) == (["sparse"], {"sparse", "smooth"})
    assert fitted(200, smooth=worse, sparse=worse) == ([], {"sparse", "smooth"})
    assert fitted(300, smooth=worse, sparse=worse) == (["sparse", "smooth"], {"sparse", "smooth"})
    assert fitted(200, smooth=doubtful, sparse=worse) == (["smooth"], {"sparse", "smooth"})
    # after an alarm fits may have fewer rows
    assert fitted(90, smooth=worse) == (["smooth"], {"smooth"})


@pytest.mark.parametrize("excess", [WORSE - 0.01, WORSE + 0.01])
@pytest.mark.parametrize(("last", "horizon"), [(200, HORIZON), (300, HORIZON), (200, 34)])
def test_shared_profiles_that_clearly_predict_worse_rest(excess, last, horizon):
    """Than those in use, for as many rounds as their fit had rows; these are fitted each time."""
    data = fit_data(align(history(n=200).over(FitWindow(1, 1, 200, HORIZON, 200))))
    found = profile_posterior(data.summed().whitened(0.0), [0], "sparse", DIM)
    used = replace(known(excess=-excess, variance=1.0), rests_until=300)
    shared, asked = replace(known(), rests_until=300), []

    def fit(of, form):
        asked.append(form)
        return found, 0.0

    forms = FormFits({"shared": shared, "sparse": used}, "sparse", None, DIM)
    kept, _ = forms.fitted(data, horizon, last, found, 0.0, fit)
    rests = excess > WORSE and last < 300 and 6 * horizon <= 200
    assert asked == (["smooth"] if rests else ["shared", "smooth"])
    assert (kept["shared"] == shared.to_json()) == rests
    assert kept["sparse"]["rests_until"] == last + 200


def test_shared_profiles_come_back_as_theta_and_lag_weights():
    """A form that was fitted beside the one in use starts the next fit where it ended."""
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(
        Estimate("ok", LAG_WEIGHTS, theta=THETA, form="sparse", lag_profiles=SHARED, n_rows=90)
    )
    forms = FormFits({"shared": known()}, "sparse", agent.prediction, DIM)
    shared = forms.old("shared")
    np.testing.assert_allclose(shared.theta, THETA / np.linalg.norm(THETA))
    np.testing.assert_allclose(np.outer(shared.lag_weights, shared.theta), SHARED)
    assert forms.old("sparse") is agent.prediction
    assert forms.old("smooth") is None


def world_of(kind):
    return kind.draw(dim=3, horizon=8, n_arms=5, noise=0.1, pattern="flat", sparsity=3, seed=62001)


@cache
def played(kind, profiles):
    """A run that several tests look at."""
    return simulate("anytime", world_of(kind), n_rounds=250, seed=3, options={"profiles": profiles})


@pytest.mark.parametrize("kind", [Clickbait, *repeats(LongHorizonEnvironment)])
def test_the_form_is_that_of_the_world(kind):
    """Shared profiles decide as if nothing else was known; clickbait is seen through."""
    world, told, plain = world_of(kind), played(kind, "chosen"), played(kind, "shared")
    last = [e for e in told.estimates if e.theta is not None][-1]
    assert {e.form for e in plain.estimates} == {None}
    assert {"shared", "smooth"} <= set(last.forms)
    if kind is not Clickbait:
        assert last.form == "shared"
        assert last.lag_profiles is None
        np.testing.assert_array_equal(told.regret, plain.regret)
        return
    assert last.form != "shared"
    np.testing.assert_allclose(last.lag_profiles, world.profiles, atol=0.15)
    bands = np.array(last.intervals["lag_profiles"])
    inside = (bands[..., 0] <= world.profiles) & (world.profiles <= bands[..., 1])
    assert inside.mean() > 0.8
    total = last.lag_profiles.sum(axis=0)
    np.testing.assert_allclose(last.theta, total / np.linalg.norm(total))
    np.testing.assert_allclose(last.lag_weights, last.lag_profiles @ last.theta)
    assert np.sign(last.lag_profiles[0, 0]) != np.sign(last.theta[0])
    assert told.regret[-1] < 0.6 * plain.regret[-1]


@pytest.mark.parametrize("kind", [LongHorizonEnvironment, Clickbait])
def test_the_first_fit_of_a_long_history_judges_by_its_halves(kind):
    """No earlier fit was there to predict rows; shared profiles of clickbait point elsewhere."""
    world = kind.draw(dim=5, horizon=24, n_arms=10, noise=0.3, pattern="flat", sparsity=5, seed=3)
    past = history_of(simulate("uniform", world, n_rounds=1500, seed=3))
    of_truth, forms = {}, {}
    for profiles in ("chosen", "shared"):
        agent = make_agent("anytime", dim=5, horizon=24, profiles=profiles)
        found = agent.fit(past.over(FitWindow(1, 1, 1500, 24, 1500)))
        of_truth[profiles] = found.theta @ world.theta / np.linalg.norm(world.theta)
        forms[profiles] = found.form
    if kind is LongHorizonEnvironment:
        assert forms["chosen"] == "shared"
        assert of_truth["chosen"] == of_truth["shared"]
        return
    assert forms["chosen"] != "shared"
    assert of_truth["shared"] < 0.7 < 0.95 < of_truth["chosen"]


@pytest.mark.slow
def test_who_knows_that_each_has_its_own_has_them_from_the_first_fit_on():
    """No other form is fitted; intervals and findings are those of own profiles."""
    world, told, shared = (
        world_of(Clickbait),
        played(Clickbait, "each"),
        played(Clickbait, "shared"),
    )
    estimates = [e for e in told.estimates if e.theta is not None]
    assert {(e.form, e.forms) for e in estimates} == {("smooth", None)}
    np.testing.assert_allclose(estimates[-1].lag_profiles, world.profiles, atol=0.2)
    assert estimates[-1].intervals["lag_sums"]
    assert told.regret[-1] < shared.regret[-1]
    checked = told.agent.checked_fit(history_of(told).over(FitWindow(99, 1, 250, 8, 250)))
    assert "pays_now_costs_later" in {finding["code"] for finding in checked.findings}


def test_who_knows_which_features_share_a_profile_tells_them():
    """Profiles of a group are one, each feature's times a number."""
    phi = np.outer(0.5 ** np.arange(8), [1.0, 0.0, -0.5])
    phi[:, 1] = 0.6 * np.exp(-0.5 * (0.5 * np.arange(8) - 2.0) ** 2)
    told, each = (
        simulate(
            "anytime",
            ProfileEnvironment(phi, n_arms=5, noise=0.2, seed=4),
            n_rounds=250,
            seed=3,
            options={"profiles": profiles},
        ).estimates[-1]
        for profiles in ([[0, 2]], "each")
    )
    np.testing.assert_allclose(told.lag_profiles, phi, atol=0.15)
    group = told.lag_profiles[:, [0, 2]]
    assert np.linalg.svd(group)[1][1] < 0.1 * np.linalg.svd(each.lag_profiles[:, [0, 2]])[1][1]


@pytest.mark.parametrize(
    ("dim", "profiles", "said"),
    [
        (7, "each", "at most 600"),
        (7, [[0, 1]], "at most 600"),
        (3, [[0, 3]], "no feature 3"),
        (3, [[0, "x"]], "no feature 'x'"),
        (3, [[0, 1], [1, 2]], "stands twice"),
        (3, [[0]], "two features or more"),
        (3, [], "two features or more"),
        (3, ["01"], "two features or more"),
        (3, [[0, True]], "two features or more"),
        (3, "some", "must be one of"),
    ],
)
def test_lag_profiles_that_cannot_be(dim, profiles, said):
    with pytest.raises(OptionError, match=said):
        make_agent("anytime", dim=dim, horizon=100, profiles=profiles)


def test_estimates_and_states_are_restored_to_the_bit():
    """A restored agent fits as the first one, and one that is told to share profiles does."""
    run = played(Clickbait, "chosen")
    agent = run.agent
    last = [e for e in run.estimates if e.theta is not None][-1]
    again = Estimate.from_json(json.loads(json.dumps(last.to_json())))
    assert again.to_json() == last.to_json()
    state = json.loads(json.dumps(agent.state()))
    options = agent.options
    restored = ALGORITHMS["anytime"].from_state(3, 8, options, state)
    assert restored.state() == agent.state()
    past = history_of(run)
    window = FitWindow(99, 1, 250, 8, 250)
    found = [a.fit(past.over(window)) for a in (agent, restored)]
    assert found[0].to_json() == found[1].to_json()
    assert found[0].form != "shared"
    sharing = ALGORITHMS["anytime"].from_state(3, 8, replace(options, profiles="shared"), state)
    estimate = sharing.fit(past.over(window))
    assert estimate.lag_profiles is estimate.forms is None


def history_of(run):
    from lhb_engine.history import History, Measurements, Trajectory

    n = len(run.rewards)
    values = Measurements.single(np.arange(1, n + 1), run.rewards)
    return History(run.selected.shape[1], {"": Trajectory(run.selected, values)})


def test_forms_keep_their_units():
    """`Units.restore` and `KnownForm.in_units` are inverse."""
    units = Units(4.0, 0.5)
    bands = {"theta": [], "lags": [], "lag_weights": [], "lag_profiles": [[[1.0, 2.0]]]}
    forms = {"shared": known().to_json()}
    found = Estimate("ok", np.ones(2), theta=np.ones(1), forms=forms, intervals=bands)
    assert units.restore(found).intervals["lag_profiles"] == [[[0.125, 0.25]]]
    restored = units.restore(found).forms["shared"]
    np.testing.assert_array_equal(restored["profiles"], SHARED * 0.125)
    assert KnownForm.from_json(restored).in_units(units).to_json() == known().to_json()


def test_where_another_form_is_refused_the_installed_one_is_fitted():
    """Else no form would be renewed, and none be judged by new parameters."""
    world = Clickbait.draw(dim=3, horizon=8, n_arms=5, pattern="flat", sparsity=3, seed=62001)
    agent = make_agent("anytime", dim=3, horizon=8)
    found = {}

    def fit(agent, history):
        old, due = agent.prediction, history.window.due
        if due > 100:
            for form in set(old.forms) - {"shared"}:
                old.forms[form]["excess"] = 1e6
        found[due] = agent.fit(history)
        return found[due]

    simulate(agent, world, n_rounds=103, seed=3, run_fit=fit)
    before, last = list(found.values())[-2:]
    assert before.form != "shared"
    assert last.form == before.form
    assert all(last.forms[form]["excess"] > 1e5 for form in ("sparse", "smooth"))
