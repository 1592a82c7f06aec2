"""A file cannot say that somebody else played a round than did: groups follow from the seed."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.session.records import SessionKey
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import Records, checked, exported, resealed

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
PLAYERS = ("agent", "control", "caller", "guard")


@dataclass(frozen=True, slots=True)
class Trip(SessionCommand[None]):
    """What harm does."""

    key: SessionKey

    def __call__(self, uow: UnitOfWork) -> None:
        session = uow.session(self.key)
        assert session is not None
        session.trial = replace(session.trial, guard="tripped")
        uow.save(session)


@pytest.fixture(scope="module", params=["uniform", "default_arm"])
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Rounds with and without action, of everybody who may play."""
    path: Path = tmp_path_factory.mktemp("played")
    harness = ServiceHarness(path)
    holdout = {"share": 0.5, "policy": request.param, "planned_rounds": 99, "guard": True}
    harness.create(holdout=holdout)
    for _ in range(2):
        for i in range(8):
            harness.decide(f"u{i}", contexts=ARMS, default_arm=2)
            harness.decide(f"u{i}", contexts=None)
        harness.decide("forced", contexts=ARMS, forced_arm=1)
        harness.run(Trip(harness.key))
    content = exported(harness)
    harness.close()
    assert checked(content).n_rounds == 34
    return [json.loads(line) for line in content.splitlines()[:-1]]


def forgery(records: Records, place: int, **values: Any) -> str:
    """The field of the refusal of a file with other values in this record; none: it passes."""
    forged = [dict(record) for record in records]
    forged[place].update(values)
    try:
        checked(resealed(forged))
    except Problem as problem:
        return str(problem.field)
    return ""


def test_nobody_else_can_be_said_to_have_played(records: Records) -> None:
    """A file alone knows whether a guard had tripped, and what a caller forced."""
    passed = set()
    for place, record in enumerate(records):
        if record["record"] != "decision":
            continue
        for by in PLAYERS:
            field = forgery(records, place, played_by=by)
            if by != record["played_by"] and not field:
                passed.add((record["played_by"], by, record["arm"] is None))
    acted = {(was, by) for was, by, is_rest in passed if not is_rest}
    rested = {(was, by) for was, by, is_rest in passed if is_rest}
    assert not {by for was, by in acted if was == "agent"}
    assert not {was for was, by in acted if by == "agent"}
    assert not rested & {("agent", "control"), ("control", "agent")}
    if json.loads(records[0]["session"]["trial"])["policy"] == "uniform":  # whose draw is known
        assert not acted & {("caller", "control"), ("caller", "guard")}


@pytest.mark.parametrize("by", ["control", "guard"])
def test_what_control_draws_cannot_be_another_arm_or_another_chance(
    records: Records, by: str
) -> None:
    place = next(i for i, one in enumerate(records) if one.get("played_by") == by)
    other = (records[place]["arm"] + 1) % 3
    for agent_arm in (None, 3):
        assert forgery(records, place, agent_arm=agent_arm) == "decision.agent_arm"
    if records[place]["propensity"] is None:
        assert forgery(records, place, propensity=0.5) == "decision.propensity"
    else:
        for propensity in (None, 0.5):
            assert forgery(records, place, propensity=propensity) == "decision.propensity"
        assert forgery(records, place, arm=other) == "decision.arm"


@pytest.mark.parametrize(
    "forged",
    [
        {"share": 0.0},
        {"guard": "broken"},
        {"since": 35},
        {"since_reward": 1},
        {"policy": {"session": "x", "arm": 1}},
        {"policy": {}},
    ],
)
def test_a_trial_that_no_session_has_is_refused(records: Records, forged: dict[str, Any]) -> None:
    trial = json.loads(records[0]["session"]["trial"]) | forged
    session = {**records[0]["session"], "trial": json.dumps(trial)}
    field = "guard" if "share" in forged else "trial"  # nothing could have armed it
    assert forgery(records, 0, session=session) == f"header.session.{field}"


def test_a_file_without_a_holdout_knows_no_group(records: Records) -> None:
    trial = json.loads(records[0]["session"]["trial"]) | {"share": 0.0, "guard": "off"}
    session = {**records[0]["session"], "trial": json.dumps(trial)}
    assert forgery(records, 0, session=session) == "decision.played_by"
