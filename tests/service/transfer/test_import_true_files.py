"""What a session exports is accepted, at every moment of its life, and comes out the same again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.sdk.answers import IntervalsAnswer
from lhb_engine.agents import ALGORITHMS
from service.api.answer_models import model_of
from service.commands.decisions import Blocked
from service.writer.agent_cache import build_agent
from tests.examples import repeats
from tests.lhb_engine.draw_little import draw_little
from tests.service.histories import read_history
from tests.service.service_harness import OK, ZERO, ServiceHarness
from tests.service.transfer.test_import_forgeries import checked, exported


def fit(harness: ServiceHarness) -> None:
    """Do the fit that is at work, for real."""
    session = harness.session
    due = session.schedule.current
    assert due is not None
    with harness.store.reader() as reader:
        agent = build_agent(session, reader.agent_state(session.key))
        history = read_history(reader, session, due.window, due.known)
    harness.finish(due.key, agent.fit(history))


MODES: list[dict[str, Any]] = [
    *({"algorithm": name} for name in sorted(ALGORITHMS) if not ALGORITHMS[name].needs_truth),
    {"refit": "blocking"},
    {"reward_mode": "sum", "reward_wait_seconds": 3.0},
    {"default_reward": 0.5, "reward_wait_seconds": 2.0},
    {"algorithm": "anytime", "options": {"memory": 8, "epsilon": 0.3}},
    {
        "algorithm": "anytime",
        "options": {
            "seasonality": [{"period": 6}],
            "trend": True,
            "levels": True,
            "zero_start": False,
        },
    },
    {"algorithm": "anytime", "options": {"profiles": "chosen", "zero_start": False}},
]


# what stories are imported of, too
OF_STORIES = [mode for mode in MODES if {"reward_mode", "default_reward"} & {*mode}]


@pytest.mark.parametrize(
    "mode", [*(mode for mode in MODES if mode not in OF_STORIES), *repeats(*OF_STORIES)], ids=str
)
def test_a_true_file_passes_at_any_moment(
    tmp_path: Path, mode: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_little(monkeypatch)
    harness = ServiceHarness(tmp_path)
    harness.create(**mode)
    rng = np.random.default_rng(3)
    n, sum_mode = 0, mode.get("reward_mode") == "sum"
    for step in range(70):
        harness.now += float(rng.uniform(0, 2))
        what = rng.integers(10)
        if what < 7:
            name = str(rng.choice(["", "b"]))
            taken = harness.decide_or_block(name, contexts=rng.standard_normal((3, 2)))
            if isinstance(taken, Blocked):
                fit(harness)
            else:
                n += 1
                if rng.random() < 0.8:
                    more = {"reward_id": f"r{n}"} if sum_mode or n % 2 else {}
                    value = float(rng.standard_normal())
                    harness.reward(value, name, round=taken.decision.round, **more)
        elif what == 7:
            harness.tick()
        elif harness.session.fit_due is not None:
            if what == 8:
                fit(harness)
            else:
                harness.finish(harness.session.fit_due, ZERO if step % 2 else None)
        assert checked(exported(harness)) == harness.session
    session, is_new = harness.import_file(tmp_path, exported(harness))
    assert is_new
    before, harness.key = exported(harness), session.key
    assert exported(harness).splitlines()[1:-1] == before.splitlines()[1:-1]
    harness.store.close()


def test_a_lag_weight_without_an_interval_is_exported_and_imported(tmp_path: Path) -> None:
    said = {"theta": [[0.5, 1.0], [0.0, 0.5]], "lags": [0, 2], "lag_weights": [[0.5, 1.5], None]}
    harness = ServiceHarness(tmp_path)
    harness.create()
    for _ in range(30):
        harness.reward(1.0, round=harness.decide(contexts=np.eye(2)).round)
    due = harness.session.fit_due
    assert due is not None
    harness.finish(due, replace(OK, intervals=said, no_intervals="Lag 2 is not clear of 0."))
    session, is_new = harness.import_file(tmp_path, exported(harness))
    assert is_new
    harness.key = session.key
    text = harness.estimates[0].estimate
    assert text is not None
    assert json.loads(text)["intervals"] == said
    answer = model_of(IntervalsAnswer).model_validate(said)
    assert answer.model_dump(mode="json", exclude_none=True)["lag_weights"] == [[0.5, 1.5], None]
    harness.store.close()


@pytest.mark.parametrize("size", [1e-90, 1e-140])
def test_a_session_of_tiny_contexts_is_exported_and_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: float
) -> None:
    """What an action of 1e-90 pays is in units of 1e90, and its squares in those of 1e180."""
    draw_little(monkeypatch)
    harness, rng = ServiceHarness(tmp_path), np.random.default_rng(4)
    harness.create(algorithm="anytime", horizon=3)
    for _ in range(60):
        contexts = rng.standard_normal((3, 2))
        decision = harness.decide(contexts=size * contexts)
        value = float(contexts[decision.arm, 0] + 0.1 * rng.standard_normal())
        harness.reward(value, round=decision.round)
        if harness.session.fit_due is not None:
            fit(harness)
    text = harness.estimates[-1].estimate
    assert text is not None
    squares = json.loads(text)["totals"]["squares"]
    assert np.abs(squares).max() > 1e-10 / size**2
    assert harness.import_file(tmp_path, exported(harness))[1]
    harness.store.close()


def test_columns_worked_out_of_the_largest_numbers_are_exported_and_imported(
    tmp_path: Path,
) -> None:
    """A request gives numbers up to 1e12: their products, and those with the last choices, more."""
    harness = ServiceHarness(tmp_path)
    worked_out = {"features": ["price"], "products": [["price", "price"]], "repetition": 2}
    harness.create(algorithm="anytime", dim=3, keep_contexts=True, **worked_out)
    for _ in range(3):
        taken = harness.decide(contexts=np.array([[1e12], [-1e12]]), forced_arm=0)
    assert np.abs(taken.selected(3)).max() == 1e24
    content = exported(harness)
    session, _ = harness.import_file(tmp_path, content)
    harness.key = session.key
    assert exported(harness).splitlines()[1:-1] == content.splitlines()[1:-1]
    harness.store.close()
