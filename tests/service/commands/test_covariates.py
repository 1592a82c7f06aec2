"""Covariates come with decisions and rewards; a fit reads them, and nothing else does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents.fit_cost import FitCost
from lhb_engine.history import FitWindow, History
from service.base.problems import Problem
from service.commands.append_history import Log, append_history
from service.commands.decisions import void_decision
from service.session.fit_schedule import Watermark
from service.storage.transactions import Store
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.file_format import export_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.histories import read_history
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import checked

TOLD = {"algorithm": "anytime", "options": {"covariates": ["rain", "sun"]}}
NAN = float("nan")


@pytest.fixture
def harness(tmp_path: Path, store: Store) -> ServiceHarness:  # noqa: F811
    return ServiceHarness(tmp_path, store)


def read(harness: ServiceHarness, measured: int = 10**6) -> History:
    """What a fit with that manifest reads."""
    session = harness.session
    window = FitWindow(1, 1, session.n_rounds, 4, session.n_rounds)
    known = Watermark(measured, 10**6, harness.now)
    with harness.store.reader() as reader:
        return read_history(reader, session, window, known)


def of_rounds(harness: ServiceHarness, name: str = "") -> list[list[float]]:
    found = read(harness).trajectories[name].covariates
    assert found is not None
    return [row.tolist() for row in found]


def measured(harness: ServiceHarness, n: int = 10**6, name: str = "") -> dict[int, list[float]]:
    """What came with the rewards, by first round."""
    rows = read(harness, n).trajectories[name].measurements
    if rows.covariates is None:
        return {}
    given = zip(rows.first.tolist(), rows.covariates, strict=True)
    return {first: row.tolist() for first, row in given if not np.isnan(row).all()}


def content(harness: ServiceHarness) -> bytes:
    with harness.store.reader() as reader:
        return b"".join(export_session(reader, harness.session))


def refused(harness: ServiceHarness, code: str, field: str, what: Any, *given: Any) -> None:
    before = content(harness)
    with pytest.raises(Problem) as raised:
        what(*given)
    assert (raised.value.code, raised.value.field) == (code, field)
    assert content(harness) == before


def test_a_fit_reads_what_decisions_and_rewards_said(harness: ServiceHarness) -> None:
    harness.create(**TOLD)
    harness.decide(covariates={"sun": -1.5, "rain": 2})
    harness.decide(covariates={"sun": 3.0})
    harness.decide("b", covariates={"rain": 4.0})
    harness.decide(contexts=None, covariates={"rain": 0.5})  # a round without action
    harness.decide()
    harness.reward(1.0, round=2, covariates={"rain": 7.0})
    harness.reward(1.0, first_round=3, last_round=4, covariates={"sun": 9.0})
    harness.reward(1.0, round=1)
    assert read(harness).groups == (1, 1)
    assert of_rounds(harness) == [[2.0, -1.5], [0.0, 3.0], [0.5, 0.0], [0.0, 0.0]]
    assert of_rounds(harness, "b") == [[4.0, 0.0]]
    np.testing.assert_equal(measured(harness), {2: [7.0, NAN], 3: [NAN, 9.0]})
    assert measured(harness, 1) == {2: [7.0, pytest.approx(NAN, nan_ok=True)]}
    assert measured(harness, name="b") == {}


def test_without_names_nothing_is_read(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime")
    harness.rounds(2)
    found = read(harness)
    assert found.groups == ()
    assert found.trajectories[""].covariates is None


def test_what_a_session_does_not_know_is_refused_and_nothing_is_written(
    harness: ServiceHarness,
) -> None:
    harness.create(**TOLD)
    harness.rounds(1, rewarded=False)
    field = "covariates.snow"
    snow = {"covariates": {"rain": 1.0, "snow": 1.0}}
    refused(harness, "unknown_field", field, lambda: harness.decide(**snow))
    refused(harness, "unknown_field", field, lambda: harness.reward(1.0, round=1, **snow))
    harness.reward(1.0, round=1)
    again = {"round": 1, "correct": True, "reward_id": "x"}
    refused(harness, "unknown_field", field, lambda: harness.reward(2.0, **again, **snow))
    log = Log(harness.key, "", np.ones((2, 2)), [None] * 2, covariates={"snow": [1.0, 2.0]})
    append = append_history(log, harness.agents, lambda *left: None)
    refused(harness, "unknown_field", field, harness.run_large, append)
    harness.create()
    rain = {"covariates": {"rain": 1.0}}
    refused(harness, "unknown_field", "covariates.rain", lambda: harness.decide(**rain))
    harness.decide(covariates={})
    harness.reward(1.0, round=1, covariates=None)


def test_a_retry_says_the_same(harness: ServiceHarness) -> None:
    harness.create(**TOLD)
    harness.rounds(2, rewarded=False)
    one = {"round": 1, "covariates": {"rain": 1.0, "sun": 0.0}}
    assert harness.reward(1.0, **one).accepted == 1
    same = {"round": 1, "covariates": {"sun": -0.0, "rain": 1}}
    assert harness.reward(1.0, **same).repeated == 1
    for other in (None, {"rain": 1.0}, {"rain": 1.0, "sun": 2.0}):
        said = {"round": 1, "covariates": other}
        refused(
            harness, "reward_conflict", "covariates", lambda said=said: harness.reward(1.0, **said)
        )
    named = {"round": 2, "reward_id": "a", "covariates": {"rain": 1.0}}
    assert harness.reward(1.0, **named).accepted == 1
    assert harness.reward(1.0, **named).repeated == 1
    less = {"round": 2, "reward_id": "a"}
    refused(harness, "reward_conflict", "reward_id", lambda: harness.reward(1.0, **less))


def test_a_correction_keeps_covariates_or_replaces_them(harness: ServiceHarness) -> None:
    harness.create(**TOLD)
    harness.rounds(1, rewarded=False)
    harness.reward(1.0, round=1, covariates={"rain": 5.0})
    kept = {"round": 1, "correct": True, "reward_id": "kept"}
    other = {"replaces": "kept", "reward_id": "other", "covariates": {"sun": 6.0}}
    assert harness.reward(2.0, **kept).accepted == 1
    assert harness.reward(2.0, **other).accepted == 1
    for again in (kept, other):  # each retry is one, also after the other correction
        assert harness.reward(2.0, **again).repeated == 1
    # back to the first value: the covariates stay those in force
    assert harness.reward(1.0, round=1, correct=True, reward_id="back").accepted == 1
    found = [measured(harness, n)[1] for n in (1, 2, 3, 4)]
    np.testing.assert_equal(found, [[5.0, NAN], [5.0, NAN], [NAN, 6.0], [NAN, 6.0]])


def test_in_sum_mode_the_last_reward_of_a_round_says_it(harness: ServiceHarness) -> None:
    harness.create(**TOLD, reward_mode="sum")
    for _ in range(3):
        harness.decide(covariates={"rain": 1.0})
    harness.reward(1.0, round=1, reward_id="a", covariates={"rain": 2.0, "sun": 3.0})
    harness.reward(1.0, round=1, reward_id="b", covariates={"rain": 4.0})
    harness.now += 10.0
    harness.decide()
    np.testing.assert_equal(measured(harness), {1: [4.0, 3.0]})
    assert of_rounds(harness)[:3] == [[1.0, 0.0]] * 3


def test_a_default_reward_has_the_covariates_of_its_round(harness: ServiceHarness) -> None:
    harness.create(**TOLD, default_reward=0.5)
    for _ in range(3):
        harness.decide(covariates={"rain": 1.0})
    harness.reward(2.0, round=2, covariates={"rain": 3.0})
    found = read(harness).trajectories[""].measurements
    assert found.value.tolist()[:2] == [0.5, 2.0]
    np.testing.assert_equal(measured(harness), {2: [3.0, NAN]})


def test_a_void_decision_leaves_the_covariates_of_its_round(harness: ServiceHarness) -> None:
    harness.create(**TOLD)
    harness.decide(covariates={"rain": 1.0})
    harness.run(void_decision(harness.key, "", "~1", harness.agents))
    assert not read(harness).trajectories[""].contexts.any()
    assert of_rounds(harness) == [[1.0, 0.0]]


def lived(harness: ServiceHarness) -> None:
    harness.create(**TOLD)
    log = Log(
        *(harness.key, "", np.ones((4, 2)), [1.0, None, 2.0, 3.0], "log", b"0" * 16),
        covariates={"sun": [1.0, None, 2.5, None], "rain": [None, None, 1e-3, 0.0]},
    )
    harness.run_large(append_history(log, harness.agents, lambda *left: None))
    harness.decide("b", covariates={"rain": 1 / 3})
    harness.reward(1.5, "b", round=1, covariates={"rain": 2 / 3})
    harness.reward(2.5, "b", round=1, correct=True, reward_id="x")


def test_an_export_carries_them(harness: ServiceHarness, tmp_path: Path) -> None:
    lived(harness)
    before, said = content(harness), (of_rounds(harness), measured(harness, name="b"))
    assert said[0] == [[0.0, 1.0], [0.0, 0.0], [1e-3, 2.5], [0.0, 0.0]]
    assert before.count(b'"covariates":{') == 6  # the log's second round has none
    session, _ = harness.import_file(tmp_path, before)
    harness.key = session.key
    assert content(harness).splitlines()[1:-1] == before.splitlines()[1:-1]
    assert (of_rounds(harness), str(measured(harness, name="b"))) == (said[0], str(said[1]))


@pytest.mark.parametrize("wrong", [b'{"snow":1.0}', b'{"rain":"wet"}', b'{"rain":NaN}', b'"rain"'])
def test_a_file_with_other_covariates_is_refused(harness: ServiceHarness, wrong: bytes) -> None:
    lived(harness)
    lines = [line + b"\n" for line in content(harness).splitlines()[:-1]]
    assert any(b'{"rain":0.3333333333333333}' in line for line in lines)
    lines = [line.replace(b'{"rain":0.3333333333333333}', wrong) for line in lines]
    with pytest.raises(Problem) as raised:
        checked(b"".join(lines))
    named = "snow" if b"snow" in wrong else "rain"
    assert raised.value.field in ("decision.covariates", f"decision.covariates.{named}")


def test_a_copy_may_have_fewer_covariates(harness: ServiceHarness, tmp_path: Path) -> None:
    lived(harness)
    options = {"options": {"covariates": ["sun"]}}
    large = FitCost(1e9, 1e9)
    copy, agent = copied_session(harness.session, options, False, large, harness.now)
    with harness.store.reader() as reader:
        file = b"".join(copy_session(reader, harness.session, copy, agent))
    session, _ = harness.import_file(tmp_path, file)
    harness.key = session.key
    assert of_rounds(harness) == [[1.0], [0.0], [2.5], [0.0]]
    assert measured(harness, name="b") == {}
