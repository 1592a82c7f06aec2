"""A setting that changes nothing changes no bit; where it says something else, that is so."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.api.body_parsing import SESSION
from service.base.problems import Problem
from service.commands.decisions import Blocked
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session, create_session
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.session.records import SessionRow
from service.storage.transactions import Store
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.examples import repeats
from tests.lhb_engine.draw_little import draw_little
from tests.service.service_harness import ServiceHarness
from tests.service.session.test_pairs import both
from tests.service.transfer.test_copy import copied

MADE: dict[str, Any] = {"algorithm": "anytime", "horizon": 4, "reward_wait_seconds": 10.0}
SUM = {**MADE, "reward_mode": "sum"}
Received = Callable[[int], list[float]]  # values of a round
on_both = pytest.mark.parametrize("database_url", ["sqlite", *repeats("postgres")], indirect=True)


@pytest.fixture
def harness(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    draw_little(monkeypatch)
    return ServiceHarness(tmp_path, store)


def fit(harness: ServiceHarness, url: str) -> list[Any]:
    """What the fits that are due say, but for the time that they took."""
    found = []
    while (due := harness.session.fit_due) is not None:
        answer = run_fit(url, *harness.key, due, 0.0)
        assert answer is not None
        assert answer.estimate is not None, answer
        found.append({**answer.estimate, "seconds": None})
        harness.run(FinishFit(harness.key, due, answer, harness.agents, 1))
    return found


def lived(harness: ServiceHarness, url: str, received: Received, **made: Any) -> list[Any]:
    """A session's decisions and fits: a round each second, whose values come at once."""
    harness.now, found = 1000.0, list[Any]()
    harness.create(**made)
    rng = np.random.default_rng(5)
    for n in range(1, 61):
        harness.now += 1.0
        harness.tick()
        found += fit(harness, url)
        contexts = rng.uniform(-1, 1, (3, 2))
        # a decision that waited for a fit is asked again
        while isinstance(taken := harness.decide_or_block(contexts=contexts), Blocked):
            found += fit(harness, url)
        one = taken.decision
        found.append((one.arm, one.scores, one.propensity, one.model_version))
        for i, value in enumerate(received(n)):
            more = {"reward_id": f"{n}-{i}"} if "reward_mode" in made else {}
            harness.reward(value + float(contexts[one.arm, 0]), round=n, **more)
    return found


def replays(harness: ServiceHarness) -> None:
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []


def moved(harness: ServiceHarness, folder: Path) -> None:
    """The session after an export and an import."""
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, harness.session))
    made, is_new = harness.import_file(folder, content)
    assert is_new
    harness.key = made.key


@on_both
def test_a_default_of_zero_is_none_in_sum_mode(harness: ServiceHarness, database_url: str) -> None:
    """Rounds without a value count 0, told or not; another default counts, and makes other fits."""
    few: Received = lambda n: [0.5, -0.25][: n % 3]  # noqa: E731
    plain, zero, told = (
        lived(harness, database_url, few, **SUM, default_reward=default)
        for default in (None, 0.0, -1.0)
    )
    assert plain == zero != told
    assert sum(isinstance(one, dict) for one in told) > 3
    replays(harness)


@on_both
def test_a_default_changes_nothing_where_each_round_has_a_value(
    harness: ServiceHarness, database_url: str
) -> None:
    each: Received = lambda n: [0.5, -0.25][: 1 + n % 2]  # noqa: E731
    found = [
        lived(harness, database_url, each, **SUM, default_reward=default) for default in (None, 7.0)
    ]
    assert found[0] == found[1]


@on_both
def test_a_sum_with_a_default_goes_everywhere(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    """A late value takes the default's place; a file, and a copy, fit as their source does."""
    lived(harness, database_url, lambda n: [1.0] * (n % 3), **SUM, default_reward=-1.0)
    harness.now += 60.0
    harness.reward(3.0, round=30, reward_id="late")
    harness.run(change_session(harness.key, {"reward_wait_seconds": 5.0}))
    source, seed, now = harness.key, harness.session.seed, harness.now
    moved(harness, tmp_path)
    keys = [source, harness.key]
    for asked in ({}, {"default_reward": 2.0}):
        harness.key = source
        copied(harness, tmp_path, seed=seed, **asked)
        keys.append(harness.key)
    found = []
    for harness.key in keys:
        harness.now = now + 60.0
        rounds = [harness.decide(contexts=np.eye(2)).round for _ in range(2)]
        harness.reward(1.0, round=rounds[-1], reward_id="next")
        harness.now += 60.0
        harness.tick()
        harness.make_fits(database_url)
        harness.run(ask_fit(harness.key, harness.agents))
        found.append(fit(harness, database_url)[-1])
        replays(harness)
    assert found[0] == found[1]
    assert [one["n_rows"] for one in found] == [61] * 4
    assert found[2]["intercept"] == pytest.approx(found[0]["intercept"], abs=0.05)
    assert found[3]["intercept"] > found[2]["intercept"] + 0.5


@on_both
def test_a_wait_changes_nothing_where_each_round_has_its_reward(
    harness: ServiceHarness, database_url: str
) -> None:
    """Fits are due when their windows are complete, and decisions wait for these alone."""
    once: Received = lambda n: [0.5]  # noqa: E731
    without = {**MADE, "reward_wait_seconds": 0.0}
    found = [
        lived(harness, database_url, once, refit="blocking", **made) for made in (MADE, without)
    ]
    assert found[0] == found[1]
    replays(harness)


@on_both
@pytest.mark.parametrize("more", [{"default_reward": 0.25}, {"reward_mode": "sum"}, *repeats({})])
def test_a_decision_that_waits_for_a_fit_is_as_one_that_comes_after_it(
    harness: ServiceHarness, database_url: str, tmp_path: Path, more: dict[str, Any]
) -> None:
    """Rewards that never come hold up no decision; blocking or not, fits are due after the wait."""
    few: Received = lambda n: [0.5] * (n % 4 > 0)  # noqa: E731
    found = [
        lived(harness, database_url, few, **MADE, **more, refit=refit)
        for refit in ("background", "blocking")
    ]
    assert found[0] == found[1]
    assert sum(isinstance(one, dict) for one in found[0]) > 3
    replays(harness)
    moved(harness, tmp_path)
    assert harness.session.refit == "blocking"
    assert harness.session.reward_wait_seconds == 10.0


def test_after_the_wait_a_decision_waits_for_the_fit(harness: ServiceHarness) -> None:
    """Whoever comes first, the timer or the decision."""
    harness.create(refit="blocking", reward_wait_seconds=10.0)
    harness.rounds(3)
    for n in (4, 5, 6):
        assert harness.decide().round == n  # round 4 has no reward yet
    harness.now += 9.0
    assert harness.decide().model_version == 0
    harness.now += 1.0
    assert harness.decide_or_block() == Blocked(4)
    assert harness.session.n_rounds == 7
    harness.finish(4)
    assert harness.decide().model_version == 1


NOTHING: dict[str, dict[str, Any]] = {  # changes no estimate where arms are told
    "keep_contexts": {"keep_contexts": True},
    "keep_rounds": {"keep_rounds": 40_000},
    "keep_days": {"keep_days": 1.0},
    "refit": {"refit": "blocking"},
    "categories": {"categories": "hashed"},
    "arms": {"arms": ["a", "b", "c"]},
    "reward_unit": {"reward_unit": "EUR"},
    "mode": {"mode": "shadow"},
    "holdout": {"holdout": {"share": 0.3, "policy": "uniform"}},
    "default_reward": {"default_reward": 7.0},
    "adopts": {"options": {"adopts": False}},
}
CLOCK = {"slot_seconds": 1, "start": "1970-01-01T00:10:00Z"}
FIRST: dict[str, dict[str, Any]] = {
    "plain": {},
    "sum": {"reward_mode": "sum"},
    "clock": {"clock": CLOCK},
    "clock of each": {"clock": {**CLOCK, "totals": "trajectory"}},
    "products": {"features": ["one", "two"], "products": [["one", "two"]], "dim": 3},
    "repetition": {"features": ["one", "two"], "repetition": 3, "dim": 3},
    **{
        name: {"options": {name: value}}
        for name, value in {
            "memory": 64,
            "signed": True,
            "seasonality": [{"period": 7.0}],
            "trend": True,
            "covariates": ["rain"],
            "levels": True,
            "own": True,
            "zero_start": False,
            "profiles": "each",
        }.items()
    },
}


def created(harness: ServiceHarness, body: dict[str, Any]) -> SessionRow:
    """A new session."""
    asked = dict(SESSION.read(json.dumps({"dim": 2, "horizon": 4, "seed": 1, **body}).encode()))
    session: SessionRow = harness.run(create_session("", asked, False))[0]
    return session


def last_fit(harness: ServiceHarness, url: str, body: dict[str, Any]) -> dict[str, Any]:
    """The fit of 40 rounds, two trajectories in turn, whose arms are told."""
    harness.now, rng = 1000.0, np.random.default_rng(5)
    harness.key = created(harness, body).key
    for n in range(40):
        harness.now += 1.0
        name, contexts = "ab"[n % 2], rng.uniform(-1, 1, (3, 2))
        beside = {"rain": float(n % 3)} if "covariates" in body.get("options", {}) else None
        told: dict[str, Any] = {} if "clock" in body else {"covariates": beside}
        fit(harness, url)
        one = harness.decide(name, contexts=contexts, forced_arm=n % 3, **told)
        value = float(contexts[n % 3, 0]) + rng.normal()
        if "clock" in body:
            harness.now += 1.0
            ends = (datetime.fromtimestamp(harness.now + i, UTC) for i in (-1, 0))
            when = dict(zip(("since", "until"), ends, strict=True))
            name = name if body["clock"].get("totals") == "trajectory" else ""
        else:
            when = {"round": one.round, "reward_id": str(n)}
        harness.reward(value, name, **when)
    harness.now += 60.0
    harness.tick()
    found = fit(harness, url)
    harness.run(ask_fit(harness.key, harness.agents))
    return [*found, *fit(harness, url)][-1]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("first", FIRST)
def test_a_second_setting_that_changes_nothing_leaves_each_bit(
    harness: ServiceHarness, database_url: str, first: str
) -> None:
    """Of every pair that is not refused, all at once."""
    alone, body = last_fit(harness, database_url, FIRST[first]), FIRST[first]
    for one in NOTHING.values():
        more = both(body, one)
        with suppress(Problem):  # a pair that is refused: see tests/service/session/test_pairs.py
            created(harness, more)
            body = more
    assert last_fit(harness, database_url, body) == alone
