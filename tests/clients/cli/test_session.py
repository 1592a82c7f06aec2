"""`lhb session show` draws what a session has learned."""

import numpy as np
import pytest

from clients.cli.main import app
from clients.cli.session import ask_fit, show_lift, show_session, show_trajectory
from lhb import Client


def learned(url: str, name: str, n_rounds: int = 40, *, alike: bool = False) -> None:
    """A session whose reward is the chosen first feature of two rounds before."""
    with Client(url) as client:
        named = {"features": ["a feature with a very long name", "cold"]}
        session = client.create_session(name, dim=2, horizon=5, refit="blocking", seed=1, **named)
        past = [0.0, 0.0]
        for t in range(n_rounds):
            first = 1.0 if t % 3 else -1.0
            second = first if alike else 0.3
            arm = session.decide([[first, second], [-first, -second]]).arm
            past.append(first if arm == 0 else -first)
            session.reward(past[-3] + 0.01 * (t % 2), round=t + 1)


def test_it_draws_lag_weights(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    learned(url, "drawn")
    show_session("drawn", url)
    out = capsys.readouterr().out
    assert out.startswith("drawn: anytime, 40 rounds, in use\n")
    theta = out.partition("theta, by feature\n")[2].splitlines()[:2]
    assert theta[0].startswith("a feature with a very lo ")
    assert theta[1].split()[0] == "cold"
    assert all(len(line) <= 80 for line in theta)
    with Client(url) as client:
        estimate = client.session("drawn").estimate()
    assert f"Lag profiles: {estimate['form']}." in out
    gain = estimate["gain"]["over_chance"]
    low, high = f"{gain['low']:+.4g}", f"{gain['high']:+.4g}"
    assert f"\nover chance: {gain['value']:+.4g} a round ({low} to {high})\n" in out
    low, high = estimate["intervals"]["theta"][0]
    assert f"{estimate['theta'][0]:+.4f} ({low:+.4f} to {high:+.4f})" in theta[0]
    of_draws = " ".join(out.split())
    assert "In brackets: 95% of posterior draws, widened; whether they hold is not" in of_draws
    assert estimate["no_intervals"] in of_draws
    lags = out.partition("lag weights")[2].splitlines()[1:]
    assert lags[2].count(" to ") == 1
    longest = max(lags, key=lambda line: line.count("█"))
    assert longest.split()[0] == "2"
    assert len(lags) == 5
    assert all(len(line) <= 80 for line in lags)


def test_what_each_feature_pays_at_once_and_later_is_shown(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Own profiles decide; the split is that of `credit_by_feature`."""
    rng = np.random.default_rng(1)
    shown = rng.uniform(-1, 1, (600, 2))
    pays = np.array([[0.0, 1.0], *[[0.25, -0.3]] * 5])
    paid = sum(np.convolve(x, p)[:600] for x, p in zip(shown.T, pays.T, strict=True))
    with Client(url) as client:
        named = {"features": ["depth", "bait"], "refit": "blocking", "seed": 1}
        session = client.create_session("bait", dim=2, horizon=8, **named)
        for contexts in rng.uniform(-1, 1, (3, 4, 2)):
            session.decide(contexts)
        session.history(shown, paid + 0.3 * rng.standard_normal(600), trajectory="log")
        session.decide(shown[:3])
        estimate, credit = session.estimate(), session.credit_by_feature()["items"]
    assert estimate["lag_profiles"]
    show_session("bait", url)
    said = capsys.readouterr().out
    form = estimate["forms"][estimate["form"]]
    better = f"{-form['excess'] / form['variance'] ** 0.5:+.1f} standard errors better"
    assert f"Lag profiles: {estimate['form']}.\n" in said
    assert f"  {estimate['form']} ones predict {better} than shared ones\n" in said
    rows = [line.split() for line in said.partition("pays, by feature")[2].splitlines()[1:]]
    profiles = np.array(estimate["lag_profiles"])
    for i, (name, *values) in enumerate(rows):
        n = credit[i]["first_lags"]
        parts = profiles[:n, i].sum(), profiles[n:, i].sum(), profiles[:, i].sum()
        assert [name, *values] == [["depth", "bait"][i], *(f"{one:+.4g}" for one in parts)]
    assert len(rows) == 2
    assert "lag weights" not in said


def test_what_checks_find_is_said_first(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    learned(url, "told", 60, alike=True)
    show_session("told", url)
    said = capsys.readouterr().out.splitlines()
    features = '"a feature with a very long name" and "cold"'
    assert said[1].startswith(f"! Features {features} hardly vary apart from")
    assert said[2].startswith("  ")
    assert all(len(line) <= 80 for line in said[:3])


def test_a_fit_is_asked_for(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(url) as client:
        session = client.create_session("asked", dim=2, horizon=5)
        session.decide([[1.0, 0.0], [0.0, 1.0]])
    ask_fit("asked", url)
    with Client(url) as client:
        client.session("asked").reward(1.0, round=1)
    ask_fit("asked", url)
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "All rewards are in the last fit: nothing to do.",
        "A fit of all rounds so far is due now.",
    ]
    with pytest.raises(SystemExit, match=r"lhb session fit: .*nobody"):
        app(["session", "fit", "nobody", "--url", url], prog_name="lhb")


def test_what_may_change_is_changed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The options are those of PATCH's settings; a null reaches the server."""
    with Client(url) as client:
        client.create_session("before", dim=2, horizon=5, keep_days=9)
        change = ["session", "change", "--url", url]
        asked = ["--options", "levels=true", "--options", "memory=500", "--name", "12"]
        for more in (["before", *asked], ["12", "--keep-days", "null", "--archived", "true"]):
            app([*change, *more], standalone_mode=False)
        out = capsys.readouterr().out.splitlines()
        assert out[0] == "12: anytime, 0 rounds, exploring"
        info = client.session("12").info
        assert info["options"] == {"levels": True, "memory": 500}
        assert (info["keep_days"], info["archived"]) == (None, True)
    with pytest.raises(SystemExit, match="lhb session change: say what to change, such as"):
        app([*change, "12"], prog_name="lhb")


def test_a_session_is_found_by_its_id_too(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(url) as client:
        one = client.create_session("by id", dim=2, horizon=5)
    show_session(one.id, url)
    assert "No estimate is in use yet." in capsys.readouterr().out


def test_a_direction_that_does_not_stand_out_is_called_so(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(2)
    with Client(url) as client:
        session = client.create_session("noise", dim=3, horizon=5, refit="blocking", seed=2)
        for t in range(1, 26):
            session.decide(rng.uniform(-1, 1, (4, 3)))
            session.reward(float(rng.normal()), round=t)
    show_session("noise", url)
    said = capsys.readouterr().out
    assert said.splitlines()[0].endswith(", learning")
    assert "no direction stands out from the noise yet" in said


def test_a_trajectory_is_shown_beside_everybody(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    settings = {"features": ["warm"], "refit": "blocking", "options": {"own": True}}
    with Client(url) as client:
        session = client.create_session("differing", dim=2, horizon=2, seed=1, **settings)
        session.decide([[1.0, 0.0], [0.0, 1.0]], trajectory="u0")
        show_trajectory("differing", "u0", url)
        for i in range(12):
            contexts = rng.standard_normal((20, 2))
            values = contexts @ (np.cos(i / 4), np.sin(i / 4)) + 0.05 * rng.standard_normal(20)
            session.history(contexts.tolist(), values.tolist(), trajectory=f"u{i}")
        session.decide([[1.0, 0.0], [0.0, 1.0]], trajectory="u0")
        found = session.trajectory("u5")
        message = session.estimate()["own"]["message"]
    show_trajectory("differing", "u5", url)
    show_session("differing", url)
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["u0: 1 round, exploring", "No estimate is in use yet."]
    assert said[2].startswith("u5: 20 rounds, in ")
    everybody, own = found["everybody"]["values"][0], found["own"]["values"][0]
    assert said[4].split()[:3] == ["warm", f"{everybody:+.4f}", f"{own:+.4f}"]
    assert said[5].split()[0] == "1"
    assert message in " ".join(said[6:])
    assert max(map(len, said[:6])) <= 80


def test_what_is_not_there_is_said(url: str) -> None:
    with pytest.raises(SystemExit, match="there is no session 'nobody'"):
        show_session("nobody", url)


def test_lift_is_shown_with_its_interval(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    with Client(url) as client:
        holdout = {"share": 0.5, "policy": "uniform"}
        session = client.create_session("lifted", dim=1, horizon=1, seed=1, holdout=holdout)
        show_lift("lifted", url=url)
        items = []
        for i in range(90):
            user = f"u{i}"
            by = session.decide([[1.0], [0.0]], trajectory=user).played_by
            value = (2.0 if by == "agent" else 1.0) + 0.1 * rng.standard_normal()
            items.append({"value": value, "round": 1, "trajectory": user})
        session.rewards(items)
        watching = client.create_session("watched", dim=1, horizon=1, mode="shadow")
        watching.decide([[1.0], [0.0]], forced_arm=0)
    show_lift("lifted", 0.001, url)
    show_lift("watched", url=url)
    said = capsys.readouterr().out.splitlines()
    assert max(map(len, said)) <= 80
    assert said[0].startswith("Not known yet: control has 0 trajectories with rewards")
    del said[: next(i for i, line in enumerate(said) if line.startswith("   agent: "))]
    assert " 1 a round" in said[1] or " 0.9" in said[1] or " 1.0" in said[1]
    verdict, share = " ".join(said[2:]).split(" As a share of what control earns +")
    assert verdict.startswith("The agent earns more than control: +")
    assert verdict.endswith("in control.")
    assert "%. No number of rounds seen so far would show a difference of 0.001" in share
    assert said[-1].endswith("of 1 round")
    with pytest.raises(SystemExit, match="no session 'nobody'"):
        app(["session", "lift", "nobody", "--url", url], prog_name="lhb")
