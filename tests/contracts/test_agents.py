"""What every registered algorithm promises; a new one is tested by being registered."""

import json
from copy import deepcopy
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from lhb_engine.agents import ALGORITHMS, OptionError, make_agent, make_options
from lhb_engine.estimate import Estimate
from lhb_engine.history import History, Measurements, Trajectory
from lhb_engine.randomness import Draw
from tests.lhb_engine.draw_little import draw_little

DIM, HORIZON, N_ARMS, N_ROUNDS = 3, 12, 5, 180
THETA = np.array([0.6, -0.64, 0.48])
LAG_WEIGHTS = np.zeros(HORIZON)
LAG_WEIGHTS[[2, 7]] = 0.7, 0.3

# what an algorithm cannot do without: the oracles are told the truth
REQUIRED_OPTIONS: dict[str, dict] = {
    "oracle": {"theta": THETA.tolist()},
    "oracle_w": {"weights": LAG_WEIGHTS.tolist()},
}
# options with an extreme value each that must be refused
REFUSED = {"c": -1.0, "gamma": 1.5, "L": 0, "reg": "magic", "fit_intercept": 3}


def fresh(name, **options):
    return make_agent(name, dim=DIM, horizon=HORIZON, **REQUIRED_OPTIONS.get(name, {}), **options)


@pytest.fixture(autouse=True)
def little_drawn(monkeypatch):
    """Nothing here shows how well fits find the truth."""
    draw_little(monkeypatch, remembers=False)


@pytest.fixture(params=sorted(ALGORITHMS))
def name(request):
    return request.param


def contexts_of(n=N_ROUNDS, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, N_ARMS, DIM))


def history_of(n=N_ROUNDS, seed=0, keep=None):
    """Rounds played at random in the model with THETA and LAG_WEIGHTS."""
    rng = np.random.default_rng(seed)
    xi = rng.uniform(-1, 1, (n, DIM))
    reward = np.convolve(xi @ THETA, LAG_WEIGHTS)[:n] + 0.01 * rng.standard_normal(n)
    rounds = np.arange(1, n + 1)
    keep = slice(None) if keep is None else keep
    return History(DIM, {"": Trajectory(xi, Measurements.single(rounds[keep], reward[keep]))})


def play(agent, contexts, seed=0, states=False, late=0):
    """Play in the model, rewards `late` rounds late; arms, and the agent at the end."""
    rng = np.random.default_rng(seed)
    xi, rewards, arms = np.zeros((len(contexts), DIM)), [], []
    noise = 0.01 * rng.standard_normal(len(contexts))
    for t in range(1, len(contexts) + 1):
        arms.append(agent.choose(contexts[t - 1], Draw(seed, "", t)).arm)
        xi[t - 1] = contexts[t - 1, arms[-1]]
        reach = min(t, HORIZON)
        gains = xi[t - reach : t][::-1] @ THETA
        rewards.append(float(LAG_WEIGHTS[:reach] @ gains) + noise[t - 1])
        known = max(0, t - late)
        past = history_until(xi, rewards, t, known)
        if agent.learns_within_epoch and known:
            agent.observe(past, "", known, rewards[known - 1])
        window = agent.next_fit(t - 1)
        if window is not None and window.due == t:
            agent.install(agent.fit(history_until(xi, rewards, t, t).over(window)))
        if states:
            text = json.dumps(agent.state())
            agent = type(agent).from_state(DIM, HORIZON, agent.options, json.loads(text))
    return arms, agent


def history_until(xi, rewards, t, known):
    rounds = np.arange(1, known + 1)
    single = Measurements.single(rounds, np.array(rewards[:known]))
    return History(DIM, {"": Trajectory(xi[:t], single)})


def windows_of(agent, n=N_ROUNDS):
    out, n_rounds = [], 0
    while (window := agent.next_fit(n_rounds)) is not None and window.due <= n:
        out.append(window)
        n_rounds = window.due
    return out


def same(a, b):
    """Equal in all they say, to the last bit."""
    return replace(a, seconds=0.0).to_json() == replace(b, seconds=0.0).to_json()


@cache
def game(name):
    """The arms of an algorithm's game, and the agent at the end."""
    return play(fresh(name), contexts_of())


def played(name):
    """An agent after its game, of one's own."""
    return deepcopy(game(name)[1])


def test_it_is_described(name):
    kind = ALGORITHMS[name]
    assert kind.name == name
    assert kind.summary
    for option in fields(kind.options_type):
        assert option.metadata["description"]
    if kind.needs_truth:
        with pytest.raises(OptionError):
            make_agent(name, dim=DIM, horizon=HORIZON)


def test_unknown_and_impossible_options_are_refused_by_name(name):
    with pytest.raises(OptionError, match="flavour"):
        make_options(name, {**REQUIRED_OPTIONS.get(name, {}), "flavour": "mint"})
    for option in fields(ALGORITHMS[name].options_type):
        if option.name in REFUSED:
            with pytest.raises(OptionError) as error:
                fresh(name, **{option.name: REFUSED[option.name]})
            assert error.value.option == option.name


def test_equal_seeds_play_equal_games(name):
    assert play(fresh(name), contexts_of())[0] == game(name)[0]


def test_an_agent_rebuilt_each_round_from_json_plays_the_same_game(name):
    whole, agent = game(name)
    rebuilt, other = play(fresh(name), contexts_of(), states=True)
    assert whole == rebuilt
    assert json.dumps(agent.state()) == json.dumps(other.state())


def test_a_state_of_another_version_is_refused(name):
    agent = fresh(name)
    for version in (0, 999):
        with pytest.raises(ValueError, match="version"):
            type(agent).from_state(
                DIM, HORIZON, agent.options, {**agent.state(), "version": version}
            )


def test_choosing_changes_nothing(name):
    agent = played(name)
    before = json.dumps(agent.state())
    contexts = contexts_of(1, seed=5)[0]
    kept = contexts.copy()
    first = agent.choose(contexts, Draw(0, "", 1))
    again = agent.choose(contexts, Draw(0, "", 1))
    assert first.arm == again.arm
    assert json.dumps(agent.state()) == before
    assert (contexts == kept).all()


def test_a_choice_is_a_whole_answer(name):
    for agent in (fresh(name), played(name)):
        for n_arms in (1, N_ARMS):
            choice = agent.choose(contexts_of(1, seed=6)[0, :n_arms], Draw(0, "", 1))
            assert 0 <= choice.arm < n_arms
            assert choice.scores.shape == (n_arms,)
            assert np.isfinite(choice.scores).all()
            assert 0 < choice.propensity <= 1


def test_a_choice_follows_from_what_is_kept_of_it(name):
    """Scores of all arms and the context of one: so replay can make it again."""
    for agent in (fresh(name), played(name)):
        for round in (1, 2, 30, 31):
            contexts, draw = np.round(contexts_of(1, seed=round)[0]), Draw(3, "x", round)
            choice = agent.choose(contexts, draw)
            again = agent.choose_by(np.frombuffer(choice.scores.tobytes()), draw)
            assert (again.arm, again.propensity, again.explored) == (
                *(choice.arm, choice.propensity, choice.explored),
            )
            alone = agent.ranking(contexts[choice.arm][np.newaxis], draw)
            assert alone.tolist() == [choice.scores[choice.arm]]


def test_equal_arms_are_chosen_equally_often(name):
    agent = played(name)
    arm = contexts_of(1, seed=7)[0, :1]
    arms = [agent.choose(np.repeat(arm, 4, axis=0), Draw(0, "", t)).arm for t in range(400)]
    assert np.bincount(arms, minlength=4).min() > 60


def test_a_block_is_chosen_as_its_rounds(name):
    agent = played(name)
    contexts = np.round(contexts_of(60, seed=8))
    draws = [Draw(0, "", t) for t in range(1, 61)]
    block = agent.choose_many(contexts, draws).tolist()
    assert block == [agent.choose(c, d).arm for c, d in zip(contexts, draws, strict=True)]


def test_the_schedule_only_moves_forward(name):
    agent = fresh(name)
    due = 0
    for n_rounds in range(N_ROUNDS):
        window = agent.next_fit(n_rounds)
        if window is None:
            continue
        assert window.due > n_rounds
        assert window.due >= due
        assert 1 <= window.first <= window.last <= window.due
        assert 1 <= window.n_lags <= HORIZON
        due = window.due
    epochs = [window.epoch for window in windows_of(agent)]
    assert epochs == list(range(1, len(epochs) + 1))


def test_fitting_is_pure(name):
    agent = fresh(name)
    for window in windows_of(agent):
        past = history_of().over(window)
        contexts = past.trajectories[""].contexts.copy()
        values = past.trajectories[""].measurements.value.copy()
        before = json.dumps(agent.state())
        first, second = agent.fit(past), agent.fit(past)
        assert same(first, second)
        assert json.dumps(agent.state()) == before
        assert (past.trajectories[""].contexts == contexts).all()
        assert (past.trajectories[""].measurements.value == values).all()
        assert same(Estimate.from_json(json.loads(json.dumps(first.to_json()))), first)


def test_estimates_are_in_order(name):
    agent = fresh(name)
    for window in windows_of(agent):
        estimate = agent.fit(history_of().over(window))
        assert estimate.lag_weights.shape == (window.n_lags,)
        assert np.isfinite(estimate.lag_weights).all()
        assert (estimate.theta is not None) == (estimate.status == "ok")
        assert estimate.status == "ok" or estimate.message
        if estimate.theta is not None:
            assert np.linalg.norm(estimate.theta) == pytest.approx(1.0)
        assert estimate.n_rows > 0
        assert 1 <= estimate.first_round <= estimate.last_round <= window.due


def test_it_says_what_decides(name):
    told = ALGORITHMS[name].needs_truth and name == "oracle"
    before = {"anytime": "exploring", "lin_ucb": "in_use"}.get(name, "in_use" if told else "none")
    assert fresh(name).deciding == before
    agent = played(name)
    assert agent.deciding == ("none" if name == "uniform" else "in_use")


def test_an_estimate_without_direction_keeps_theta(name):
    agent = played(name)
    theta = agent.theta
    agent.install(Estimate("zero", np.zeros(HORIZON), message="nothing"))
    assert agent.theta is theta


def test_late_rewards_find_their_own_rounds(name):
    """Rewards that come late but before the fit change nothing; in-epoch learners just lag."""
    contexts = contexts_of()
    prompt, late = game(name)[0], play(fresh(name), contexts, late=3)[0]
    if not ALGORITHMS[name].learns_within_epoch:
        assert prompt == late
    assert len(late) == len(contexts)


def test_missing_rewards_do_not_stop_it(name):
    keep = np.random.default_rng(1).random(N_ROUNDS) < 0.7
    agent = fresh(name)
    for window in windows_of(agent):
        estimate = agent.fit(history_of(keep=keep).over(window))
        assert estimate.n_missing > 0
        agent.install(estimate)


def test_what_is_not_finite_is_refused(name):
    agent = played(name)
    for bad in (np.nan, np.inf, -np.inf):
        contexts = contexts_of(1)[0]
        contexts[2, 1] = bad
        with pytest.raises(ValueError, match="finite"):
            agent.choose(contexts, Draw(0, "", 1))
        for window in windows_of(agent)[-1:]:
            past = history_of().over(window)
            part = past.trajectories[""]
            holed = part.contexts.copy()
            holed[-1] = bad
            value = part.measurements.value.copy()
            value[-1] = bad
            measurements = replace(part.measurements, value=value)
            for broken in (replace(part, contexts=holed), replace(part, measurements=measurements)):
                with pytest.raises(ValueError, match="finite"):
                    agent.fit(replace(past, trajectories={"": broken}))


def test_contexts_of_another_width_or_none_are_refused(name):
    agent = fresh(name)
    for shape in ((3, DIM + 1), (0, DIM)):
        with pytest.raises(ValueError, match="contexts"):
            agent.choose(np.zeros(shape), Draw(0, "", 1))
